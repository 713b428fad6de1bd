//! Requests that wait for a node, by class: a request without a possible node does not delay other classes.

use super::Priority;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;

/// Most requests of one class that one search passes over.
const MAX_PASSED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceOutcome {
    Leaves,
    /// It waits on. Requests behind it may go to nodes that are closed to it.
    Passed,
    /// It waits on, and so do the others of its class.
    Waits,
}

/// Of so many requests that are placed while urgent and normal ones wait, one is normal.
const SHARE: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By priority.
    levels: [Level; Priority::ALL.len()],
    /// Requests that may be placed from a later time on: that time, tag, class.
    later: BTreeSet<(Nanos, u32, Priority, usize)>,
    /// Urgent requests placed since the last normal one.
    run: u32,
}

/// Requests of one priority.
#[derive(Debug, Default)]
struct Level {
    /// By class.
    queues: Vec<Queue>,
    turn: usize,
    total: usize,
}

#[derive(Debug, Default)]
struct Queue {
    /// Requests that were passed over, or that a lost node had. They come first.
    again: VecDeque<u32>,
    fresh: VecDeque<u32>,
    /// How many of `again` are passed over in this search.
    passed: usize,
    /// This search is over for the class: room only shrinks during a search.
    waits: bool,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.levels.iter().map(|level| level.total).sum::<usize>() + self.later.len()
    }

    /// Whether a request of this class waits that is neither passed over nor from a lost node.
    pub(super) fn has_fresh(&self, class: Class) -> bool {
        let queues = || self.levels.iter().filter_map(|level| level.queues.get(class.index()));
        queues().any(|queue| !queue.fresh.is_empty())
    }

    pub(super) fn last(&mut self, class: Class, priority: Priority, tag: u32) {
        self.levels[priority as usize].queue(class).fresh.push_back(tag);
    }

    pub(super) fn again(&mut self, class: Class, priority: Priority, tag: u32) {
        self.levels[priority as usize].queue(class).again.push_back(tag);
    }

    /// From that time on it waits behind all of its class.
    pub(super) fn later(&mut self, class: Class, priority: Priority, tag: u32, from: Nanos) {
        self.later.insert((from, tag, priority, class.index()));
    }

    pub(super) fn remove(&mut self, class: Class, priority: Priority, tag: u32) {
        if let Some(entry) = self.later.iter().find(|(_, waits, ..)| *waits == tag).copied() {
            self.later.remove(&entry);
            return;
        }
        self.levels[priority as usize].remove(class, tag);
    }

    fn ripen(&mut self, now: Nanos) {
        while let Some((_, tag, priority, class)) = self.later.first().copied().filter(|(from, ..)| *from <= now) {
            self.later.pop_first();
            if let Some(class) = Class::from_index(class) {
                self.last(class, priority, tag);
            }
        }
    }

    /// Tries the first request of each class in turn until every class waits, urgent ones first. `only`: of this class
    /// alone.
    pub(super) fn place(&mut self, now: Nanos, only: Option<Class>, mut place: impl FnMut(Class, u32) -> PlaceOutcome) {
        self.ripen(now);
        self.levels.iter_mut().for_each(|level| level.begin(only));
        let [normal, urgent] = &mut self.levels;
        loop {
            if self.run + 1 >= SHARE && normal.place_one(&mut place) {
                self.run = 0;
            } else if urgent.place_one(&mut place) {
                self.run = SHARE.min(self.run + 1);
            } else if normal.place_one(&mut place) {
                self.run = 0;
            } else {
                return;
            }
        }
    }
}

impl Level {
    fn begin(&mut self, only: Option<Class>) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            (queue.passed, queue.waits) = (0, only.is_some_and(|class| class.index() != index));
        }
    }

    /// Places the next request that can be placed. `false`: every class waits.
    fn place_one(&mut self, place: &mut impl FnMut(Class, u32) -> PlaceOutcome) -> bool {
        let classes = self.queues.len();
        let mut waits = 0;
        while self.total > 0 && waits < classes {
            let index = self.turn % classes;
            self.turn = index + 1;
            waits += 1;
            let queue = &mut self.queues[index];
            let (Some(class), Some(tag)) = (Class::from_index(index), queue.next()) else { continue };
            match place(class, tag) {
                PlaceOutcome::Leaves => {
                    queue.remove_next();
                    self.total -= 1;
                    return true;
                }
                PlaceOutcome::Passed if queue.pass() => {
                    // The same class has another turn.
                    self.turn = index;
                    waits -= 1;
                }
                PlaceOutcome::Passed | PlaceOutcome::Waits => queue.waits = true,
            }
        }
        false
    }

    fn remove(&mut self, class: Class, tag: u32) {
        let Some(queue) = self.queues.get_mut(class.index()) else { return };
        for list in [&mut queue.again, &mut queue.fresh] {
            if let Some(at) = list.iter().position(|waits| *waits == tag) {
                list.remove(at);
                self.total -= 1;
                return;
            }
        }
    }

    /// The queue of a class, for one more request.
    fn queue(&mut self, class: Class) -> &mut Queue {
        let index = class.index();
        if self.queues.len() <= index {
            self.queues.resize_with(index + 1, Queue::default);
        }
        self.total += 1;
        &mut self.queues[index]
    }
}

