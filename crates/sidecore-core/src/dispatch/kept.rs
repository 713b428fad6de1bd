//! Deferred requests: given to a device, and queued by least rank until the device can begin with them.
//!
//! Under [`Order::Shortest`](super::Order::Shortest) the order sets the rank. Under `priced`, a device with more
//! requests than it holds serves clients in proportion to their weights by start-time fair queueing (Goyal, Vin and
//! Cheng, "Start-time fair queueing", 1996). A request's rank is its virtual start time. It is the later of two
//! times: the end of its client's previous request on any device, and the device's virtual time. The virtual time is
//! the rank of the request begun last. A client's time on other devices counts, since a client with requests for one
//! device only would otherwise get a share of that device alone. Its rank is at most [`MOST_AHEAD`] ahead of the
//! virtual time.

use super::Dispatch;
use crate::inflight::{State, Ticket};
use crate::policy::order::{CHUNK, Order, Schedule};
use crate::time::Nanos;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Requests handed to a device under ranks: the one in service and the next one, so that it does not idle between
/// two rounds of the sidecore.
const ON_DEVICE: u32 = 2;

/// Fractions of a nanosecond in virtual time: a short request of a client with a large weight still costs at least
/// one.
const PARTS: Nanos = 16;

/// Limit of a client's rank ahead of the virtual time, ns of its share. It bounds the price of time on a device that
/// no other client wanted.
const MOST_AHEAD: Nanos = 1_000_000_000;

/// One device's deferred requests, and the count of requests on it.
#[derive(Debug)]
pub(super) struct Kept {
    /// Rank, arrival number, ticket, served in chunks.
    heap: BinaryHeap<Reverse<(Nanos, u64, u64, bool)>>,
    came: u64,
    /// Requests on the device that are served in chunks.
    chunked: u32,
    /// The fair rank of the request begun last.
    begun: Nanos,
}

impl Kept {
    /// Reserves memory for `capacity` requests.
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

    /// Whether a request that is not deferred goes to the device: no deferred request has a lesser rank.
    pub(super) fn begins(&self, on_device: u32, chunked: bool, rank: Nanos) -> bool {
        let first = self.heap.peek().is_none_or(|Reverse((least, ..))| rank < *least);
        first && self.lets(on_device, chunked)
    }

    /// Whether a device with `on_device` requests may get one more. Requests served in chunks do not count against a
    /// short one: there is room for it and one more. Otherwise the device would serve a chunk between any two short
    /// requests.
    fn lets(&self, on_device: u32, chunked: bool) -> bool {
        let before = if chunked { on_device } else { on_device - self.chunked };
        before < ON_DEVICE
    }

    /// The fair rank of a request with this `cost` on the device, ns. `next` is the client's next rank, if that is
    /// later than now. The client's weight is at least 1.
    pub(super) fn fair(&self, next: &mut Nanos, weight: u32, cost: Nanos) -> Nanos {
        let rank = (*next).clamp(self.begun, self.begun.saturating_add(MOST_AHEAD * PARTS));
        let time = cost.saturating_mul(PARTS) / Nanos::from(weight);
        *next = rank.saturating_add(time.max(1));
        rank
    }

    /// Gives all deferred requests rank 0, before any new one and in order of arrival. Returns their tickets.
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

    /// The next request, if the device may have it by rank.
    pub(super) fn pop_by_rank(&mut self, on_device: u32) -> Option<Ticket> {
        let Reverse((.., chunked)) = *self.heap.peek()?;
        self.lets(on_device, chunked).then(|| self.pop()).flatten()
    }

    pub(super) fn pop(&mut self) -> Option<Ticket> {
        let Reverse((rank, _, ticket, _)) = self.heap.pop()?;
        self.begun = self.begun.max(rank);
        Some(Ticket::from_word(ticket))
    }

    #[inline]
    pub(super) fn handed(&mut self, chunked: bool) {
        self.chunked += u32::from(chunked);
    }

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
    /// The next deferred request that this device may begin with: hand it over. Call it after each completion and
    /// after a change of order, until it returns `None`.
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

    /// Whether the device may begin with a request that was just given to it. Otherwise the request is deferred.
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

    /// Defers a request until the device has room.
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
