//! Requests that were given to a device and are kept back, least rank first, until it can begin with them.

use crate::inflight::Ticket;
use crate::time::Nanos;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Requests that a device has to itself: the one it serves and one that follows, so that it never idles while the
/// sidecore looks elsewhere.
const ON_DEVICE: u32 = 2;

/// What one device has, and what is kept back for it.
#[derive(Debug)]
pub(super) struct Kept {
    /// Rank, which came first, ticket, served in chunks.
    heap: BinaryHeap<Reverse<(Nanos, u64, u64, bool)>>,
    came: u64,
    /// Requests on the device that are served in chunks.
    chunked: u32,
}

impl Kept {
    /// Room for so many requests.
    pub(super) fn new(capacity: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(capacity), came: 0, chunked: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.heap.len() as u32
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

    pub(super) fn push(&mut self, rank: Nanos, ticket: Ticket, chunked: bool) {
        self.came += 1;
        self.heap.push(Reverse((rank, self.came, ticket.to_word(), chunked)));
    }

    /// The next one, if the device may have it; `freely`: whatever it has.
    pub(super) fn pop(&mut self, on_device: u32, freely: bool) -> Option<Ticket> {
        let Reverse((.., chunked)) = *self.heap.peek()?;
        if !freely && !self.lets(on_device, chunked) {
            return None;
        }
        let Reverse((.., ticket, _)) = self.heap.pop()?;
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
