//! All orders of the steps of two services and of their deaths.

extern crate std;

use super::*;
use std::collections::{HashSet, VecDeque};
use std::vec;
use std::vec::Vec;

/// Who may do what, by the kernel's locks. A dead process has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Locks {
    keys: bool,
    place: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    AskKeys,
    HearKeys,
    LockKeys,
    AskSocket,
    HearSocket,
    Serve,
    HearEnd,
    Alone,
}

/// The connection between both: what is asked or answered and not yet heard, and which end is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Link {
    asked: Option<u8>,
    answered: Option<bool>,
    closed_by_former: bool,
    closed_by_next: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    former: Option<(Former, Locks)>,
    /// Changes at rest that the former one knows.
    former_knows: u8,
    next: Option<(At, Locks)>,
    next_knows: u8,
    link: Link,
    /// Changes at rest.
    at_rest: u8,
    /// The former one ended because it had to, not by a crash: its supervisor starts another one.
    failed: bool,
    crashed: bool,
}

const MOST_CHANGES: u8 = 2;
const STEPS: [Step; 3] = [Step::Keys, Step::Socket, Step::End];

/// The present rules, or others that must be found out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    Ours,
    /// The former one takes the end of the connection for the end of the process, and locks nothing.
    NoLock,
    /// It does not look at the keys when it has the lock back.
    NoLook,
    /// The next one serves, though the former one closed the connection and lives.
    NoPlace,
}

impl World {
    fn new() -> Self {
        let locks = Locks { keys: true, place: true };
        Self {
            former: Some((Former::default(), locks)),
            former_knows: 0,
            next: Some((At::AskKeys, Locks::default())),
            next_knows: 0,
            link: Link::default(),
            at_rest: 0,
            failed: false,
            crashed: false,
        }
    }

    fn keys_are_free(&self) -> bool {
        !self.former.is_some_and(|(_, locks)| locks.keys) && !self.next.is_some_and(|(_, locks)| locks.keys)
    }

    fn next_serves(&self) -> bool {
        matches!(self.next, Some((At::Serve | At::HearEnd | At::Alone, _)))
    }

    fn check(&self) {
        let former = self.former.filter(|(former, _)| former.may_write());
        assert!(former.is_none() || !self.next_serves(), "two writers: {self:?}");
        let accepts = self.former.is_some_and(|(former, _)| former.accepts());
        assert!(!accepts || !self.next_serves(), "two services accept: {self:?}");
        if let Some((_, locks)) = former {
            assert!(locks.keys, "the former one writes without the lock: {self:?}");
            assert_eq!(self.former_knows, self.at_rest, "the former one has old keys: {self:?}");
        }
        if let Some((_, locks)) = self.next.filter(|_| self.next_serves()) {
            assert!(locks.keys && locks.place, "the next one serves without a lock: {self:?}");
            assert_eq!(self.next_knows, self.at_rest, "the next one has old keys: {self:?}");
        }
    }

    /// Nothing more happens by itself.
    fn check_end(&self) {
        let former = self.former.is_some_and(|(former, _)| former.accepts() && former.may_write());
        let served = former || self.next_serves();
        let nobody = self.former.is_none() && self.next.is_none() && (self.crashed || self.failed);
        assert!(served || nobody, "a service lives and does not serve: {self:?}");
        assert!(self.former.is_none() || self.next.is_none(), "two services: {self:?}");
    }

    fn former_ends(&mut self) {
        self.former = None;
        self.link.closed_by_former = true;
    }

    fn next_ends(&mut self) {
        self.next = None;
        self.link.closed_by_next = true;
    }

    fn steps(self, rules: Rules) -> Vec<Self> {
        let mut after = Vec::new();
        after.extend(self.former_steps(rules));
        after.extend(self.next_steps(rules));
        after
    }

    fn crashes_and_changes(self) -> Vec<Self> {
        let mut after = Vec::new();
        if self.former.is_some() {
            let mut crash = self;
            crash.former_ends();
            crash.crashed = true;
            after.push(crash);
        }
        if self.next.is_some() {
            let mut crash = self;
            crash.next_ends();
            crash.crashed = true;
            after.push(crash);
        }
        if self.at_rest < MOST_CHANGES {
            let mut change = self;
            change.at_rest += 1;
            if self.former.is_some_and(|(former, _)| former.may_write()) {
                change.former_knows = change.at_rest;
                after.push(change);
            } else if self.next_serves() {
                change.next_knows = change.at_rest;
                after.push(change);
            }
        }
        // The next one may take too long at any time while it reads.
        if let Some((mut former, locks)) = self.former.filter(|(former, _)| former.is_overdue(Nanos::MAX)) {
            let mut overdue = self;
            former.next_is_gone(0);
            overdue.former = Some((former, locks));
            overdue.link.closed_by_former = true;
            after.push(overdue);
        }
        after
    }

