//! The command, program, time and machine of a run: needed to judge rows and to repeat them.

use serde::Serialize;

/// A run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct About {
    /// The command line in a shell's syntax.
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// Time of completion, UTC.
    pub date: String,
    /// Cores that the program was allowed to use.
    pub cores: usize,
    /// Name of the processor.
    pub cpu: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Settings of the network path; empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Not serialized: each row has it.
    #[serde(skip)]
    pub machine: String,
    /// Not serialized: each row has it.
    #[serde(skip)]
    pub commit: String,
}

impl About {
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { command, version, date, cores, machine, commit, path, .. } = self;
        let lines = vec![
            format!("Command: {command}"),
            format!("sidecore {version}, commit {commit}, {date}"),
            format!("{machine}; {cores} to use"),
        ];
        lines.into_iter().chain((!path.is_empty()).then(|| path.clone())).collect()
    }
}
