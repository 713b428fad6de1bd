//! Ring and doorbell under every interleaving that the memory model allows, up to a bound on preemptions.
//!
//! Each ordering that the code relies on has a twin here: the same protocol without that ordering, which must fail.
//! Run: `RUSTFLAGS="--cfg loom" cargo test --release -p sidecore-core --test loom`
#![cfg(loom)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use sidecore_core::doorbell::Doorbell;
use sidecore_core::policy::notify::{Notify, Wait, WaitLoop, Waiter};
use sidecore_core::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use sidecore_core::sync::{AtomicU64, Ordering, fence};
use sidecore_core::words::Line;

const SLOTS: usize = 2;

fn lines() -> Arc<Vec<Line>> {
    Arc::new((0..SLOTS).map(|_| Line::default()).collect())
}

fn message(n: u64) -> Message {
    [n * 3 + 1; MESSAGE_WORDS]
}

/// The pushing side with the ordering of the publication as a parameter: `Release` is what the ring does.
fn push_with(ordering: Ordering, slots: &[Line], number: u64, message: &Message) {
    let line = &slots[number as usize % SLOTS];
    for (word, value) in line.0.iter().zip(message) {
        word.store(*value, Ordering::Relaxed);
    }
    line.0[MESSAGE_WORDS].store(number + 1, ordering);
}

/// The popping side with the ordering of the look as a parameter: `Acquire` is what the ring does.
fn pop_with(ordering: Ordering, slots: &[Line], number: u64) -> Option<Message> {
    let line = &slots[number as usize % SLOTS];
    if line.0[MESSAGE_WORDS].load(ordering) != number + 1 {
        return None;
    }
    Some(core::array::from_fn(|i| line.0[i].load(Ordering::Relaxed)))
}

