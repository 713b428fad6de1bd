//! The files that a command is asked to write.

use super::{Bench, Command, Files, Net, NetCommand, Output, Sim, SimCommand};
use std::path::{Path, PathBuf};

impl Command {
    /// All of them.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let named: Vec<&Option<PathBuf>> = match self {
            Self::Bench(Bench { files, scenarios, plan, .. }) => {
                let calibrates = scenarios.contains(&super::Scenario::Calibrate);
                return files
                    .named()
                    .into_iter()
                    .flatten()
                    .chain(calibrates.then_some(plan))
                    .map(PathBuf::as_path)
                    .collect();
            }
            Self::Try(args) => args.files.named().to_vec(),
            Self::Sim(args) => args.named(),
            Self::Net(args) => args.named(),
            Self::NetEnd | Self::BenchClient | Self::Other(_) => Vec::new(),
        };
        named.into_iter().flatten().map(PathBuf::as_path).collect()
    }
}

impl Files {
    fn named(&self) -> [&Option<PathBuf>; 3] {
        [&self.json, &self.markdown, &self.html]
    }
}

impl Output {
    fn named(&self) -> Vec<&Option<PathBuf>> {
        vec![&self.json, &self.markdown]
    }
}

impl Sim {
    fn named(&self) -> Vec<&Option<PathBuf>> {
        match &self.command {
            None => self.plans.output.named(),
            Some(SimCommand::Bakeoff { output, .. } | SimCommand::Waiting { output, .. }) => output.named(),
            Some(SimCommand::Choose(args)) => args.output.named(),
            Some(SimCommand::Fit(args)) => args.output.named().into_iter().chain([&args.write]).collect(),
            Some(SimCommand::Replay(args)) => vec![&args.json],
            Some(SimCommand::Faults(_) | SimCommand::Speed) => Vec::new(),
        }
    }
}

impl Net {
    fn named(&self) -> Vec<&Option<PathBuf>> {
        match &self.command {
            NetCommand::Measure(args) => args.files.named().into_iter().chain([&args.folded]).collect(),
            NetCommand::Where(args) => args.files.named().into_iter().chain([&args.folded]).collect(),
            NetCommand::Tune(args) => args.files.named().to_vec(),
            NetCommand::Papers(args) => args.files.named().to_vec(),
            NetCommand::Link(args) => vec![&args.json],
            NetCommand::Peer(_) => Vec::new(),
        }
    }
}
