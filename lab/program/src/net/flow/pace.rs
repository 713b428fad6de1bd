//! Due times of messages.

use sidecore_ipc::sys::clock;
use std::thread;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Pace {
    /// Time between two messages, ns.
    gap: Option<u64>,
    /// Time of the next message, ns.
    due: u64,
}

impl Pace {
    /// `rate`: messages a second; `None`: each immediately after the previous one.
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self { gap: rate.map(|rate| (1e9 / rate) as u64), due: clock::now() }
    }

    /// Waits until the next message is due, and returns its due time. A message delayed by the previous one still
    /// counts from its due time.
    pub(super) fn next(&mut self) -> u64 {
        let now = clock::now();
        let Some(gap) = self.gap else { return now };
        let due = self.due;
        self.due += gap;
        if due <= now {
            return due;
        }
        thread::sleep(Duration::from_nanos(due - now));
        // A late end of the sleep does not belong to the path.
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
