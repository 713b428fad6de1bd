//! The order of service of streams.
//!
//! Each client has a share of the time, refilled in rounds ([`Share`]). Within a client in credit, streams whose last
//! transfer was small come before those with a large one, so a quiet connection does not wait behind flooded ones.
//! After a limited number of quiet streams a flooded one has its turn all the same. An empty ring after a transfer
//! says less. A flooded one is empty for a moment at times, and a message may arrive at a quiet one during its
//! transfer.

use alloc::vec::Vec;
use sidecore_core::policy::admission::Share;
use sidecore_core::time::Nanos;

/// Time that each client gets in a round for each unit of weight, ns.
const QUANTUM: Nanos = 50_000;
/// Most quiet streams in a row before a flooded one.
const QUIET_IN_A_ROW: u32 = 64;
/// Least transfer of a flooded stream, bytes: several small messages.
const FLOOD: u32 = 512;

/// Number of a client, given when it is added and free again when it is removed.
pub type ClientId = usize;
/// Number of a stream of one client: its place among all of its banks.
pub type StreamId = u32;

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The ring holds more.
    More,
    /// The ring is empty, and the stream will be announced.
    Empty,
    /// The kernel takes no more now, and will report when it does.
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepPhase {
    Idle,
    Queued,
    /// It was taken by [`Sweep::take`]; `again`: it was announced since.
    Taken {
        again: bool,
    },
}

/// Waiting streams, by client.
#[derive(Debug, Default)]
pub struct Sweep {
    clients: Vec<Option<Client>>,
    turn: ClientId,
    waiting: usize,
}

#[derive(Debug)]
struct Client {
    share: Share,
    streams: Vec<Link>,
    quiet: Queue,
    flooded: Queue,
    in_a_row: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    phase: SweepPhase,
    /// Its last transfer moved much.
    flooded: bool,
    next: Option<StreamId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    ends: Option<(StreamId, StreamId)>,
}

impl Queue {
    fn push(&mut self, links: &mut [Link], stream: StreamId) {
        let link = &mut links[stream as usize];
        (link.phase, link.next) = (SweepPhase::Queued, None);
        self.ends = Some(match self.ends {
            None => (stream, stream),
            Some((first, last)) => {
                links[last as usize].next = Some(stream);
                (first, stream)
            }
        });
    }

    fn pop(&mut self, links: &mut [Link]) -> Option<StreamId> {
        let (first, last) = self.ends?;
        let link = &mut links[first as usize];
        self.ends = link.next.take().map(|next| (next, last));
        link.phase = SweepPhase::Taken { again: false };
        Some(first)
    }
}

impl Client {
    fn take(&mut self) -> Option<StreamId> {
        let flooded_is_due = self.in_a_row >= QUIET_IN_A_ROW && self.flooded.ends.is_some();
        if !flooded_is_due && let Some(stream) = self.quiet.pop(&mut self.streams) {
            self.in_a_row += 1;
            return Some(stream);
        }
        self.in_a_row = 0;
        self.flooded.pop(&mut self.streams)
    }

    fn queue(&mut self, stream: StreamId) {
        let queue = if self.streams[stream as usize].flooded { &mut self.flooded } else { &mut self.quiet };
        queue.push(&mut self.streams, stream);
    }

    fn waits(&self) -> bool {
        self.quiet.ends.is_some() || self.flooded.ends.is_some()
    }
}

impl Sweep {
    /// Without clients.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client with that weight (1..=1000) and no stream.
    pub fn add_client(&mut self, weight: u32) -> ClientId {
        let client = Client {
            share: Share::new(weight),
            streams: Vec::new(),
            quiet: Queue::default(),
            flooded: Queue::default(),
            in_a_row: 0,
        };
        if let Some(free) = self.clients.iter().position(Option::is_none) {
            self.clients[free] = Some(client);
            return free;
        }
        self.clients.push(Some(client));
        self.clients.len() - 1
    }

    /// Sets the client's weight (1..=1000).
    pub fn set_weight(&mut self, client: ClientId, weight: u32) {
        if let Some(Some(client)) = self.clients.get_mut(client) {
            client.share.set_weight(weight);
        }
    }

    /// Adds `count` places for streams of the client.
    pub fn add_places(&mut self, client: ClientId, count: u32) {
        if let Some(Some(client)) = self.clients.get_mut(client) {
            client.streams.extend((0..count).map(|_| Link { phase: SweepPhase::Idle, flooded: false, next: None }));
        }
    }

    /// Removes the client and its streams.
    pub fn remove_client(&mut self, client: ClientId) {
        if let Some(gone) = self.clients.get_mut(client).and_then(Option::take) {
            self.waiting -= gone.streams.iter().filter(|link| link.phase == SweepPhase::Queued).count();
        }
    }

    /// The stream's ring holds bytes, or the kernel takes more again. An unknown number has no effect.
    pub fn announce(&mut self, client: ClientId, stream: StreamId) {
        let Some(Some(of)) = self.clients.get_mut(client) else { return };
        match of.streams.get_mut(stream as usize).map(|link| &mut link.phase) {
            Some(SweepPhase::Idle) => {
                of.queue(stream);
                self.waiting += 1;
            }
            Some(SweepPhase::Taken { again }) => *again = true,
            Some(SweepPhase::Queued) | None => {}
        }
    }

