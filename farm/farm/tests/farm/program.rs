//! Running `sidecore-farm`, and its output.

use serde_json::Value;
use sidecore_testing::Limit;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait, far longer than any step needs.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);
pub(crate) const MOMENT: Duration = Duration::from_millis(5);

pub(crate) fn farm(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-farm"));
    command.args(args).args(["--server", url]).env_remove("NATS_URL").env_remove("NATS_CREDS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run(url: &str, args: &[&str]) -> Output {
    run_with(url, args, &[])
}

pub(crate) fn run_with(url: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = farm(url, args).stdin(Stdio::piped()).spawn().unwrap();
    let _limit = Limit::of(&child);
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    // The program may end before it has read everything.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

pub(crate) fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
pub(crate) fn fine(output: &Output) -> String {
    let (code, out, err) = said(output);
    assert_eq!(code, 0, "{out}{err}");
    out
}

#[track_caller]
pub(crate) fn refused(output: &Output, code: i32, parts: &[&str]) {
    let (got, out, err) = said(output);
    assert_eq!(got, code, "{out}{err}");
    for part in parts {
        assert!(err.contains(part), "no {part:?} in: {err}");
    }
}

/// What `status` says; `null` while no dispatcher is active.
pub(crate) fn status(url: &str) -> Value {
    serde_json::from_slice(&run(url, &["status", "--json"]).stdout).unwrap_or_default()
}

#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < MAX_WAIT, "{what}: not within {MAX_WAIT:?}");
        thread::sleep(MOMENT);
    }
}

pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Option<BufReader<ChildStderr>>,
    _limit: Limit,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = child.stderr.take().map(BufReader::new);
        let limit = Limit::of(&child);
        Self { child, lines, _limit: limit }
    }

    #[track_caller]
    pub(crate) fn says(&mut self, part: &str) -> String {
        let lines = self.lines.as_mut().unwrap();
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended without {part:?}: {all}");
            if line.contains(part) {
                return line;
            }
            all += &line;
        }
    }

    pub(crate) fn stop(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    pub(crate) fn end(mut self) -> Output {
        let mut stderr = Vec::new();
        let mut lines = self.lines.take().unwrap();
        let rest = thread::spawn(move || {
            lines.read_to_end(&mut stderr).unwrap();
            stderr
        });
        let mut stdout = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        Output { status: self.child.wait().unwrap(), stdout, stderr: rest.join().unwrap() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
