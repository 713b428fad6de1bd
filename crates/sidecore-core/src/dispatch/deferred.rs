//! Deferred requests: given to a device, and queued by least rank until the device can begin with them.
//!
//! Under `priced`, where a device has more requests than it holds, clients are served in proportion to their weights: by
//! start-time fair queueing (Goyal, Vin and Cheng, "Start-time fair queueing", 1996). A request's rank is when it would begin if its client had its part of the time to itself: with the end of its
//! client's request before, on whatever device, or now. What a device begins with says what "now" is there. What a client had
//! on other devices counts, or one whose requests are all for one device would have a part of that one only; but it counts
//! no further than [`MAX_AHEAD_NS`].

use super::Dispatch;
use crate::inflight::{RequestState, Ticket};
use crate::time::Nanos;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Parts of a nanosecond in which a client's time is counted: a short request of a heavy client takes some as well.
const PARTS: Nanos = 16;

/// Limit of a client's rank ahead of the virtual time, ns of its share. It bounds the price of time on a device that
/// no other client wanted.
const MAX_AHEAD_NS: Nanos = 1_000_000_000;

/// One device's deferred requests, and the count of requests on it.
#[derive(Debug)]
pub(super) struct DeferredQueue {
    /// Rank, which came first, ticket.
    heap: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
    came: u64,
    /// The rank of the request that was begun with last.
    begun: Nanos,
}

impl DeferredQueue {
    /// Reserves memory for `capacity` requests.
    pub(super) fn new(capacity: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(capacity), came: 0, begun: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.heap.len() as u32
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The rank of a request for so much time on the device, ns. `next`: its client's next rank, if that is later than now;
    /// the client's weight is at least 1.
    pub(super) fn fair(&self, next: &mut Nanos, weight: u32, cost: Nanos) -> Nanos {
        let rank = (*next).clamp(self.begun, self.begun.saturating_add(MAX_AHEAD_NS * PARTS));
        let time = cost.saturating_mul(PARTS) / Nanos::from(weight);
        *next = rank.saturating_add(time.max(1));
        rank
    }

    pub(super) fn push(&mut self, rank: Nanos, ticket: Ticket) {
        self.came += 1;
        self.heap.push(Reverse((rank, self.came, ticket.to_word())));
    }

    pub(super) fn pop(&mut self) -> Option<Ticket> {
        let Reverse((rank, _, ticket)) = self.heap.pop()?;
        self.begun = self.begun.max(rank);
        Some(Ticket::from_word(ticket))
    }

    /// The device died: its requests are found in the table.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}

impl Dispatch {
    /// The next request that was deferred for this device and that it may begin with, if there is one: hand it over.
    /// Call it after each completion, until there is none.
    #[inline]
    pub fn release(&mut self, now: Nanos, device: usize) -> Option<Ticket> {
        if self.on_device(device) >= self.loads[device].depth {
            return None;
        }
        let ticket = self.devices[device].deferred.pop()?;
        let entry = self.inflight.get_mut(ticket)?;
        (entry.state, entry.handed) = (RequestState::OnDevice, now);
        Some(ticket)
    }

    /// Whether the device may begin with a request that was just given to it. Otherwise the request is deferred.
    #[inline]
    pub(super) fn begins(&mut self, device: usize, ticket: Ticket) -> bool {
        let begins =
            self.loads[device].in_flight <= self.loads[device].depth && self.devices[device].deferred.is_empty();
        if !begins {
            self.defer(device, ticket);
        }
        begins
    }

    /// Defers a request until the device has room.
    #[cold]
    fn defer(&mut self, device: usize, ticket: Ticket) {
        let Some(entry) = self.inflight.get_mut(ticket) else { return };
        let client = self.clients.lane(entry.work.lane).client;
        let (deferred, client) = (&mut self.devices[device].deferred, self.clients.client_mut(client));
        let rank = deferred.fair(&mut client.next, client.share.weight(), entry.cost);
        entry.state = RequestState::Deferred;
        deferred.push(rank, ticket);
    }
}
