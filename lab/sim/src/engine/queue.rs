//! Pending events: a heap over reusable slots.
//!
//! The heap holds time, order and slot as one number, so that a comparison has no branch and reads no other memory.
//! The slot holds the event. A cancelled event leaves an empty slot, which is skipped when its time comes.

use sidecore_core::time::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Name of a pending event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    slot: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot<E> {
    generation: u32,
    event: Option<E>,
}

const SLOT_BITS: u32 = 24;

/// The pending events of one engine, up to 16 million.
#[derive(Debug)]
pub(super) struct Queue<E> {
    /// Time in the upper 64 bits, the order of scheduling in the next 40, and the slot in the rest.
    heap: BinaryHeap<Reverse<u128>>,
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
    scheduled: u64,
}

impl<E: Copy> Queue<E> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), scheduled: 0 }
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
        self.scheduled += 1;
        let order = self.scheduled << SLOT_BITS | u64::from(slot);
        self.heap.push(Reverse(u128::from(at) << 64 | u128::from(order)));
        Timer { slot, generation: place.generation }
    }

    #[inline]
    pub(super) fn pop(&mut self, until: Nanos) -> Option<(Nanos, E)> {
        loop {
            let Reverse(first) = *self.heap.peek()?;
            let (at, number) = ((first >> 64) as Nanos, first as u32 & ((1 << SLOT_BITS) - 1));
            if at > until {
                return None;
            }
            self.heap.pop();
            let slot = &mut self.slots[number as usize];
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(number);
            if let Some(event) = slot.event.take() {
                return Some((at, event));
            }
        }
    }

    pub(super) fn cancel(&mut self, timer: Timer) -> Option<E> {
        let slot = self.slots.get_mut(timer.slot as usize).filter(|slot| slot.generation == timer.generation)?;
        slot.event.take()
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
                let pending = queue.slots.iter().filter(|slot| slot.event.is_some()).count();
                prop_assert_eq!(pending, model.len());
            }
        }
    }
}
