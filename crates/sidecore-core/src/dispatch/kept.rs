//! Requests that were given to a device and are kept back, least rank first, until it can begin with them.
//!
//! Under [`Order::Shortest`](super::Order::Shortest) the rank is the order's. Under `priced`, where a device has more requests than
//! it holds, clients are served in proportion to their weights: by start-time fair queueing (Goyal, Vin and Cheng, "Start-time fair
//! queueing", 1996). A request's rank is when it would begin if its client had its part of the time to itself: with the end of its
//! client's request before, on whatever device, or now. What a device begins with says what "now" is there. What a client had
//! on other devices counts, or one whose requests are all for one device would have a part of that one only; but it counts
//! no further than [`MOST_AHEAD`].

use super::Dispatch;
use crate::inflight::{State, Ticket};
use crate::policy::order::{CHUNK, Order, Schedule};
use crate::time::Nanos;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Requests that a device has to itself: the one it serves and one that follows, so that it never idles while the
/// sidecore looks elsewhere.
const ON_DEVICE: u32 = 2;

/// Parts of a nanosecond in which a client's time is counted: a short request of a heavy client takes some as well.
const PARTS: Nanos = 16;

/// A client's next request is so much later than "now" at most, ns of its part: it does not pay for ever for time of a device that
/// nobody else wanted.
const MOST_AHEAD: Nanos = 1_000_000_000;

/// What one device has, and what is kept back for it.
#[derive(Debug)]
pub(super) struct Kept {
    /// Rank, which came first, ticket, served in chunks.
    heap: BinaryHeap<Reverse<(Nanos, u64, u64, bool)>>,
    came: u64,
    /// Requests on the device that are served in chunks.
    chunked: u32,
    /// The fair rank of what was begun with last.
    begun: Nanos,
}

impl Kept {
    /// Room for so many requests.
    pub(super) fn new(capacity: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(capacity), came: 0, chunked: 0, begun: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.heap.len() as u32
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Whether a request that was not kept back goes to the device: it passes none of a lesser rank.
    pub(super) fn begins(&self, on_device: u32, chunked: bool, rank: Nanos) -> bool {
        let first = self.heap.peek().is_none_or(|Reverse((least, ..))| rank < *least);
        first && self.lets(on_device, chunked)
    }

    /// Whether a request may go to the device, which has `on_device` of them. Those that are served in chunks do not
    /// count for one that is not: it and one more find room beside them, or the device would go on with a chunk between
    /// any two short requests.
    fn lets(&self, on_device: u32, chunked: bool) -> bool {
        let before = if chunked { on_device } else { on_device - self.chunked };
        before < ON_DEVICE
    }

    /// The fair rank of a request for so much time on the device, ns. `next`: its client's next rank, if that is later than now;
    /// the client's weight is at least 1.
    pub(super) fn fair(&self, next: &mut Nanos, weight: u32, cost: Nanos) -> Nanos {
        let rank = (*next).clamp(self.begun, self.begun.saturating_add(MOST_AHEAD * PARTS));
        let time = cost.saturating_mul(PARTS) / Nanos::from(weight);
        *next = rank.saturating_add(time.max(1));
        rank
    }

    /// All that is kept back comes before anything else, in the order in which it came. Their tickets.
    pub(super) fn rank_anew(&mut self) -> impl Iterator<Item = Ticket> {
        let mut all = core::mem::take(&mut self.heap).into_vec();
        for Reverse((rank, ..)) in &mut all {
            *rank = 0;
        }
        self.heap = all.into();
        self.heap.iter().map(|Reverse((.., ticket, _))| Ticket::from_word(*ticket))
    }

    pub(super) fn push(&mut self, rank: Nanos, ticket: Ticket, chunked: bool) {
        self.came += 1;
        self.heap.push(Reverse((rank, self.came, ticket.to_word(), chunked)));
    }

    /// The next one, if the device may have it by rank.
    pub(super) fn pop_by_rank(&mut self, on_device: u32) -> Option<Ticket> {
        let Reverse((.., chunked)) = *self.heap.peek()?;
        self.lets(on_device, chunked).then(|| self.pop()).flatten()
    }

    /// The next one.
    pub(super) fn pop(&mut self) -> Option<Ticket> {
        let Reverse((rank, _, ticket, _)) = self.heap.pop()?;
        self.begun = self.begun.max(rank);
        Some(Ticket::from_word(ticket))
    }

    /// A request went to the device.
    #[inline]
    pub(super) fn handed(&mut self, chunked: bool) {
        self.chunked += u32::from(chunked);
    }

    /// A request left the device.
    #[inline]
    pub(super) fn left(&mut self, chunked: bool) {
        self.chunked -= u32::from(chunked);
    }

    /// The device died: its requests are found in the table.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}

impl Dispatch {
    /// The next request that was kept back for this device and that it may begin with, if there is one: hand it over.
    /// Call it after each completion and after a change of order, until there is none.
    #[inline]
    pub fn release(&mut self, now: Nanos, device: usize) -> Option<Ticket> {
        let on_device = self.on_device(device);
        if on_device >= self.loads[device].depth {
            return None;
        }
        let kept = &mut self.devices[device].kept;
        if self.order == Order::Fifo {
            let ticket = kept.pop()?;
            let entry = self.inflight.get_mut(ticket)?;
            (entry.state, entry.handed) = (State::AsItCame, now);
            return Some(ticket);
        }
        let ticket = kept.pop_by_rank(on_device)?;
        let entry = self.inflight.get_mut(ticket)?;
        (entry.state, entry.handed) = (State::Ranked, now);
        kept.handed(entry.work.size > CHUNK);
        Some(ticket)
    }

    /// Whether the device may begin with a request that it was given just now. Else the request is kept back.
    #[inline]
    pub(super) fn begins(&mut self, now: Nanos, device: usize, ticket: Ticket) -> bool {
        if self.order != Order::Fifo {
            return self.begins_by_rank(now, device, ticket);
        }
        let begins = self.loads[device].in_flight <= self.loads[device].depth && self.devices[device].kept.is_empty();
        if !begins {
            self.keep_back(device, ticket);
        }
        begins
    }

    /// Keeps a request back for a device that has no room for it now.
    #[cold]
    fn keep_back(&mut self, device: usize, ticket: Ticket) {
        let Some(entry) = self.inflight.get_mut(ticket) else { return };
        let client = self.clients.lane(entry.work.lane).client;
        let (kept, client) = (&mut self.devices[device].kept, self.clients.client_mut(client));
        let rank = kept.fair(&mut client.next, client.share.weight(), entry.cost);
        entry.state = State::KeptBack;
        kept.push(rank, ticket, entry.work.size > CHUNK);
        self.ranks[ticket.index()] = 0;
    }

    fn begins_by_rank(&mut self, now: Nanos, device: usize, ticket: Ticket) -> bool {
        let before = self.on_device(device) - 1;
        let has_room = before < self.loads[device].depth;
        let (kept, order) = (&mut self.devices[device].kept, self.order);
        let Some(entry) = self.inflight.get_mut(ticket) else { return true };
        let Schedule { rank, chunks } = order.schedule(now, entry.cost, entry.work.size);
        let begins = has_room && kept.begins(before, chunks > 1, rank);
        self.ranks[ticket.index()] = rank;
        if begins {
            entry.state = State::Ranked;
            kept.handed(chunks > 1);
        } else {
            entry.state = State::KeptBack;
            kept.push(rank, ticket, chunks > 1);
        }
        begins
    }
}
