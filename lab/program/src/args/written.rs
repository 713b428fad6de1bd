//! Files that a command writes.

use super::farm::{self, Farm, FarmCommand, Try};
use super::{Bench, Command, Net, NetCommand, Output, Sim, SimCommand};
use sidecore_measure::files::given;
use sidecore_report::paths::Named;

impl Command {
    pub(crate) fn files(&self) -> Vec<Named<'_>> {
        match self {
            Self::Bench(args) => args.named(),
            Self::Sim(args) => args.named(),
            Self::Net(args) => args.named(),
            Self::Farm(args) => args.named(),
            Self::NetEnd | Self::BenchClient | Self::Manuals(_) | Self::Other(_) => Vec::new(),
        }
    }
}

impl Bench {
    fn named(&self) -> Vec<Named<'_>> {
        let mut named = self.files.named();
        if self.scenarios.iter().any(|word| word == "calibrate") {
            named.push(("--plan", &self.plan));
        }
        named
    }
}

impl Farm {
    fn named(&self) -> Vec<Named<'_>> {
        match &self.command {
            FarmCommand::Try(Try { common, .. }) | FarmCommand::Bench(farm::Bench { common, .. }) => {
                given([("--json", &common.json)])
            }
            FarmCommand::Pull(_) => Vec::new(),
        }
    }
}

impl Output {
    fn named(&self) -> Vec<Named<'_>> {
        given([("--json", &self.json), ("--markdown", &self.markdown)])
    }
}

impl Sim {
    fn named(&self) -> Vec<Named<'_>> {
        match &self.command {
            None => self.plans.output.named(),
            Some(SimCommand::Bakeoff { output, .. }) => output.named(),
            Some(SimCommand::Choose(args)) => args.output.named(),
            Some(SimCommand::Fit(args)) => [args.output.named(), given([("--write", &args.write)])].concat(),
            Some(SimCommand::Replay(args)) => given([("--json", &args.json)]),
            Some(SimCommand::New(args)) => vec![("new", &args.file)],
            Some(
                SimCommand::Waiting(_)
                | SimCommand::Gather(_)
                | SimCommand::Faults(_)
                | SimCommand::Explain(_)
                | SimCommand::Speed,
            ) => Vec::new(),
        }
    }
}

impl Net {
    fn named(&self) -> Vec<Named<'_>> {
        match &self.command {
            NetCommand::Measure(args) => [args.files.named(), given([("--folded", &args.folded)])].concat(),
            NetCommand::Where(args) => [args.files.named(), given([("--folded", &args.folded)])].concat(),
            NetCommand::Tune(args) => args.files.named(),
            NetCommand::Why(args) => args.files.named(),
            NetCommand::Papers(args) => args.files.named(),
            NetCommand::Link(args) => given([("--json", &args.json)]),
            NetCommand::Peer(_) => Vec::new(),
        }
    }
}
