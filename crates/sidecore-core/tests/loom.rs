//! Ring, doorbell, gate and flag under every interleaving that the memory model allows, up to a bound on preemptions.
//!
//! Each ordering that the code relies on has a twin here: the same code without that ordering, which must fail.
//! Run: `RUSTFLAGS="--cfg loom" cargo test --release -p sidecore-core --test loom`
#![cfg(loom)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use sidecore_core::doorbell::Doorbell;
use sidecore_core::flag::Flag;
use sidecore_core::gate::Gate;
use sidecore_core::policy::notify::{Notify, Wait, WaitLoop, Waiter};
use sidecore_core::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use sidecore_core::sync::{AtomicU64, Ordering, Reliance, weakened};
use sidecore_core::words::Line;

const SLOTS: usize = 2;

fn lines() -> Arc<Vec<Line>> {
    Arc::new((0..SLOTS).map(|_| Line::default()).collect())
}

fn message(n: u64) -> Message {
    [n * 3 + 1; MESSAGE_WORDS]
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

fn messages_are_whole() {
    loom::model(|| {
        let slots = lines();
        let theirs = slots.clone();
        let sender = thread::spawn(move || Producer::new().push(&theirs, &message(0)));
        if let Some(got) = Consumer::new().pop(&slots) {
            assert_eq!(got, message(0), "a torn message");
        }
        sender.join().unwrap();
    });
}

#[test]
fn release_and_acquire_keep_messages_whole() {
    messages_are_whole();
}

#[test]
#[should_panic(expected = "a torn message")]
fn twin_without_release_must_fail() {
    weakened(&[(Reliance::RingPublish, Ordering::Relaxed)], messages_are_whole);
}

#[test]
#[should_panic(expected = "a torn message")]
fn twin_without_acquire_must_fail() {
    weakened(&[(Reliance::RingLook, Ordering::Relaxed)], messages_are_whole);
}

/// One waiter goes to sleep while one ringer publishes: the waiter must see the message or be woken.
fn no_wake_up_is_lost() {
    loom::model(move || {
        let (slots, armed) = (lines(), Arc::new(AtomicU64::new(0)));
        let theirs = (slots.clone(), armed.clone());
        let ringer = thread::spawn(move || {
            Producer::new().push(&theirs.0, &message(0));
            Doorbell(&theirs.1).must_wake()
        });
        Doorbell(&armed).arm();
        let seen = Consumer::new().pop(&slots).is_some();
        let woken = ringer.join().unwrap();
        assert!(seen || woken, "the waiter sleeps and nobody wakes it");
    });
}

#[test]
fn the_doorbell_loses_no_wake_up() {
    no_wake_up_is_lost();
}

#[test]
#[should_panic(expected = "nobody wakes it")]
fn twin_without_the_waiters_fence_must_fail() {
    weakened(&[(Reliance::BellArm, Ordering::Relaxed)], no_wake_up_is_lost);
}

#[test]
#[should_panic(expected = "nobody wakes it")]
fn twin_without_the_ringers_fence_must_fail() {
    weakened(&[(Reliance::BellRing, Ordering::Relaxed)], no_wake_up_is_lost);
}

#[test]
#[should_panic(expected = "nobody wakes it")]
fn twin_with_acquire_release_fences_must_fail() {
    weakened(&[(Reliance::BellArm, Ordering::AcqRel), (Reliance::BellRing, Ordering::AcqRel)], no_wake_up_is_lost);
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
fn sleeps_twice() {
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
                        Wait::Arm => bell.arm(),
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
    sleeps_twice();
}

#[test]
#[should_panic(expected = "deadlock")]
fn twin_that_sleeps_without_its_fence_must_fail() {
    weakened(&[(Reliance::BellArm, Ordering::Relaxed)], sleeps_twice);
}

/// A worker writes a result behind its gate; its request is given to another as soon as the gate is shut. The word stands for
/// a lane's memory: what the worker wrote there is in the past for the other, or never comes.
fn nobody_writes_late() {
    loom::model(|| {
        let (gate, memory) = (Arc::new(Gate::default()), Arc::new(AtomicU64::new(0)));
        let theirs = (gate.clone(), memory.clone());
        let worker = thread::spawn(move || {
            let entered = theirs.0.enter(1);
            if entered {
                theirs.1.store(1, Ordering::Relaxed);
                theirs.0.leave();
            }
            entered
        });
        while !gate.shut() {
            thread::yield_now();
        }
        let seen = memory.load(Ordering::Relaxed);
        assert!(!gate.enter(2), "a shut gate lets nobody in");
        assert_eq!(seen, u64::from(worker.join().unwrap()), "a write behind the gate is still to come");
    });
}

#[test]
fn behind_a_shut_gate_nobody_writes() {
    nobody_writes_late();
}

#[test]
#[should_panic(expected = "still to come")]
fn twin_that_leaves_the_gate_without_release_must_fail() {
    weakened(&[(Reliance::GateLeave, Ordering::Relaxed)], nobody_writes_late);
}

#[test]
#[should_panic(expected = "still to come")]
fn twin_that_shuts_the_gate_without_acquire_must_fail() {
    weakened(&[(Reliance::GateShut, Ordering::Relaxed)], nobody_writes_late);
}

/// Two are queued; the reader looks twice meanwhile, and once after. The queue is two words without any ordering of their
/// own, so that what is found is found because of the flag.
fn all_that_is_queued_is_found() {
    loom::model(|| {
        let (flag, queue) = (Arc::new(Flag::default()), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
        let theirs = (flag.clone(), queue.clone());
        let sender = thread::spawn(move || {
            for word in theirs.1.iter() {
                word.store(1, Ordering::Relaxed);
                theirs.0.raise();
            }
        });
        let mut found = 0;
        let mut take = || {
            if flag.is_up() {
                flag.lower();
                found = queue.iter().map(|word| word.load(Ordering::Relaxed)).sum::<u64>();
            }
        };
        take();
        take();
        sender.join().unwrap();
        take();
        assert_eq!(found, 2, "something was left in the queue");
    });
}

#[test]
fn what_is_queued_is_found() {
    all_that_is_queued_is_found();
}

#[test]
#[should_panic(expected = "left in the queue")]
fn twin_that_raises_its_flag_without_release_must_fail() {
    weakened(&[(Reliance::FlagRaise, Ordering::Relaxed)], all_that_is_queued_is_found);
}

#[test]
#[should_panic(expected = "left in the queue")]
fn twin_that_looks_at_its_flag_without_acquire_must_fail() {
    weakened(&[(Reliance::FlagLook, Ordering::Relaxed)], all_that_is_queued_is_found);
}
