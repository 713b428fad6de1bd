//! Models of the state that a program and its sidecore share of a stream, under every interleaving of the memory model, up
//! to a bound on preemptions.
//!
//! Each ordering that the code relies on has a twin here: the same code without that ordering, which must fail. Run:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p sidecore-streams --test loom`
#![cfg(loom)]

use loom::sync::{Arc, Mutex};
use loom::thread;
use sidecore_core::sync::{AtomicU64, Ordering, Reliance, fence, weakened};
use sidecore_streams::bell::{Rung, WakeFlag};
use sidecore_streams::hold::{Hold, Holder};
use sidecore_streams::slot::{Key, SlotState, SlotWord, Ticket};

/// A sidecore and a program take a stream in turn, each moving the bytes that the other left.
fn holders_go_on_where_the_other_stopped() {
    loom::model(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let moves = |words: &[AtomicU64; 2], holder| {
            let ([hold, head], mut moved) = (words, 0);
            if Hold(hold).take(holder) {
                head.store(head.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                moved = 1;
                Hold(hold).release();
            }
            moved
        };
        let theirs = words.clone();
        let sidecore = thread::spawn(move || moves(&theirs, Holder::Sidecore));
        let moved = moves(&words, Holder::Program) + sidecore.join().unwrap();
        assert_eq!(words[1].load(Ordering::Relaxed), moved, "a holder began where another did");
    });
}

#[test]
fn a_stream_has_one_holder_who_knows_how_far_the_last_one_came() {
    holders_go_on_where_the_other_stopped();
}

#[test]
#[should_panic(expected = "began where another did")]
fn twin_that_takes_a_stream_without_acquire_must_fail() {
    weakened(&[(Reliance::HoldTake, Ordering::Relaxed)], holders_go_on_where_the_other_stopped);
}

#[test]
#[should_panic(expected = "began where another did")]
fn twin_that_releases_a_stream_without_release_must_fail() {
    weakened(&[(Reliance::HoldRelease, Ordering::Relaxed)], holders_go_on_where_the_other_stopped);
}

/// A service leaves while a program writes a message.
fn nothing_stays_in_a_ring_that_is_left() {
    loom::model(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let theirs = words.clone();
        let service = thread::spawn(move || {
            let [bell, tail] = &*theirs;
            WakeFlag(bell).shut();
            tail.load(Ordering::Relaxed)
        });
        let [bell, tail] = &*words;
        tail.store(1, Ordering::Relaxed);
        let rung = WakeFlag(bell).ring();
        let seen = service.join().unwrap();
        assert!(rung == Rung::Shut || seen == 1, "a message that nobody moves");
    });
}

#[test]
fn whoever_writes_to_a_ring_that_is_left_learns_of_it() {
    nothing_stays_in_a_ring_that_is_left();
}

#[test]
#[should_panic(expected = "that nobody moves")]
fn twin_that_leaves_a_ring_without_its_fence_must_fail() {
    weakened(&[(Reliance::BellArm, Ordering::Relaxed)], nothing_stays_in_a_ring_that_is_left);
}

#[test]
#[should_panic(expected = "that nobody moves")]
fn twin_that_writes_to_a_ring_without_its_fence_must_fail() {
    weakened(&[(Reliance::BellRing, Ordering::Relaxed)], nothing_stays_in_a_ring_that_is_left);
}

/// A sidecore finds a stream held, and its program releases it meanwhile with bytes left in the ring.
fn a_stream_that_is_released_is_served() {
    loom::model(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        assert!(Hold(&words[1]).take(Holder::Program));
        let theirs = words.clone();
        let sidecore = thread::spawn(move || {
            let [bell, hold] = &*theirs;
            Hold(hold).take(Holder::Sidecore) || {
                WakeFlag(bell).arm();
                Hold(hold).take(Holder::Sidecore)
            }
        });
        let [bell, hold] = &*words;
        Hold(hold).release();
        let rung = WakeFlag(bell).ring();
        assert!(sidecore.join().unwrap() || rung == Rung::Announce, "a stream that nobody serves");
    });
}

#[test]
fn a_sidecore_that_found_a_stream_held_hears_of_its_release() {
    a_stream_that_is_released_is_served();
}

#[test]
#[should_panic(expected = "that nobody serves")]
fn twin_that_finds_a_stream_held_without_its_fence_must_fail() {
    weakened(&[(Reliance::BellArm, Ordering::Relaxed)], a_stream_that_is_released_is_served);
}

#[test]
#[should_panic(expected = "that nobody serves")]
fn twin_that_releases_a_stream_without_its_fence_must_fail() {
    weakened(&[(Reliance::BellRing, Ordering::Relaxed)], a_stream_that_is_released_is_served);
}

