//! A machine in simulated time: devices that serve one request after the other.

use super::*;
use alloc::collections::VecDeque;

/// A device whose time is a fixed part (ns) and a part per byte (ns).
#[derive(Clone, Copy, Debug)]
pub(super) struct Card(pub(super) f64, pub(super) f64);

impl Card {
    pub(super) fn time(self, size: u32) -> Nanos {
        (self.0 + self.1 * f64::from(size)) as Nanos
    }
}

type Queue = VecDeque<(Nanos, Ticket, Nanos)>;

pub(super) struct Machine {
    pub(super) dispatch: Dispatch,
    pub(super) now: Nanos,
    pub(super) served: [Nanos; 2],
    /// Requests that each card got.
    pub(super) given: Vec<u32>,
    cards: Vec<(Card, Queue)>,
}

impl Machine {
    pub(super) fn new(balance: Balance, cards: &[Card], depth: u32) -> Self {
        let limits = Limits { lanes: 128, clients: 2, in_flight: 256, quantum: 100_000, deferred: 0 };
        let mut dispatch = Dispatch::new(limits, balance);
        for _ in cards {
            dispatch.add_device(capability(depth)).unwrap();
        }
        Self {
            dispatch,
            now: 0,
            served: [0; 2],
            given: alloc::vec![0; cards.len()],
            cards: cards.iter().map(|&card| (card, Queue::new())).collect(),
        }
    }

    pub(super) fn place(&mut self, work: Work) {
        loop {
            match self.dispatch.place(self.now, work) {
                Placement::Assigned(Assignment { device, ticket, begins: true, .. }) => {
                    return self.hand(device, ticket, work.size);
                }
                Placement::Full => assert!(self.advance()),
                Placement::NoDevice | Placement::Now { .. } | Placement::Assigned(Assignment { begins: false, .. }) => {
                    unreachable!("all devices can do all, none at once, and as it comes")
                }
            }
        }
    }

    /// From now on this card's requests take that many times as long.
    pub(super) fn slow_down(&mut self, device: usize, times: f64) {
        let (Card(fixed, per_byte), _) = &mut self.cards[device];
        (*fixed, *per_byte) = (*fixed * times, *per_byte * times);
    }

    /// Time passes until the next request is done. False if there is none.
    pub(super) fn advance(&mut self) -> bool {
        let done = |(_, queue): &&mut (Card, Queue)| queue.front().map_or(Nanos::MAX, |request| request.0);
        let next = self.cards.iter_mut().min_by_key(done).and_then(|(_, queue)| queue.pop_front());
        let Some((finish, ticket, took)) = next else { return false };
        self.now = finish;
        let done = self.dispatch.complete(ticket, Some(took)).unwrap();
        self.served[done.work.tag as usize] += took;
        true
    }

    fn hand(&mut self, device: usize, ticket: Ticket, size: u32) {
        self.given[device] += 1;
        let (card, queue) = &mut self.cards[device];
        let took = card.time(size);
        let start = queue.back().map_or(self.now, |last| last.0);
        queue.push_back((start + took, ticket, took));
    }
}
