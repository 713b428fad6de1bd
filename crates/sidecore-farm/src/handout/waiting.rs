//! Events that wait for a node, by class: what no node can do now does not hold up what some node can.

use sidecore_core::session::Class;
use std::collections::VecDeque;

/// What became of an event that was to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Given,
    /// It ended while it waited.
    Gone,
    /// It waits on, and so do the others of its class.
    Waits,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By class.
    queues: Vec<VecDeque<u32>>,
    /// The class whose turn it is.
    turn: usize,
    total: usize,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.total
    }

    pub(super) fn last(&mut self, class: Class, tag: u32) {
        self.queue(class).push_back(tag);
    }

    pub(super) fn first(&mut self, class: Class, tag: u32) {
        self.queue(class).push_front(tag);
    }

    /// Asks for the first of each class in turn until each class waits.
    pub(super) fn place(&mut self, mut place: impl FnMut(Class, u32) -> Place) {
        let classes = self.queues.len();
        let mut waits = 0;
        while self.total > 0 && waits < classes {
            let index = self.turn % classes;
            self.turn = index + 1;
            waits += 1;
            let (Some(class), Some(tag)) = (Class::from_index(index), self.queues[index].front()) else { continue };
            if place(class, *tag) != Place::Waits {
                self.queues[index].pop_front();
                self.total -= 1;
                waits = 0;
            }
        }
    }

    fn queue(&mut self, class: Class) -> &mut VecDeque<u32> {
        let index = class.index();
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, VecDeque::new);
        }
        self.total += 1;
        &mut self.queues[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_take_turns_and_one_that_waits_does_not_hold_up_another() {
        let mut waiting = Waiting::default();
        let [one, two] = [0, 3].map(|index| Class::from_index(index).unwrap());
        for tag in 0..3 {
            waiting.last(one, tag);
            waiting.last(two, 10 + tag);
        }
        let mut order = Vec::new();
        waiting.place(|class, tag| {
            if class == one && tag == 1 {
                return Place::Waits;
            }
            order.push(tag);
            Place::Given
        });
        assert_eq!((order, waiting.len()), (vec![0, 10, 11, 12], 2));
        waiting.first(one, 9);
        let mut order = Vec::new();
        waiting.place(|_, tag| {
            order.push(tag);
            Place::Given
        });
        assert_eq!((order, waiting.len()), (vec![9, 1, 2], 0));
    }
}
