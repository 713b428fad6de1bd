//! Attempts of an intruder in a service: a program makes each, in a process of its own, and prints the outcome.

use crate::skipped;
use rustix::io::Errno;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// The outcome of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was possible.
    Done,
    /// The system refused it with this error.
    Refused(Errno),
    /// The system killed the process for it.
    Killed,
    /// This machine has no such sandbox.
    NoSandbox(String),
}

/// Has `program` serve in that directory in this way, and try `what` on the victim, a path or a process.
///
/// # Panics
/// The program failed otherwise.
pub fn attempt(program: &str, directory: &Path, [what, how, victim]: [&str; 3]) -> Outcome {
    let output = Command::new(program).args(["attempt", what, how]).arg(directory).arg(victim).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.signal() == Some(Signal::SYS.as_raw()) {
        return Outcome::Killed;
    }
    if let Some(why) = said.strip_prefix("no sandbox: ") {
        return Outcome::NoSandbox(why.to_owned());
    }
    assert!(output.status.success(), "{what} {how}: {}", String::from_utf8_lossy(&output.stderr));
    if let Some(number) = said.strip_prefix("refused ") {
        return Outcome::Refused(Errno::from_raw_os_error(number.parse().unwrap()));
    }
    assert_eq!(said, "done", "{what} {how}");
    Outcome::Done
}

/// Whether the outcome is the expected one. Without a sandbox the attempt is reported as skipped.
///
/// # Panics
/// It is another one.
pub fn expect(what: &str, how: &str, outcome: &Outcome, expected: &Outcome) {
    match outcome {
        Outcome::NoSandbox(why) => not_tried(what, why),
        outcome => assert_eq!(outcome, expected, "{what} {how}"),
    }
}

/// Reports an attempt as skipped.
pub fn not_tried(what: &str, why: &str) {
    skipped(&format!("{what} inside the sandbox: {why}"));
}
