//! Other programs that a measurement needs, and what they and the service cost.

use super::error::BenchError;
use std::fs;
use std::process::{Command, Stdio};

/// What the names of the service's threads begin with.
const SERVICE_THREADS: &str = "sidecore";

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

/// CPU time that a thread used so far, ns: of a process with one thread all of it.
pub(super) fn cpu(process: u32, thread: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    let text = fs::read_to_string(&path).map_err(|error| BenchError::new(format!("{path}: {error}")))?;
    let ran = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ran.ok_or_else(|| BenchError::new(format!("{path} does not begin with a time")))
}

/// CPU time that the threads of the service in this process used so far, ns.
pub(super) fn service_cpu() -> Result<u64, BenchError> {
    let process = std::process::id();
    let mut sum = 0;
    for thread in fs::read_dir("/proc/self/task").map_err(BenchError::new)? {
        let path = thread.map_err(BenchError::new)?.path();
        let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        // The main thread has the command's name, and only waits and counts.
        if let Some(thread) = number.filter(|number| *number != process && name.starts_with(SERVICE_THREADS)) {
            sum += cpu(process, thread)?;
        }
    }
    Ok(sum)
}
