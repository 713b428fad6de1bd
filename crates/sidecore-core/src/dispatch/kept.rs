//! Requests that were given to a device and are kept back, least rank first, until it can begin with them.
//!
//! Under [`Order::Shortest`](super::Order::Shortest) the rank is the order's. Under `priced`, where a device has more requests than
//! it holds, clients are served in proportion to their weights: by start-time fair queueing (Goyal, Vin and Cheng, "Start-time fair
//! queueing", 1996). A request's rank is when it would begin if its client had the device's time to itself: with the end of
//! its client's request before, or now. What is being begun with says what "now" is.

use crate::inflight::Ticket;
use crate::time::Nanos;
use crate::work::ClientId;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Requests that a device has to itself: the one it serves and one that follows, so that it never idles while the
/// sidecore looks elsewhere.
const ON_DEVICE: u32 = 2;

/// Parts of a nanosecond in which a client's time is counted: a short request of a heavy client takes some as well.
const PARTS: Nanos = 16;

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
    /// By client: the fair rank of its next request, if that is not less than `begun`.
    next: Vec<Nanos>,
}

impl Kept {
    /// Room for so many requests of so many clients.
    pub(super) fn new(capacity: usize, clients: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(capacity), came: 0, chunked: 0, begun: 0, next: vec![0; clients] }
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

    /// The fair rank of a request of that client, whose weight is at least 1, for so much time on the device, ns.
    pub(super) fn fair(&mut self, client: ClientId, weight: u32, cost: Nanos) -> Nanos {
        let next = &mut self.next[client.0 as usize];
        let rank = self.begun.max(*next);
        let time = cost.saturating_mul(PARTS) / Nanos::from(weight);
        *next = rank.saturating_add(time.max(1));
        rank
    }

    /// A client of that number is new: it owes nothing.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.next[client.0 as usize] = 0;
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
