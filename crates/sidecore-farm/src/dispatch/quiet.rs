//! What a dispatcher tells people: at most once a second, whatever others do to it.

use crate::output;
use crate::status::Totals;
use sidecore_core::time::Nanos;

const PAUSE: Nanos = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// Nothing is told before.
    until: Nanos,
    told: Totals,
}

impl Quiet {
    /// Tells it, unless something was told a moment ago.
    pub(super) fn tell(&mut self, now: Nanos, text: &str) {
        if self.until <= now {
            self.until = now.saturating_add(PAUSE);
            output::tell(text);
        }
    }

    /// Tells of messages that nobody of the farm sends and of nodes that found no place, where there are more of them.
    pub(super) fn count(&mut self, now: Nanos, totals: &Totals) {
        let (garbage, turned_away) = (totals.garbage, totals.turned_away);
        if self.until <= now && (garbage, turned_away) != (self.told.garbage, self.told.turned_away) {
            self.told = *totals;
            self.tell(
                now,
                &format!("until now {garbage} messages that no node sends, {turned_away} times no place for a node"),
            );
        }
    }
}