    /// Whether a stream waits.
    pub fn waits(&self) -> bool {
        self.waiting > 0
    }

    /// The stream to serve now. Its service ends with [`Sweep::served`].
    pub fn take(&mut self) -> Option<(ClientId, StreamId)> {
        while self.waiting > 0 {
            let count = self.clients.len();
            for _ in 0..count {
                let turn = self.turn % count;
                if let Some(Some(client)) = self.clients.get_mut(turn)
                    && client.waits()
                    && client.share.may_take()
                    && let Some(stream) = client.take()
                {
                    self.turn = turn;
                    self.waiting -= 1;
                    return Some((turn, stream));
                }
                self.turn = turn + 1;
            }
            self.clients.iter_mut().flatten().for_each(|client| client.share.refill(QUANTUM));
        }
        None
    }

    /// The stream of [`Sweep::take`] was served for `took` ns, and `moved` bytes were moved.
    pub fn served(&mut self, client: ClientId, stream: StreamId, took: Nanos, moved: u32, outcome: Outcome) {
        let Some(Some(of)) = self.clients.get_mut(client) else { return };
        // A stream without a cost would be served forever.
        of.share.charge(took.max(1));
        let Some(link) = of.streams.get_mut(stream as usize) else { return };
        let again = link.phase == SweepPhase::Taken { again: true };
        (link.phase, link.flooded) = (SweepPhase::Idle, moved >= FLOOD);
        if outcome == Outcome::More || again {
            of.queue(stream);
            self.waiting += 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn sweep(clients: &[(u32, u32)]) -> Sweep {
        let mut sweep = Sweep::new();
        for (weight, streams) in clients {
            let client = sweep.add_client(*weight);
            sweep.add_places(client, *streams);
            (0..*streams).for_each(|stream| sweep.announce(client, stream));
        }
        sweep
    }

    #[test]
    fn a_quiet_stream_comes_before_flooded_ones_whether_or_not_its_ring_was_empty() {
        let mut sweep = sweep(&[(1, 256)]);
        sweep.add_places(0, 1);
        for _ in 0..300 {
            let (client, stream) = sweep.take().unwrap();
            sweep.served(client, stream, 10, 9_999, Outcome::More);
        }
        sweep.announce(0, 256);
        for outcome in [Outcome::More, Outcome::Empty] {
            assert_eq!(sweep.take(), Some((0, 256)));
            sweep.served(0, 256, 10, 64, outcome);
        }
        assert_ne!(sweep.take(), Some((0, 256)));
    }

    #[test]
    fn a_flooded_stream_is_not_forgotten_for_those_that_trickle() {
        let mut sweep = sweep(&[(1, 8)]);
        let (client, flooded) = sweep.take().unwrap();
        sweep.served(client, flooded, 10, 9_999, Outcome::More);
        let mut served = 0;
        for _ in 0..1_000 {
            let (client, stream) = sweep.take().unwrap();
            served += u32::from(stream == flooded);
            sweep.announce(client, stream);
            // Its ring is empty at times.
            sweep.served(client, stream, 10, if stream == flooded { 9_999 } else { 64 }, Outcome::Empty);
        }
        assert!((1_000 / (QUIET_IN_A_ROW + 2)..=1_000 / QUIET_IN_A_ROW).contains(&served), "{served}");
    }

    #[test]
    fn time_is_shared_by_weight_whatever_a_transfer_takes() {
        let mut sweep = sweep(&[(1, 100), (7, 1)]);
        sweep.set_weight(1, 3);
        sweep.set_weight(2, 9);
        let mut took = [0; 2];
        for _ in 0..20_000 {
            let (client, stream) = sweep.take().unwrap();
            let cost = [20_000, 3_000][client];
            took[client] += cost;
            sweep.served(client, stream, cost, 9_999, Outcome::More);
        }
        let ratio = took[1] as f64 / took[0] as f64;
        assert!((2.9..3.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn what_is_announced_while_it_is_served_is_served_again() {
        let mut sweep = sweep(&[(1, 1)]);
        let (client, stream) = sweep.take().unwrap();
        assert!(!sweep.waits());
        sweep.announce(client, stream);
        sweep.served(client, stream, 5, 64, Outcome::Empty);
        assert_eq!(sweep.take(), Some((client, stream)));
        sweep.served(client, stream, 5, 64, Outcome::Blocked);
        assert_eq!(sweep.take(), None);
    }

    #[test]
    fn a_client_that_is_gone_leaves_nothing() {
        let mut sweep = sweep(&[(1, 5), (1, 5)]);
        let (client, stream) = sweep.take().unwrap();
        sweep.remove_client(client);
        sweep.served(client, stream, 5, 64, Outcome::More);
        sweep.announce(client, 77);
        let rest: Vec<_> = core::iter::from_fn(|| {
            let (client, stream) = sweep.take()?;
            sweep.served(client, stream, 5, 64, Outcome::Empty);
            Some(client)
        })
        .collect();
        assert_eq!(rest, vec![1; 5]);
        assert_eq!(sweep.add_client(1), client, "its number is free");
    }
}