/// A program sends a message by its own call during a turn of its sidecore, and then writes another.
fn what_follows_an_own_send_is_served() {
    loom::model(|| {
        let words = Arc::new([0; 4].map(AtomicU64::new));
        WakeFlag(&words[0]).arm();
        let theirs = words.clone();
        let sidecore = thread::spawn(move || {
            let [bell, hold, tail, head] = &*theirs;
            WakeFlag(bell).disarm();
            let held = Hold(hold).take(Holder::Sidecore) || {
                WakeFlag(bell).arm();
                Hold(hold).take(Holder::Sidecore)
            };
            let mut seen = u64::MAX;
            if held {
                seen = tail.load(Ordering::Acquire);
                head.store(seen, Ordering::Relaxed);
                Hold(hold).release();
                WakeFlag(bell).arm();
            }
            held && tail.load(Ordering::Relaxed) != seen
        });
        let [bell, hold, tail, head] = &*words;
        tail.store(1, Ordering::Release);
        let mut is_announced = false;
        if Hold(hold).take(Holder::Program) {
            head.store(1, Ordering::Relaxed);
            Hold(hold).release();
        } else {
            is_announced = WakeFlag(bell).ring() == Rung::Announce;
        }
        tail.store(2, Ordering::Release);
        is_announced |= WakeFlag(bell).ring() == Rung::Announce;
        let looks_again = sidecore.join().unwrap();
        assert!(is_announced || looks_again || head.load(Ordering::Relaxed) == 2, "a message that nobody moves");
    });
}

#[test]
fn an_own_send_hides_no_later_message_from_the_sidecore() {
    what_follows_an_own_send_is_served();
}

#[test]
#[should_panic(expected = "that nobody moves")]
fn twin_that_looks_again_without_its_fence_must_fail() {
    weakened(&[(Reliance::BellArm, Ordering::Relaxed)], what_follows_an_own_send_is_served);
}

/// A service shuts a bell because of an error, while the program writes.
fn an_error_is_told() {
    loom::model(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let theirs = words.clone();
        let service = thread::spawn(move || {
            let [bell, error] = &*theirs;
            error.store(104, Ordering::Relaxed);
            WakeFlag(bell).shut();
        });
        let [bell, error] = &*words;
        if WakeFlag(bell).ring() == Rung::Shut {
            assert_eq!(error.load(Ordering::Relaxed), 104, "a bell that is shut for no reason");
        }
        service.join().unwrap();
    });
}

#[test]
fn who_sees_a_bell_shut_sees_why() {
    an_error_is_told();
}

#[test]
#[should_panic(expected = "for no reason")]
fn twin_that_shuts_a_bell_without_release_must_fail() {
    weakened(&[(Reliance::BellShut, Ordering::Relaxed)], an_error_is_told);
}

#[test]
#[should_panic(expected = "for no reason")]
fn twin_that_sees_a_bell_shut_without_its_fence_must_fail() {
    weakened(&[(Reliance::BellSeen, Ordering::Relaxed)], an_error_is_told);
}

/// A number whose socket is in the first of two rings, as a library has it: which key each ring has, and rings
/// without one.
struct Number {
    slot: SlotWord,
    rings: [Mutex<Key>; 2],
    free: Mutex<Vec<usize>>,
    ring: AtomicU64,
}

impl Number {
    fn promoted() -> (Arc<Self>, Ticket) {
        let number = Arc::new(Self {
            slot: SlotWord::new(),
            rings: [Mutex::new(Key::NONE), Mutex::new(Key::NONE)],
            free: Mutex::new(vec![1, 0]),
            ring: AtomicU64::new(0),
        });
        number.slot.make();
        let ticket = number.promote().unwrap();
        (number, ticket)
    }

    fn promote(&self) -> Option<Ticket> {
        let look = self.slot.enter();
        let ticket = self.slot.begin_entering(look.ticket());
        let entered = ticket.filter(|ticket| {
            let ring = self.free.lock().unwrap().pop().unwrap();
            *self.rings[ring].lock().unwrap() = Key::new(3, *ticket);
            self.ring.store(ring as u64, Ordering::Release);
            let is_entered = self.slot.is_entered(*ticket);
            if !is_entered {
                self.empty(*ticket);
                self.free.lock().unwrap().push(ring);
            }
            is_entered
        });
        if entered.is_none() && matches!(look.state(), SlotState::Made | SlotState::Entering) {
            ticket.inspect(|ticket| self.slot.stop_entering(*ticket, SlotState::Made));
            self.slot.exit();
        }
        entered
    }