    fn former_steps(self, rules: Rules) -> Vec<Self> {
        let Some((mut former, mut locks)) = self.former else { return Vec::new() };
        let mut after = self;
        if let Some(asked) = self.link.asked.filter(|_| !self.link.closed_by_former) {
            after.link.asked = None;
            let agreed = former.ask(STEPS[usize::from(asked)], 0).is_ok();
            after.link.answered = Some(agreed);
            if agreed && asked == 0 {
                locks.keys = false;
            }
            after.former = Some((former, locks));
            if agreed && asked == 2 {
                after.former_ends();
            }
            return vec![after];
        }
        if self.link.closed_by_next && former.has_next() {
            former.next_is_gone(0);
            after.former = Some((former, locks));
            after.link.closed_by_former = true;
            return vec![after];
        }
        if !former.wants_lock() {
            return Vec::new();
        }
        let found = if rules == Rules::NoLock || self.keys_are_free() {
            locks.keys = true;
            if self.former_knows == self.at_rest || rules == Rules::NoLook { Found::Same } else { Found::Changed }
        } else {
            Found::Locked
        };
        // Within its time, and after it.
        let times = [0, Nanos::MAX].into_iter().filter_map(|now| {
            let (mut former, mut after) = (former, after);
            let then = former.tried(found, now);
            after.former = Some((former, locks));
            if then == Then::Fail {
                after.former_ends();
                after.failed = true;
            }
            (after != self).then_some(after)
        });
        times.collect()
    }

    fn next_steps(self, rules: Rules) -> Vec<Self> {
        let Some((at, mut locks)) = self.next else { return Vec::new() };
        let mut after = self;
        let ask = |mut world: Self, asked: u8, then: At| {
            world.link.asked = Some(asked);
            world.next = Some((then, locks));
            vec![world]
        };
        match at {
            At::AskKeys => ask(after, 0, At::HearKeys),
            At::AskSocket => ask(after, 1, At::HearSocket),
            At::Serve => ask(after, 2, At::HearEnd),
            At::LockKeys => {
                if self.keys_are_free() {
                    locks.keys = true;
                    after.next_knows = self.at_rest;
                    let then = if locks.place { At::Alone } else { At::AskSocket };
                    after.next = Some((then, locks));
                } else {
                    after.next_ends();
                }
                vec![after]
            }
            At::HearKeys | At::HearSocket | At::HearEnd => {
                let then = match at {
                    At::HearKeys => At::LockKeys,
                    At::HearSocket => At::Serve,
                    _ => At::Alone,
                };
                match self.link.answered {
                    Some(agreed) => {
                        after.link.answered = None;
                        locks.place |= at == At::HearSocket;
                        after.next = Some((then, locks));
                        if !agreed {
                            after.next_ends();
                        }
                    }
                    None if self.link.closed_by_former => {
                        // Whether the former one is dead, only the lock of the place tells.
                        let dead = self.former.is_none() || rules == Rules::NoPlace;
                        if !dead && !locks.place {
                            after.next_ends();
                            return vec![after];
                        }
                        locks.place = true;
                        let then = if at == At::HearKeys { At::LockKeys } else { At::Alone };
                        after.next = Some((then, locks));
                    }
                    None => return Vec::new(),
                }
                vec![after]
            }
            At::Alone => Vec::new(),
        }
    }
}

fn explore(rules: Rules) -> usize {
    let mut seen = HashSet::from([World::new()]);
    let mut todo = VecDeque::from([World::new()]);
    while let Some(world) = todo.pop_front() {
        world.check();
        let steps = world.steps(rules);
        if steps.is_empty() {
            world.check_end();
        }
        for next in steps.into_iter().chain(world.crashes_and_changes()) {
            if seen.insert(next) {
                todo.push_back(next);
            }
        }
    }
    seen.len()
}

#[test]
fn in_no_order_of_steps_and_deaths_do_two_services_write_or_does_none_serve() {
    let worlds = explore(Rules::Ours);
    assert!(worlds > 200, "{worlds} states are not all of them");
}

#[test]
#[should_panic(expected = "the next one has old keys")]
fn a_service_that_does_not_wait_for_the_lock_would_be_a_second_writer() {
    explore(Rules::NoLock);
}

#[test]
#[should_panic(expected = "the former one has old keys")]
fn a_service_that_does_not_look_at_the_keys_would_go_on_with_old_ones() {
    explore(Rules::NoLook);
}

#[test]
#[should_panic(expected = "two services accept")]
fn a_service_that_serves_without_the_lock_of_the_place_would_be_a_second_one() {
    explore(Rules::NoPlace);
}

#[test]
fn steps_come_in_their_order_and_from_one_service() {
    let mut former = Former::default();
    assert_eq!(former.ask(Step::Socket, 0), Err(NotNow::OutOfTurn));
    former.ask(Step::Keys, 0).unwrap();
    assert!(former.accepts() && !former.may_write());
    assert_eq!(former.ask(Step::Keys, 0), Err(NotNow::Another));
    assert_eq!(former.ask(Step::End, 0), Err(NotNow::OutOfTurn));
    assert!(!former.is_overdue(READING - 1) && former.is_overdue(READING));
    former.ask(Step::Socket, 0).unwrap();
    assert!(!former.accepts() && !former.is_overdue(Nanos::MAX));
    former.next_is_gone(7);
    assert_eq!(former.tried(Found::Locked, 7), Then::Wait);
    assert_eq!(former.tried(Found::Locked, 7 + REGAINING), Then::Fail);
}
