//! Other programs that measure a network.

use crate::net::error::ToolError;
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The only programs that an end runs on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::net) enum Tool {
    Iperf3,
    Sockperf,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Iperf3 => "iperf3",
            Self::Sockperf => "sockperf",
        }
    }

    pub(super) fn is_there(self) -> bool {
        std::env::var_os("PATH")
            .is_some_and(|all| std::env::split_paths(&all).any(|own| own.join(self.name()).is_file()))
    }

    pub(in crate::net) fn serve(self, arguments: &[String]) -> Result<Child, ToolError> {
        start(self.name(), arguments, Stdio::null(), Stdio::null())
    }
}

/// Starts a program. It is killed at the end of the starting thread.
pub(super) fn start(
    program: &'static str,
    arguments: &[String],
    output: Stdio,
    errors: Stdio,
) -> Result<Child, ToolError> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]).args(arguments);
    // An interrupt from the keyboard must not reach the program.
    command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    command.spawn().map_err(|source| ToolError::Start { tool: program, source })
}
