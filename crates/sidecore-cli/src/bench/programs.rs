//! Other programs that a measurement needs.

use super::crew::BenchError;
use std::process::{Command, Stdio};

/// A command tied to a core, if one is given.
pub(super) fn on_core(cpu: Option<usize>, program: &str) -> Command {
    let Some(cpu) = cpu else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]);
    command
}

/// Runs a command to its end.
pub(super) fn done(command: &mut Command) -> Result<(), BenchError> {
    let output = command.stdin(Stdio::null()).output().map_err(BenchError::new)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(BenchError::new(format!("{} failed: {}", command.get_program().display(), said.trim())))
}
