//! Counts of foreign messages and of nodes without a place, logged at most once a second.

use crate::status::Totals;
use sidecore_core::time::Nanos;
use sidecore_terminal::output;

const PAUSE: Nanos = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Counts {
    until: Nanos,
    told: (u64, u64),
}

impl Counts {
    pub(super) fn tell(&mut self, now: Nanos, totals: &Totals) {
        let (garbage, turned_away) = (totals.garbage, totals.turned_away);
        if self.until > now || self.told == (garbage, turned_away) {
            return;
        }
        (self.told, self.until) = ((garbage, turned_away), now.saturating_add(PAUSE));
        output::tell(format_args!(
            "until now {garbage} messages that no node sends, {turned_away} times no place for a node"
        ));
    }
}
