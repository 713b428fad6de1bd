//! When the next message is due.

use sidecore::sys::clock;
use std::thread;
use std::time::Duration;

/// Messages at a rate, or as they come.
#[derive(Debug)]
pub(super) struct Pace {
    /// Between two messages, ns.
    gap: Option<u64>,
    /// When the next one is due, ns.
    due: u64,
}

impl Pace {
    /// So many a second; `None`: each as soon as the one before it is done.
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self { gap: rate.map(|rate| (1e9 / rate) as u64), due: clock::now() }
    }

    /// Waits until the next one is due. Returns from when on it is waited for: a message that is late, because the one
    /// before it took long, counts from when it should have gone.
    pub(super) fn next(&mut self) -> u64 {
        let now = clock::now();
        let Some(gap) = self.gap else { return now };
        let due = self.due;
        self.due += gap;
        if due <= now {
            return due;
        }
        thread::sleep(Duration::from_nanos(due - now));
        // What a sleep takes longer is not the path's.
        clock::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_message_counts_from_when_it_was_due() {
        let mut pace = Pace::new(Some(1e6));
        let began = pace.due;
        thread::sleep(Duration::from_millis(2));
        assert_eq!((pace.next(), pace.next()), (began, began + 1_000));
        let mut free = Pace::new(None);
        assert!(free.next() > began + 1_000_000);
    }
}
