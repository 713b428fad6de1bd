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
    /// Not serialized: each row has it.
    #[serde(skip)]
    pub machine: String,
    /// Not serialized: each row has it.
    #[serde(skip)]
    pub commit: String,
}

impl About {
    pub(crate) fn lines(&self) -> [String; 3] {
        let Self { command, version, date, cores, machine, commit, .. } = self;
        [
            format!("Command: {command}"),
            format!("sidecore {version}, commit {commit}, {date}"),
            format!("{machine}; {cores} to use"),
        ]
    }
}