impl Queue {
    fn next(&self) -> Option<u32> {
        self.looked_at().or_else(|| self.fresh.front()).filter(|_| !self.waits).copied()
    }

    fn looked_at(&self) -> Option<&u32> {
        self.again.get(self.passed).filter(|_| self.passed < MAX_PASSED)
    }

    fn remove_next(&mut self) {
        if self.looked_at().is_some() {
            self.again.remove(self.passed);
        } else {
            self.fresh.pop_front();
        }
    }

    /// Passes over [`Queue::next`]. `false`: the search of this class ends there.
    fn pass(&mut self) -> bool {
        let may = self.passed < MAX_PASSED;
        if may && self.looked_at().is_none() {
            self.again.extend(self.fresh.pop_front());
        }
        self.passed += usize::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn class(index: usize) -> Class {
        Class::from_index(index).unwrap()
    }

    #[test]
    fn classes_take_turns_and_one_that_waits_does_not_hold_up_another() {
        let mut waiting = Waiting::default();
        let [one, two] = [0, 3].map(class);
        for tag in 0..3 {
            waiting.last(one, Priority::Normal, tag);
            waiting.last(two, Priority::Normal, 10 + tag);
        }
        let mut order = Vec::new();
        waiting.place(0, None, |class, tag| {
            if class == one && tag == 1 {
                return PlaceOutcome::Waits;
            }
            order.push(tag);
            PlaceOutcome::Leaves
        });
        assert_eq!((order, waiting.len()), (vec![0, 10, 11, 12], 2));
        waiting.again(one, Priority::Normal, 9);
        let mut order = Vec::new();
        waiting.place(0, None, |_, tag| {
            order.push(tag);
            PlaceOutcome::Leaves
        });
        assert_eq!((order, waiting.len()), (vec![9, 1, 2], 0));
    }

    #[test]
    fn a_class_that_waits_is_asked_once_in_a_search_and_one_class_can_be_asked_alone() {
        let mut waiting = Waiting::default();
        let [one, two] = [0, 3].map(class);
        for tag in 0..3 {
            waiting.last(one, Priority::Normal, tag);
            waiting.last(two, Priority::Normal, 10 + tag);
        }
        let mut asked = Vec::new();
        waiting.place(0, None, |class, tag| {
            asked.push(tag);
            if class == one { PlaceOutcome::Waits } else { PlaceOutcome::Leaves }
        });
        assert_eq!(asked, [0, 10, 11, 12]);
        assert!(waiting.has_fresh(one) && !waiting.has_fresh(two));
        waiting.last(two, Priority::Normal, 13);
        let mut asked = Vec::new();
        waiting.place(0, Some(two), |_, tag| {
            asked.push(tag);
            PlaceOutcome::Waits
        });
        assert_eq!((asked, waiting.len()), (vec![13], 4));
    }

    #[test]
    fn what_is_taken_out_is_not_placed() {
        let mut waiting = Waiting::default();
        (0..3).for_each(|tag| waiting.last(class(1), Priority::Normal, tag));
        waiting.again(class(1), Priority::Normal, 3);
        for tag in [3, 1, 9] {
            waiting.remove(class(1), Priority::Normal, tag);
        }
        waiting.remove(class(2), Priority::Normal, 0);
        let mut order = Vec::new();
        waiting.place(0, None, |_, tag| {
            order.push(tag);
            PlaceOutcome::Leaves
        });
        assert_eq!((order, waiting.len()), (vec![0, 2], 0));
    }

    #[test]
    fn those_behind_one_that_is_passed_over_go_in_their_order_and_it_stays_first() {
        let mut waiting = Waiting::default();
        (0..3).for_each(|tag| waiting.last(class(0), Priority::Normal, tag));
        for tag in [7, 8] {
            waiting.again(class(0), Priority::Normal, tag);
        }
        let mut order = Vec::new();
        waiting.place(0, None, |_, tag| match tag {
            7 => PlaceOutcome::Passed,
            2 => PlaceOutcome::Waits,
            _ => {
                order.push(tag);
                PlaceOutcome::Leaves
            }
        });
        assert_eq!((order, waiting.len()), (vec![8, 0, 1], 2));
        let mut order = Vec::new();
        waiting.place(0, None, |_, tag| {
            order.push(tag);
            PlaceOutcome::Leaves
        });
        assert_eq!(order, [7, 2]);
    }

    #[test]
    fn what_is_put_off_waits_behind_what_is_there_and_holds_up_nobody_if_it_is_passed_over() {
        let mut waiting = Waiting::default();
        waiting.later(class(0), Priority::Normal, 7, 10);
        waiting.later(class(0), Priority::Normal, 8, 20);
        waiting.later(class(0), Priority::Normal, 9, 10);
        waiting.last(class(0), Priority::Normal, 0);
        let place = |waiting: &mut Waiting, now| {
            let mut order = Vec::new();
            waiting.place(now, None, |_, tag| {
                order.push(tag);
                if tag == 7 { PlaceOutcome::Passed } else { PlaceOutcome::Leaves }
            });
            order
        };
        assert_eq!((place(&mut waiting, 9), waiting.len()), (vec![0], 3));
        waiting.last(class(0), Priority::Normal, 1);
        assert_eq!(place(&mut waiting, 10), [1, 7, 9]);
        waiting.last(class(0), Priority::Normal, 2);
        assert_eq!((place(&mut waiting, 10), waiting.len()), (vec![7, 2], 2));
        waiting.remove(class(0), Priority::Normal, 8);
        waiting.remove(class(0), Priority::Normal, 7);
        assert_eq!((place(&mut waiting, 20), waiting.len()), (vec![], 0));
    }

    #[test]
    fn however_many_are_passed_over_a_search_ends_and_reaches_what_is_new() {
        let mut waiting = Waiting::default();
        (0..1_000).for_each(|tag| waiting.again(class(0), Priority::Normal, tag));
        (1_000..1_003).for_each(|tag| waiting.last(class(0), Priority::Normal, tag));
        let (mut asked, mut given) = (0, Vec::new());
        waiting.place(0, None, |_, tag| {
            asked += 1;
            if tag < 1_000 {
                return PlaceOutcome::Passed;
            }
            given.push(tag);
            PlaceOutcome::Leaves
        });
        assert_eq!((asked, given), (MAX_PASSED + 3, vec![1_000, 1_001, 1_002]));
        let mut asked = 0;
        waiting.place(0, None, |_, _| {
            asked += 1;
            PlaceOutcome::Waits
        });
        assert_eq!(asked, 1, "a farm that is full is asked once");
    }

    #[test]
    fn urgent_requests_of_any_class_go_first_and_one_of_eight_is_a_normal_one() {
        let mut waiting = Waiting::default();
        for tag in 0..20 {
            waiting.last(class(0), Priority::Normal, tag);
            waiting.last(class(tag as usize % 3), Priority::Urgent, 100 + tag);
        }
        let placed = |waiting: &mut Waiting, most: usize| {
            let mut order = Vec::new();
            waiting.place(0, None, |_, tag| {
                if order.len() == most {
                    return PlaceOutcome::Waits;
                }
                order.push(tag);
                PlaceOutcome::Leaves
            });
            order
        };
        // Over several searches, as nodes get room.
        let first: Vec<u32> = (0..8).flat_map(|_| placed(&mut waiting, 2)).collect();
        assert_eq!(first.iter().filter(|tag| **tag < 100).copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!((first[7], first[15]), (0, 1));
        let rest = placed(&mut waiting, 100);
        assert_eq!((rest.len(), waiting.len()), (24, 0));
        assert_eq!(rest.iter().rposition(|tag| *tag >= 100), Some(5), "urgent ones that are left precede all others");
        // One that a node lost keeps its priority, and one that failed too.
        waiting.last(class(0), Priority::Normal, 1);
        waiting.again(class(0), Priority::Urgent, 2);
        waiting.later(class(0), Priority::Urgent, 3, 0);
        waiting.remove(class(0), Priority::Urgent, 2);
        assert_eq!(placed(&mut waiting, 100), [3, 1]);
    }
}
