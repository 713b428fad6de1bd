//! Pending events: a heap of four children over slots that are used again.
//!
//! The heap holds time, order and slot, so that a comparison reads no other memory; the slot holds the event. An event
//! taken back leaves an empty slot, which is passed over when its time comes.

use sidecore_core::time::Nanos;

/// Children of a node: a shallower heap with one cache line for all children of a node.
const CHILDREN: usize = 4;

/// Name of a pending event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    slot: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    at: Nanos,
    /// Counts what was scheduled in the upper 40 bits; the slot below.
    order: u64,
}

const SLOT_BITS: u32 = 24;

impl Node {
    /// Time first, then order, as one number that compares without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.order)
    }

    #[inline]
    fn slot(&self) -> usize {
        (self.order & ((1 << SLOT_BITS) - 1)) as usize
    }
}

#[derive(Debug)]
struct Slot<E> {
    generation: u32,
    event: Option<E>,
}

/// The pending events of one engine, up to 16 million.
#[derive(Debug)]
pub(super) struct Queue<E> {
    heap: Vec<Node>,
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
    scheduled: u64,
    cancelled: usize,
}

impl<E: Copy> Queue<E> {
    pub(super) fn new() -> Self {
        Self { heap: Vec::new(), slots: Vec::new(), free: Vec::new(), scheduled: 0, cancelled: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len() - self.cancelled
    }

    #[inline]
    pub(super) fn push(&mut self, at: Nanos, event: E) -> Timer {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < 1 << SLOT_BITS, "16 million events are pending");
            self.slots.push(Slot { generation: 0, event: None });
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.event = Some(event);
        let timer = Timer { slot, generation: place.generation };
        self.scheduled += 1;
        self.heap.push(Node { at, order: self.scheduled << SLOT_BITS | u64::from(slot) });
        self.rise(self.heap.len() - 1);
        timer
    }

    /// Takes the first event out if its time is at most `until`.
    #[inline]
    pub(super) fn pop(&mut self, until: Nanos) -> Option<(Nanos, E)> {
        loop {
            let first = *self.heap.first()?;
            if first.at > until {
                return None;
            }
            self.take_first();
            let slot = &mut self.slots[first.slot()];
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(first.slot() as u32);
            match slot.event.take() {
                Some(event) => return Some((first.at, event)),
                None => self.cancelled -= 1,
            }
        }
    }

    pub(super) fn cancel(&mut self, timer: Timer) -> Option<E> {
        let slot = self.slots.get_mut(timer.slot as usize).filter(|slot| slot.generation == timer.generation)?;
        let event = slot.event.take()?;
        self.cancelled += 1;
        Some(event)
    }

    /// Takes the root out: the last node goes down from its place.
    #[inline]
    fn take_first(&mut self) {
        let Some(last) = self.heap.pop() else { return };
        if self.heap.is_empty() {
            return;
        }
        let key = last.key();
        let mut at = 0;
        loop {
            let first = at * CHILDREN + 1;
            let Some(children) = self.heap.get(first..self.heap.len().min(first + CHILDREN)) else { break };
            let Some((offset, child)) = children.iter().enumerate().min_by_key(|(_, child)| child.key()) else { break };
            if key <= child.key() {
                break;
            }
            self.heap[at] = *child;
            at = first + offset;
        }
        self.heap[at] = last;
    }

    #[inline]
    fn rise(&mut self, mut at: usize) {
        let node = self.heap[at];
        let key = node.key();
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent].key() <= key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = node;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_order_and_the_cancelled_not_at_all(
            steps in prop::collection::vec((0_u64..1_000, 0_u8..4), 1..400),
        ) {
            let mut queue = Queue::new();
            let mut model: Vec<(Nanos, usize, Timer)> = Vec::new();
            for (number, (at, action)) in steps.into_iter().enumerate() {
                match action {
                    0 if !model.is_empty() => {
                        let (_, event, timer) = model.remove(number % model.len());
                        prop_assert_eq!((queue.cancel(timer), queue.cancel(timer)), (Some(event), None));
                    }
                    1 => {
                        let expected = model.iter().map(|(at, event, _)| (*at, *event)).min().filter(|first| first.0 <= at);
                        prop_assert_eq!(queue.pop(at), expected);
                        model.retain(|(at, event, _)| Some((*at, *event)) != expected);
                    }
                    _ => model.push((at, number, queue.push(at, number))),
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
