//! A capacity shared by transfers: a bus, a memory, a link.
//!
//! Active transfers share the capacity max-min fairly: each gets an equal share unless it can use less, and the others
//! divide the rest. Round-robin arbitration of short bursts has this effect. Source: Bertsekas and Gallager, "Data
//! Networks", second edition, section 6.5.2.

use crate::engine::{Engine, Timer};
use sidecore_core::time::Nanos;

/// Smaller amounts count as zero, bytes: times are whole nanoseconds.
const DUST: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
struct Transfer {
    key: u32,
    left: f64,
    fastest: f64,
    rate: f64,
}

pub(crate) struct Pipe<E> {
    capacity: f64,
    transfers: Vec<Transfer>,
    since: Nanos,
    timer: Option<Timer>,
    pub(crate) carried: f64,
    done: E,
}

impl<E: Copy> Pipe<E> {
    /// An idle pipe. `capacity`: bytes per ns. `done`: the event for the end of a transfer; the world must answer it
    /// with [`Pipe::finish`].
    pub(crate) fn new(capacity: f64, done: E) -> Self {
        Self { capacity, transfers: Vec::new(), since: 0, timer: None, carried: 0.0, done }
    }

    /// Starts a transfer of `bytes` bytes, at most `fastest` bytes per ns. `key` is returned at its end.
    pub(crate) fn start(&mut self, engine: &mut Engine<E>, key: u32, bytes: f64, fastest: f64) {
        self.settle(engine.now());
        self.transfers.push(Transfer { key, left: bytes.max(DUST), fastest: fastest.max(DUST), rate: 0.0 });
        self.share(engine);
    }

    /// After the event: removes a transfer that has ended, if any. Call it until there is none.
    pub(crate) fn finish(&mut self, engine: &mut Engine<E>) -> Option<u32> {
        self.settle(engine.now());
        let ended = self.transfers.iter().position(|transfer| transfer.left <= DUST);
        let key = ended.map(|index| self.transfers.remove(index).key);
        if key.is_none() {
            self.share(engine);
        }
        key
    }

    pub(crate) fn under_way(&self) -> usize {
        self.transfers.len()
    }

    fn settle(&mut self, now: Nanos) {
        let elapsed = (now - self.since) as f64;
        self.since = now;
        for transfer in &mut self.transfers {
            let moved = (transfer.rate * elapsed).min(transfer.left);
            transfer.left -= moved;
            self.carried += moved;
        }
    }

    fn share(&mut self, engine: &mut Engine<E>) {
        if let Some(timer) = self.timer.take() {
            engine.cancel(timer);
        }
        let mut order: Vec<usize> = (0..self.transfers.len()).collect();
        order.sort_by(|&a, &b| self.transfers[a].fastest.total_cmp(&self.transfers[b].fastest));
        let (mut left, mut others) = (self.capacity, order.len());
        for index in order {
            let rate = (left / others as f64).min(self.transfers[index].fastest);
            self.transfers[index].rate = rate;
            (left, others) = (left - rate, others - 1);
        }
        let first = self.transfers.iter().map(|transfer| (transfer.left / transfer.rate).ceil() as Nanos).min();
        self.timer = first.map(|delay| engine.after(delay, self.done));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::World;

    struct Bus {
        pipe: Pipe<Option<(u32, f64)>>,
        done: Vec<(Nanos, u32)>,
    }

    impl World for Bus {
        type Event = Option<(u32, f64)>;

        fn handle(&mut self, engine: &mut Engine<Self::Event>, event: Self::Event) {
            match event {
                Some((key, bytes)) => self.pipe.start(engine, key, bytes, if key == 9 { 0.25 } else { 10.0 }),
                None => {
                    while let Some(key) = self.pipe.finish(engine) {
                        self.done.push((engine.now(), key));
                    }
                }
            }
        }
    }

    fn run(starts: &[(Nanos, u32, f64)]) -> Bus {
        let mut engine = Engine::new(1);
        for &(at, key, bytes) in starts {
            engine.schedule(at, Some((key, bytes)));
        }
        let mut bus = Bus { pipe: Pipe::new(1.0, None), done: Vec::new() };
        engine.run(&mut bus, 10_000);
        bus
    }

    #[test]
    fn a_transfer_alone_has_all_and_two_have_half() {
        assert_eq!(run(&[(0, 1, 100.0)]).done, [(100, 1)]);
        let bus = run(&[(0, 1, 100.0), (50, 2, 100.0)]);
        assert_eq!(bus.done, [(150, 1), (200, 2)]);
        assert!((bus.pipe.carried - 200.0).abs() < 1e-6);
    }

    #[test]
    fn who_can_use_less_leaves_the_rest() {
        assert_eq!(run(&[(0, 9, 100.0), (0, 1, 75.0)]).done, [(100, 1), (400, 9)]);
    }

    #[test]
    fn transfers_that_end_together_all_end() {
        assert_eq!(run(&[(0, 1, 10.0), (0, 2, 10.0)]).done, [(20, 1), (20, 2)]);
    }
}
