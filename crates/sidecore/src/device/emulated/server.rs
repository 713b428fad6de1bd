//! One server in modelled time, which passes independently of calls.

use sidecore_core::policy::order::Schedule;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// An item with its remaining work.
#[derive(Debug)]
struct Task<T> {
    rank: Nanos,
    /// Pieces that are not begun.
    pieces: u32,
    /// Time of the next piece, or of the one under way, and of each after it.
    first: Nanos,
    each: Nanos,
    item: T,
}

/// Serves items in pieces, least rank first; on a tie the earliest.
#[derive(Debug)]
pub(super) struct Server<T> {
    queue: VecDeque<Task<T>>,
    /// The item in service, and the end of its piece.
    serving: Option<(Task<T>, Nanos)>,
    done: VecDeque<(T, Nanos)>,
}

impl<T> Server<T> {
    pub(super) fn new(depth: usize) -> Self {
        Self { queue: VecDeque::with_capacity(depth), serving: None, done: VecDeque::with_capacity(depth) }
    }

    /// An item arrives that takes `took` ns in all. Times of calls must not go back.
    pub(super) fn submit(&mut self, now: Nanos, schedule: Schedule, took: Nanos, item: T) {
        self.pass(now);
        let Schedule { rank, chunks } = schedule;
        let each = took / Nanos::from(chunks);
        let first = took - each * Nanos::from(chunks - 1);
        self.queue.push_back(Task { rank, pieces: chunks, first, each, item });
        if self.serving.is_none() {
            self.begin(now);
        }
    }

    /// The next item done by then.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<T> {
        self.pass(now);
        self.done.pop_front().map(|(item, _)| item)
    }

    /// The end of the piece under way.
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

    /// Serves until that time, piece by piece.
    fn pass(&mut self, now: Nanos) {
        while let Some((task, end)) = self.serving.take_if(|(_, end)| *end <= now) {
            if task.pieces == 0 {
                self.done.push_back((task.item, end));
            } else {
                self.queue.push_front(task);
            }
            self.begin(end);
        }
    }

    fn begin(&mut self, now: Nanos) {
        // Ranks are 0 where items are served in order: then the first one is next.
        let index = match self.queue.front() {
            Some(first) if first.rank == 0 => 0,
            Some(_) => (0..self.queue.len()).min_by_key(|&index| self.queue[index].rank).unwrap_or(0),
            None => return,
        };
        if let Some(mut task) = self.queue.remove(index) {
            let piece = std::mem::replace(&mut task.first, task.each);
            task.pieces -= 1;
            self.serving = Some((task, now.saturating_add(piece)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(rank: Nanos, chunks: u32) -> Schedule {
        Schedule { rank, chunks }
    }

    fn ends(server: &mut Server<u32>, until: Nanos) -> Vec<(u32, Nanos)> {
        let mut ends = Vec::new();
        for now in 0..=until {
            ends.extend(std::iter::from_fn(|| server.poll(now)).map(|item| (item, now)));
        }
        ends
    }

    #[test]
    fn items_are_served_as_they_come() {
        let mut server = Server::new(4);
        assert_eq!(server.due(), None);
        for (at, took, item) in [(10, 5, 1), (11, 2, 2), (20, 1, 3)] {
            server.submit(at, Schedule::FIFO, took, item);
        }
        assert_eq!(server.due(), Some(15));
        assert_eq!((server.poll(15), server.poll(15), server.poll(21)), (Some(1), Some(2), Some(3)));
        server.submit(30, Schedule::FIFO, 1, 4);
        server.clear();
        assert_eq!((server.due(), server.poll(99)), (None, None));
    }

    #[test]
    fn the_short_passes_between_two_pieces() {
        let mut server = Server::new(4);
        server.submit(0, schedule(1_000, 3), 31, 1);
        server.submit(5, schedule(50, 1), 4, 2);
        server.submit(6, schedule(2_000, 1), 1, 3);
        // Pieces of 11, 10 and 10; after the first comes the short item, and the last one ends the sequence.
        assert_eq!(ends(&mut server, 100), [(2, 15), (1, 35), (3, 36)]);
    }

    #[test]
    fn what_passed_unseen_passed_in_order() {
        let mut server = Server::new(4);
        server.submit(0, schedule(1_000, 2), 20, 1);
        // At 12 the second piece is under way.
        server.submit(12, schedule(50, 1), 5, 2);
        assert_eq!([server.poll(100), server.poll(100), server.poll(100)], [Some(1), Some(2), None]);
    }
}