#[test]
fn messages_arrive_whole_and_in_order() {
    loom::model(|| {
        let slots = lines();
        let theirs = slots.clone();
        let sender = thread::spawn(move || {
            let mut producer = Producer::new();
            (0..SLOTS as u64).for_each(|n| producer.push(&theirs, &message(n)));
        });
        let mut consumer = Consumer::new();
        for n in 0..SLOTS as u64 {
            if let Some(got) = consumer.pop(&slots) {
                assert_eq!(got, message(n));
            } else {
                break;
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_completion_frees_its_submission_slot() {
    loom::model(|| {
        let (submission, completion) = (lines(), lines());
        let theirs = (submission.clone(), completion.clone());
        let service = thread::spawn(move || {
            let (mut consumer, mut producer) = (Consumer::new(), Producer::new());
            for n in 0..SLOTS as u64 + 1 {
                let got = loop {
                    match consumer.pop(&theirs.0) {
                        Some(got) => break got,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(got, message(n));
                producer.push(&theirs.1, &got);
            }
        });
        let (mut producer, mut consumer) = (Producer::new(), Consumer::new());
        for n in 0..SLOTS as u64 {
            producer.push(&submission, &message(n));
        }
        while consumer.pop(&completion).is_none() {
            thread::yield_now();
        }
        producer.push(&submission, &message(SLOTS as u64));
        service.join().unwrap();
    });
}

fn torn_message(publish: Ordering, look: Ordering) {
    loom::model(move || {
        let slots = lines();
        let theirs = slots.clone();
        let sender = thread::spawn(move || push_with(publish, &theirs, 0, &message(0)));
        if let Some(got) = pop_with(look, &slots, 0) {
            assert_eq!(got, message(0), "a torn message");
        }
        sender.join().unwrap();
    });
}

#[test]
fn release_and_acquire_keep_messages_whole() {
    torn_message(Ordering::Release, Ordering::Acquire);
}

#[test]
#[should_panic(expected = "a torn message")]
fn twin_without_release_must_fail() {
    torn_message(Ordering::Relaxed, Ordering::Acquire);
}

#[test]
#[should_panic(expected = "a torn message")]
fn twin_without_acquire_must_fail() {
    torn_message(Ordering::Release, Ordering::Relaxed);
}

/// One waiter goes to sleep while one ringer publishes: the waiter must see the message or be woken.
fn no_wake_up_is_lost(arm: fn(&AtomicU64), must_wake: fn(&AtomicU64) -> bool) {
    loom::model(move || {
        let (slots, armed) = (lines(), Arc::new(AtomicU64::new(0)));
        let theirs = (slots.clone(), armed.clone());
        let ringer = thread::spawn(move || {
            Producer::new().push(&theirs.0, &message(0));
            must_wake(&theirs.1)
        });
        arm(&armed);
        let seen = Consumer::new().pop(&slots).is_some();
        let woken = ringer.join().unwrap();
        assert!(seen || woken, "the waiter sleeps and nobody wakes it");
    });
}

#[test]
fn the_doorbell_loses_no_wake_up() {
    no_wake_up_is_lost(|word| Doorbell(word).arm(), |word| Doorbell(word).must_wake());
}

#[test]
#[should_panic(expected = "nobody wakes it")]
fn twin_without_the_waiters_fence_must_fail() {
    no_wake_up_is_lost(|word| word.store(1, Ordering::Relaxed), |word| Doorbell(word).must_wake());
}

#[test]
#[should_panic(expected = "nobody wakes it")]
fn twin_without_the_ringers_fence_must_fail() {
    no_wake_up_is_lost(
        |word| Doorbell(word).arm(),
        |word| word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0,
    );
}

#[test]
#[should_panic(expected = "nobody wakes it")]
fn twin_with_acquire_release_fences_must_fail() {
    no_wake_up_is_lost(
        |word| {
            word.store(1, Ordering::Relaxed);
            fence(Ordering::AcqRel);
        },
        |word| {
            fence(Ordering::AcqRel);
            word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0
        },
    );
}

/// What an eventfd is to its waiter: a wake-up that came first is not lost.
#[derive(Default)]
struct Event(Mutex<bool>, Condvar);

impl Event {
    fn notify(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.lock().unwrap();
        while !*rung {
            rung = self.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// The waiter receives two messages and sleeps before each if its loop says so; a lost wake-up is a deadlock, which loom
/// reports.
fn sleeps_twice(arm: fn(&AtomicU64)) {
    loom::model(move || {
        let (slots, armed, wake) = (lines(), Arc::new(AtomicU64::new(0)), Arc::new(Event::default()));
        let theirs = (slots.clone(), armed.clone(), wake.clone());
        let ringer = thread::spawn(move || {
            let mut producer = Producer::new();
            for n in 0..2 {
                producer.push(&theirs.0, &message(n));
                if Doorbell(&theirs.1).must_wake() {
                    theirs.2.notify();
                }
            }
        });
        let mut waits = WaitLoop::new(Waiter::new(Notify::Park, 0, false));
        let (mut consumer, bell) = (Consumer::new(), Doorbell(&armed));
        for n in 0..2 {
            let got = loop {
                if let Some(got) = consumer.pop(&slots) {
                    break got;
                }
                loop {
                    match waits.next(0, consumer.ready(&slots)) {
                        Wait::Arm => arm(&armed),
                        Wait::Sleep { .. } => wake.wait(),
                        Wait::Disarm => break bell.disarm(),
                        Wait::Look | Wait::Spin => break,
                    }
                }
            };
            assert_eq!(got, message(n));
        }
        ringer.join().unwrap();
    });
}

#[test]
fn sleeping_twice_loses_no_wake_up() {
    sleeps_twice(|word| Doorbell(word).arm());
}

#[test]
#[should_panic(expected = "deadlock")]
fn twin_that_sleeps_without_its_fence_must_fail() {
    sleeps_twice(|word| word.store(1, Ordering::Relaxed));
}
