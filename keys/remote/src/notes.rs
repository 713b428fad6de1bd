//! Log lines about the peer, at a bounded rate. Each peer and reason has a few, then one a minute with the number left
//! out. A peer that floods the log hides only its own lines.

use sidecore_core::policy::rate::{Origin, Owner, Pace, RateLimit};
use sidecore_core::time::Nanos;
use sidecore_nats::MAX_NAME_BYTES;

/// Five lines of one peer and reason before the rate applies. Core's rule bounds the lines of many names together.
const PACE: Pace = Pace { burst: 5, every: 60_000_000_000, origins: 256, of_group: REASONS, reserved: 0 };
const REASONS: usize = 7;
const MAX_WAITING_LINES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Joined,
    Lost,
    Offer,
    Wrong,
    Denied,
    Version,
    Declined,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Joined => "that it joined",
            Self::Lost => "that it was lost",
            Self::Offer => "of offers that are not taken",
            Self::Wrong => "of wrong results",
            Self::Denied => "of refusals by NATS",
            Self::Version => "of another version",
            Self::Declined => "of sealed messages that the service declines",
        }
    }
}

/// A peer's name, of a fixed length: a limit keeps copies of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Peer([u8; MAX_NAME_BYTES]);

impl Peer {
    fn new(name: &str) -> Self {
        let mut bytes = [0; MAX_NAME_BYTES];
        bytes.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        Self(bytes)
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.write_str(&String::from_utf8_lossy(name))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source(Peer, Reason);

impl Origin for Source {
    type Group = Peer;

    fn group(self) -> Peer {
        self.0
    }

    fn is_trusted(self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct Notes {
    limit: RateLimit<Source>,
    lines: Vec<String>,
}

impl Notes {
    pub(crate) fn new() -> Self {
        Self { limit: RateLimit::new(PACE), lines: Vec::new() }
    }

    /// Adds a line, if the rate allows. `peer`: name of the peer; empty for a NATS server.
    pub(crate) fn note(&mut self, now: Nanos, peer: &str, reason: Reason, line: String) {
        if self.lines.len() >= MAX_WAITING_LINES {
            return;
        }
        match self.limit.tell(now, Source(Peer::new(peer), reason)) {
            Some(0) => self.lines.push(line),
            Some(quiet) => self.lines.push(format!("{line} ({quiet} lines {} before were left out)", reason.name())),
            None => {}
        }
    }

    pub(crate) fn take(&mut self, now: Nanos) -> Vec<String> {
        while let Some(quiet) = self.limit.overdue(now) {
            let count = quiet.count;
            self.lines.push(match quiet.of {
                Owner::One(Source(peer, reason)) => format!("{peer}: {count} lines {} were left out", reason.name()),
                Owner::Group(peer) => format!("{peer}: {count} lines were left out"),
                Owner::Others => format!("{count} lines of several others were left out"),
            });
        }
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn a_peer_that_fills_the_log_has_a_few_lines_a_minute_and_the_others_have_theirs() {
        let mut notes = Notes::new();
        let mut told = Vec::new();
        for at in 0..10_000 {
            let now = at * SECOND / 400;
            for reason in [Reason::Joined, Reason::Lost] {
                notes.note(now, "bad", reason, format!("bad {}", reason.name()));
            }
            if at == 9_000 {
                notes.note(now, "good", Reason::Joined, "good joined".to_owned());
            }
            told.extend(notes.take(now));
        }
        assert!(told.contains(&"good joined".to_owned()));
        assert_eq!(told.len(), 11, "{told:?}");
        let later = notes.take(100 * SECOND);
        assert_eq!(
            later,
            ["bad: 9995 lines that it joined were left out", "bad: 9995 lines that it was lost were left out"]
        );
    }
}
