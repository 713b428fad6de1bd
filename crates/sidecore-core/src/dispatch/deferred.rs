//! Deferred requests: given to a device, and queued by least rank until the device can begin with them.
//!
//! Under `priced`, where a device has more requests than it holds, clients are served in proportion to their weights: by
//! start-time fair queueing (Goyal, Vin and Cheng, "Start-time fair queueing", 1996). A request's rank is its begin if its
//! client had its part of the time alone: at the end of the client's last request on any device, or now. The rank of the
//! request that a device begins is "now" there. A client's time on other devices counts, or a client of one device would
//! get a part of that one only. It counts up to [`MAX_AHEAD_NS`].

use super::Dispatch;
use crate::inflight::{RequestState, Ticket};
use crate::time::Nanos;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Unit of a client's time, in parts of a nanosecond: a short request of a heavy client takes some, too.
const PARTS: Nanos = 16;

/// Limit of a client's rank ahead of the virtual time, ns of its share. It bounds the price of time on a device that
/// no other client wanted.
const MAX_AHEAD_NS: Nanos = 1_000_000_000;

#[derive(Debug)]
pub(super) struct DeferredQueue {
    /// Rank, which came first, ticket.
    heap: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
    came: u64,
    begun: Nanos,
}

impl DeferredQueue {
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

    /// The rank of a request of `cost` ns on the device. `next`: its client's next rank, if later than now;
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
    /// The next deferred request for this device, if the device may begin one: the caller submits it. To be called after
    /// each completion, until it returns `None`.
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
