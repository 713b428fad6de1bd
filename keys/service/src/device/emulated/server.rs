//! One server in modelled time, which passes independently of calls.

use sidecore_core::time::Nanos;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Server<T> {
    /// Each with its time, ns.
    queue: VecDeque<(T, Nanos)>,
    /// With its end, ns.
    serving: Option<(T, Nanos)>,
    /// Each with its end, ns.
    done: VecDeque<(T, Nanos)>,
}

impl<T> Server<T> {
    pub(super) fn new(depth: usize) -> Self {
        Self { queue: VecDeque::with_capacity(depth), serving: None, done: VecDeque::with_capacity(depth) }
    }

    /// An item comes that takes `took` ns. Times of calls must not go back.
    pub(super) fn submit(&mut self, now: Nanos, took: Nanos, item: T) {
        self.pass(now);
        self.queue.push_back((item, took));
        if self.serving.is_none() {
            self.begin(now);
        }
    }

    pub(super) fn poll(&mut self, now: Nanos) -> Option<T> {
        self.pass(now);
        self.done.pop_front().map(|(item, _)| item)
    }

    #[inline]
    pub(super) fn due(&self) -> Option<Nanos> {
        let done = self.done.front().map(|(_, at)| *at);
        done.or(self.serving.as_ref().map(|(_, end)| *end))
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.done.clear();
        self.serving = None;
    }

    fn pass(&mut self, now: Nanos) {
        while let Some((item, end)) = self.serving.take_if(|(_, end)| *end <= now) {
            self.done.push_back((item, end));
            self.begin(end);
        }
    }

    fn begin(&mut self, now: Nanos) {
        self.serving = self.queue.pop_front().map(|(item, took)| (item, now.saturating_add(took)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_served_as_they_come() {
        let mut server = Server::new(4);
        assert_eq!(server.due(), None);
        for (at, took, item) in [(10, 5, 1), (11, 2, 2), (20, 1, 3)] {
            server.submit(at, took, item);
        }
        assert_eq!(server.due(), Some(15));
        assert_eq!((server.poll(15), server.poll(15), server.poll(21)), (Some(1), Some(2), Some(3)));
        server.submit(30, 1, 4);
        server.clear();
        assert_eq!((server.due(), server.poll(99)), (None, None));
    }

    #[test]
    fn what_passed_unseen_passed_in_order() {
        let mut server = Server::new(4);
        server.submit(0, 20, 1);
        server.submit(12, 5, 2);
        assert_eq!([server.poll(24), server.poll(24), server.poll(25)], [Some(1), None, Some(2)]);
    }
}
