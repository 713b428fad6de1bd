//! Log lines of a part that waits: each new reason, without repetition.

use sidecore_core::time::Nanos;
use sidecore_terminal::output;

/// Lines before the rate applies. After them one each `PAUSE`, ns, which is the latest.
const BURST: Nanos = 4;
const PAUSE: Nanos = 1_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// The reason for waiting; `None`: it goes on.
    state: Option<String>,
    due: Option<String>,
    until: Nanos,
}

impl Quiet {
    pub(crate) fn waits(&mut self, now: Nanos, text: &str) {
        tell(self.changed(now, Some(text), text));
    }

    pub(crate) fn goes_on(&mut self, now: Nanos, text: &str) {
        tell(self.changed(now, None, text));
    }

    pub(crate) fn tick(&mut self, now: Nanos) {
        tell(self.turn(now));
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.state.is_some()
    }

    fn changed(&mut self, now: Nanos, state: Option<&str>, text: &str) -> Option<String> {
        if self.state.as_deref() != state {
            self.state = state.map(str::to_owned);
            self.due = Some(text.to_owned());
        }
        self.turn(now)
    }

    fn turn(&mut self, now: Nanos) -> Option<String> {
        if self.until > now.saturating_add((BURST - 1) * PAUSE) {
            return None;
        }
        let due = self.due.take()?;
        self.until = self.until.max(now).saturating_add(PAUSE);
        Some(due)
    }
}

fn tell(text: Option<String>) {
    if let Some(text) = text {
        output::tell(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn waits(quiet: &mut Quiet, now: Nanos, text: &str) -> Option<String> {
        quiet.changed(now, Some(text), text)
    }

    #[test]
    fn a_change_is_told_at_once_whatever_was_told_a_moment_ago_and_repetition_is_not() {
        let mut quiet = Quiet::default();
        assert_eq!(waits(&mut quiet, 0, "gone").as_deref(), Some("gone"));
        assert_eq!(waits(&mut quiet, MS, "no JetStream").as_deref(), Some("no JetStream"));
        for ms in 2..100_000 {
            assert_eq!(waits(&mut quiet, ms * MS, "no JetStream"), None);
        }
        assert_eq!(quiet.changed(100_000 * MS, None, "going on").as_deref(), Some("going on"));
        assert_eq!(quiet.changed(100_001 * MS, None, "going on"), None);
        assert_eq!(waits(&mut quiet, 100_002 * MS, "no JetStream").as_deref(), Some("no JetStream"));
    }

    #[test]
    fn changes_without_end_are_limited_and_the_last_of_them_is_told() {
        let mut quiet = Quiet::default();
        let told = (0..2_000).filter(|ms| waits(&mut quiet, ms * MS, ["a", "b"][(*ms % 2) as usize]).is_some()).count();
        assert_eq!(told, 4 + 1);
        assert!(waits(&mut quiet, 2_000 * MS, "c").is_some());
        assert_eq!(waits(&mut quiet, 2_001 * MS, "d"), None);
        assert_eq!(quiet.turn(2_500 * MS), None);
        assert_eq!(quiet.turn(3_000 * MS).as_deref(), Some("d"));
        assert_eq!(quiet.turn(9_000 * MS), None);
    }
}