    fn empty(&self, ticket: Ticket) -> usize {
        let ring = self.ring.load(Ordering::Acquire) as usize;
        let mut key = self.rings[ring].lock().unwrap();
        if *key == Key::new(3, ticket) {
            *key = Key::NONE;
        }
        ring
    }

    fn demote(&self, of: Ticket) {
        self.demote_by(of, |_, ticket| ticket);
    }

    /// `ticket`: the ring that has left.
    fn demote_by(&self, of: Ticket, ticket: fn(&SlotWord, Ticket) -> Ticket) {
        let look = self.slot.leave(of);
        if look.is_in_ring() && look.ticket().is_same_socket(of) {
            let ring = self.empty(look.ticket());
            if self.slot.has_left(ticket(&self.slot, look.ticket())) {
                self.free.lock().unwrap().push(ring);
            }
        }
    }

    fn close(&self) {
        let before = self.slot.forget();
        if before.is_in_ring() {
            let ring = self.empty(before.ticket());
            self.free.lock().unwrap().push(ring);
        }
    }

    fn send(&self, of: Ticket) -> bool {
        let look = self.slot.look();
        if !look.ticket().is_same_socket(of) || !look.is_in_ring() {
            return false;
        }
        let ring = self.ring.load(Ordering::Acquire) as usize;
        let key = self.rings[ring].lock().unwrap();
        *key == Key::new(3, look.ticket())
    }

    fn check(&self) {
        let mut free = self.free.lock().unwrap().clone();
        let keys = free.iter().map(|ring| *self.rings[*ring].lock().unwrap());
        assert!({ keys }.all(|key| key == Key::NONE), "a ring was taken away");
        let look = self.slot.look();
        if look.is_in_ring() {
            let ring = self.ring.load(Ordering::Relaxed) as usize;
            assert_eq!(*self.rings[ring].lock().unwrap(), Key::new(3, look.ticket()), "a ring was taken away");
            free.push(ring);
        }
        free.sort_unstable();
        assert_eq!(free, [0, 1], "a ring is in use twice, or lost");
    }
}

/// Two senders leave a ring, one of them late: the other has promoted the socket again.
fn a_late_sender_takes_no_ring_away(ticket: fn(&SlotWord, Ticket) -> Ticket) {
    loom::model(move || {
        let (number, first) = Number::promoted();
        let theirs = number.clone();
        let late = thread::spawn(move || theirs.demote_by(first, ticket));
        number.demote(first);
        number.promote();
        late.join().unwrap();
        number.check();
    });
}

#[test]
fn a_sender_that_comes_late_ends_its_own_ring_alone() {
    a_late_sender_takes_no_ring_away(|_, ticket| ticket);
}

#[test]
#[should_panic(expected = "a ring")]
fn twin_that_ends_whichever_ring_there_is_must_fail() {
    a_late_sender_takes_no_ring_away(|slot, _| slot.look().ticket());
}

#[test]
fn a_message_does_not_go_on_into_the_next_socket() {
    loom::model(|| {
        let (number, first) = Number::promoted();
        let theirs = number.clone();
        let closer = thread::spawn(move || {
            theirs.close();
            theirs.slot.make();
            theirs.promote()
        });
        let (sent, again) = (number.send(first), number.send(first));
        assert!(sent || !again, "a socket that was closed came back");
        let second = closer.join().unwrap();
        assert!(second.is_some_and(|second| !number.send(first) && number.send(second)));
        number.check();
    });
}

#[test]
fn a_closer_a_sender_and_a_handler_let_go_of_a_ring_once() {
    loom::model(|| {
        let (number, first) = Number::promoted();
        let (closers, handlers) = (number.clone(), number.clone());
        let closer = thread::spawn(move || closers.close());
        let handler = thread::spawn(move || handlers.demote(first));
        number.demote(first);
        closer.join().unwrap();
        handler.join().unwrap();
        number.check();
    });
}

#[test]
fn a_fork_finds_the_ring_or_is_found() {
    loom::model(|| {
        let (number, first) = Number::promoted();
        number.demote(first);
        let epoch = Arc::new(AtomicU64::new(0));
        let (theirs, epochs) = (number.clone(), epoch.clone());
        let fork = thread::spawn(move || {
            epochs.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            theirs.demote(first);
        });
        let before = epoch.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(ring) = number.promote() {
            fence(Ordering::SeqCst);
            if epoch.load(Ordering::SeqCst) != before {
                number.demote(ring);
            }
        }
        let forked_after = before == 0;
        fork.join().unwrap();
        assert!(!forked_after || !number.slot.look().is_in_ring(), "a child has a ring's socket");
        number.check();
    });
}
