//! Requests in flight at a gateway. Each has a ticket of its own, never reused, so that an answer names one or none.

use super::super::Request;
use super::channels::{FarSet, Seal};
use sidecore_client::gateway::Operation;
use sidecore_core::inflight::Ticket;
use sidecore_core::session::Op;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

pub(super) struct Open {
    pub(super) end: usize,
    pub(super) ticket: Ticket,
    pub(super) request: Request,
    pub(super) room: usize,
    pub(super) begun: Nanos,
    /// When it was sent last.
    pub(super) sent_at: Nanos,
    pub(super) buffer: Vec<u8>,
    pub(super) input: Vec<u8>,
    pub(super) operation: Operation,
    /// Answers so far that were none.
    pub(super) wrong: u8,
    /// `Some`: it went sealed to another service.
    pub(super) seal: Option<Seal>,
    /// Where it failed so far.
    pub(super) failed: FarSet,
}

impl Open {
    pub(super) fn op(&self) -> Op {
        self.request.submission.op()
    }
}

#[derive(Default)]
struct TicketSlot {
    generation: u32,
    open: Option<Open>,
}

pub(super) struct Table {
    places: Vec<TicketSlot>,
    free: Vec<u32>,
    /// Tickets in order of assignment, including answered ones.
    order: VecDeque<u64>,
    spare: Vec<Vec<u8>>,
}

impl Table {
    pub(super) fn new(depth: usize) -> Self {
        Self {
            places: (0..depth).map(|_| TicketSlot::default()).collect(),
            free: (0..depth as u32).rev().collect(),
            order: VecDeque::with_capacity(2 * depth),
            spare: Vec::with_capacity(depth),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.places.len()
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// The caller ensures room.
    pub(super) fn enter(&mut self, open: Open) -> Option<u64> {
        let index = self.free.pop()?;
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        place.open = Some(open);
        let ticket = u64::from(index) | u64::from(place.generation) << 32;
        if self.order.len() == self.order.capacity() {
            self.tidy();
        }
        self.order.push_back(ticket);
        Some(ticket)
    }

    pub(super) fn take(&mut self, ticket: u64) -> Option<Open> {
        let place = self.places.get_mut(ticket as u32 as usize)?;
        let open = place.open.take_if(|_| u64::from(place.generation) == ticket >> 32)?;
        self.free.push(ticket as u32);
        Some(open)
    }

    pub(super) fn oldest(&mut self) -> Option<Nanos> {
        while let Some(ticket) = self.order.front().copied() {
            if let Some(open) = self.get(ticket) {
                return Some(open.sent_at);
            }
            self.order.pop_front();
        }
        None
    }

    pub(super) fn get(&self, ticket: u64) -> Option<&Open> {
        let place = self.places.get(ticket as u32 as usize)?;
        place.open.as_ref().filter(|_| u64::from(place.generation) == ticket >> 32)
    }

    fn tidy(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.retain(|ticket| self.get(*ticket).is_some());
        self.order = order;
    }
}
