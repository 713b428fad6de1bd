//! A taker's progress in the result stream: the start of a consumer that must be recreated.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The server has acknowledgements for all up to this number.
    floor: u64,
    taken: BTreeSet<u64>,
}

impl Progress {
    pub(super) fn has(&self, number: u64) -> bool {
        number <= self.floor || self.taken.contains(&number)
    }

    pub(super) fn take(&mut self, number: u64) {
        self.taken.insert(number);
    }

    pub(super) fn raise(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        self.taken = self.taken.split_off(&self.floor.saturating_add(1));
    }

    pub(super) fn next(&self) -> u64 {
        self.floor + 1
    }

    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_not_taken_counts_as_taken_and_what_is_remembered_ends() {
        let mut progress = Progress::default();
        assert!(!progress.has(1));
        for number in [1, 2, 4] {
            progress.take(number);
        }
        assert_eq!((progress.has(2), progress.has(3), progress.next()), (true, false, 1));
        progress.raise(2);
        assert_eq!((progress.has(1), progress.has(3), progress.has(4), progress.next()), (true, false, true, 3));
        assert_eq!(progress.len(), 1);
        progress.raise(1);
        assert_eq!(progress.next(), 3, "an answer that was late");
    }
}
