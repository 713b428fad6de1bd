//! Which numbered messages came already. Each number is taken once, in any order within a window; older ones are
//! refused, since nobody remembers whether they came.
//!
//! The window is a ring of words of which only those that it enters are cleared (RFC 6479), so a message costs the
//! same at each place.

/// Numbers behind the highest one that may still come.
pub const WINDOW: u64 = 4096;
const BITS: u64 = u64::BITS as u64;
/// The window and one word more, rounded up: a word that is entered is none of the window's.
const WORDS: usize = 128;

/// Numbers taken so far.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// One above the highest.
    next: u64,
    taken: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { next: 0, taken: [0; WORDS] }
    }
}

impl ReplayWindow {
    /// Takes a number. `false`: it was taken before, or is too old to know. To be asked only for a message that is known
    /// to be genuine, since a high number closes the window for low ones.
    pub fn take(&mut self, number: u64) -> bool {
        if self.next.saturating_sub(number) > WINDOW || number == u64::MAX {
            return false;
        }
        if number >= self.next {
            let last = number / BITS;
            let first = self.next.div_ceil(BITS).max((last + 1).saturating_sub(WORDS as u64));
            (first..=last).for_each(|word| self.taken[place(word)] = 0);
            self.next = number + 1;
        }
        let (word, bit) = (&mut self.taken[place(number / BITS)], 1 << (number % BITS));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// One above the highest number taken.
    pub fn next(&self) -> u64 {
        self.next
    }
}

fn place(word: u64) -> usize {
    (word % WORDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_taken_once_and_only_within_the_window() {
        let mut window = ReplayWindow::default();
        assert!(window.take(0) && !window.take(0));
        assert!(window.take(WINDOW) && window.take(1) && !window.take(0));
        assert!(window.take(WINDOW + 1) && !window.take(1) && window.take(2));
        assert!(window.take(1 << 40) && !window.take(WINDOW + 2) && window.take((1 << 40) - WINDOW + 1));
        assert!(!window.take(u64::MAX), "no number is above it");
        assert_eq!(window.next(), (1 << 40) + 1);
    }

    proptest! {
        #[test]
        fn it_knows_each_number_of_its_window(steps in prop::collection::vec((any::<bool>(), 0..3 * WINDOW), 1..400)) {
            let (mut window, mut taken, mut highest) = (ReplayWindow::default(), BTreeSet::new(), 0);
            for (forward, by) in steps {
                let number = if forward { highest + by / 8 } else { u64::saturating_sub(highest, by) };
                let may_come = taken.is_empty() || highest - number.min(highest) < WINDOW;
                prop_assert_eq!(window.take(number), may_come && !taken.contains(&number));
                if may_come {
                    taken.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
