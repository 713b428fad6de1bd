//! Events that were given back to the queue until they are due.

use sidecore_core::time::Nanos;
use std::collections::BTreeMap;

const SECOND: Nanos = 1_000_000_000;

/// How many events are due at which second since 1970. It has one entry for each second, whatever the number of events.
#[derive(Debug, Default)]
pub(super) struct Delays {
    due: BTreeMap<u64, u64>,
    total: u64,
}

impl Delays {
    /// `due`: ns since 1970.
    pub(super) fn add(&mut self, due: Nanos) {
        *self.due.entry(due.div_ceil(SECOND)).or_default() += 1;
        self.total += 1;
    }

    /// Events that are not due yet.
    pub(super) fn len(&mut self, since_1970: Nanos) -> u64 {
        while let Some(first) = self.due.first_entry().filter(|first| first.key().saturating_mul(SECOND) <= since_1970)
        {
            self.total -= first.remove();
        }
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_counted_no_longer() {
        let mut delays = Delays::default();
        for due in [SECOND, SECOND + 1, 2 * SECOND, 9 * SECOND, Nanos::MAX] {
            delays.add(due);
        }
        assert_eq!(
            [0, SECOND - 1, SECOND, 2 * SECOND - 1, 2 * SECOND, 10 * SECOND].map(|now| delays.len(now)),
            [5, 5, 4, 4, 2, 1]
        );
    }
}
