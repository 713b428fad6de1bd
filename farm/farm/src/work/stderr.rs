//! Messages of programs on standard error: passed on at a bounded rate, with the last line kept as a reason.

use sidecore_terminal::output;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest line that is passed on, and longest last line in a reason, bytes.
const MAX_LINE_BYTES: usize = 1_000;
const MAX_REASON_BYTES: usize = 200;
/// Lines of all programs of a node before the rate applies, and lines a second afterwards.
const BURST: u32 = 100;
const PER_SECOND: u32 = 20;

#[derive(Clone, Debug)]
pub(super) struct StderrPump(Arc<Mutex<Allowance>>);

#[derive(Debug)]
struct Allowance {
    left: u32,
    at: Instant,
    omitted: u64,
}

pub(super) struct StderrLog {
    pump: StderrPump,
    of: String,
    line: Vec<u8>,
    last: String,
}

impl StderrPump {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Allowance::new(Instant::now()))))
    }

    pub(super) fn of(&self, of: &str) -> StderrLog {
        StderrLog { pump: self.clone(), of: clean(of, MAX_REASON_BYTES), line: Vec::new(), last: String::new() }
    }

    fn pass_on(&self, of: &str, line: &str) {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        match taken {
            Some(0) => output::tell(format_args!("{of}: {line}")),
            Some(omitted) => output::tell(format_args!("{of}: {line} ({omitted} lines of programs were left out)")),
            None => {}
        }
    }
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { left: BURST, at: now, omitted: 0 }
    }

    /// Uses one. Returns the number of lines left out before it. `None`: none is left.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let every = Duration::from_secs(1) / PER_SECOND;
        let more = now.saturating_duration_since(self.at).as_nanos() / every.as_nanos();
        let more = u32::try_from(more).unwrap_or(BURST).min(BURST);
        self.left = (self.left + more).min(BURST);
        self.at = if self.left == BURST { now } else { self.at + every * more };
        if self.left == 0 {
            self.omitted += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.omitted))
    }
}

impl StderrLog {
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        self.add(lines.next().unwrap_or_default());
        for line in lines {
            self.end();
            self.add(line);
        }
    }

    pub(super) fn end(&mut self) {
        let line = clean(&String::from_utf8_lossy(&self.line), MAX_LINE_BYTES);
        self.line.clear();
        if !line.is_empty() {
            self.pump.pass_on(&self.of, &line);
            self.last = line;
        }
    }

    pub(super) fn after(&self, what: &str) -> String {
        if self.last.is_empty() {
            return what.to_owned();
        }
        format!("{what}: {}", clean(&self.last, MAX_REASON_BYTES))
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Without control characters and outer spaces, `longest` bytes at most.
pub(super) fn clean(text: &str, longest: usize) -> String {
    let mut clean = String::new();
    for shown in text.trim().chars().filter(|shown| !shown.is_control()) {
        if clean.len() + shown.len_utf8() > longest {
            break;
        }
        clean.push(shown);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_kept_without_what_drives_a_terminal() {
        let mut log = StderrPump::new().of("test");
        assert_eq!(log.after("exit code 1"), "exit code 1");
        log.hear(b"first\nsec");
        log.hear(b"ond \x1b[31m\x07red\n\n  \n");
        assert_eq!(log.after("exit code 1"), "exit code 1: second [31mred");
        log.hear(b"no newline \xff");
        log.end();
        assert_eq!(log.after("exit code 1"), "exit code 1: no newline \u{fffd}");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let mut log = StderrPump::new().of("test");
        log.hear("ä".repeat(1_000_000).as_bytes());
        assert!(log.line.len() <= MAX_LINE_BYTES);
        log.hear(b"\n");
        assert_eq!(log.after("x"), format!("x: {}", "ä".repeat(MAX_REASON_BYTES / 2)));
    }

    #[test]
    fn lines_are_passed_on_as_fast_as_people_read() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let mut taken = |ms| allowance.take(start + Duration::from_millis(ms));
        for _ in 0..BURST {
            assert_eq!(taken(0), Some(0));
        }
        assert_eq!((taken(0), taken(49)), (None, None));
        assert_eq!((taken(50), taken(99)), (Some(2), None));
        assert_eq!((taken(150), taken(150), taken(150)), (Some(1), Some(0), None));
        for _ in 0..BURST {
            assert!(taken(1_000_000).is_some());
        }
        assert_eq!(taken(1_000_000), None, "nothing is saved up beyond that");
    }
}
