//! Models of the state that threads and processes share, under every interleaving of the memory model, up to a bound
//! on preemptions.
//!
//! Each ordering that the code relies on has a twin here: the same code without that ordering, which must fail. Run:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p sidecore-core --test loom`
#![cfg(loom)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use sidecore_core::doorbell::Doorbell;
use sidecore_core::flag::Flag;
use sidecore_core::gate::Gate;
use sidecore_core::generation::{Generation, renew, whole};
use sidecore_core::per_process::{Got, PerProcess};
use sidecore_core::policy::notify::{Notify, Wait, WaitLoop, Waiter};
use sidecore_core::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use sidecore_core::sync::{AtomicU64, Ordering, Reliance, weakened};
use sidecore_core::words::Line;
use std::convert::Infallible;

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

/// A model of an eventfd: a wake-up before the wait is not lost.
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

/// The waiter receives two messages and sleeps before each if its loop says so; a lost wake-up is a deadlock, which
/// loom reports.
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

/// A worker writes a result inside its gate; its request goes to another worker as soon as the gate is shut. The word
/// stands for a lane's memory: the first worker's write happens before the second one's, or never.
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

/// A worker enters its gate for a second request and ends inside. Its end is seen by a relaxed look.
fn what_is_left_is_known() {
    loom::model(|| {
        let (gate, ended) = (Arc::new(Gate::default()), Arc::new(AtomicU64::new(0)));
        let theirs = (gate.clone(), ended.clone());
        let worker = thread::spawn(move || {
            assert!(theirs.0.enter(1));
            theirs.0.leave();
            assert!(theirs.0.enter(2));
            theirs.1.store(1, Ordering::Release);
        });
        if ended.load(Ordering::Relaxed) == 1 {
            assert_eq!(gate.left_in(), Some(2), "another request is blamed");
        }
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_that_ended_behind_its_gate_says_where() {
    what_is_left_is_known();
}

#[test]
#[should_panic(expected = "another request is blamed")]
fn twin_that_sees_an_end_without_its_fence_must_fail() {
    weakened(&[(Reliance::GateLeft, Ordering::Relaxed)], what_is_left_is_known);
}

/// Two senders queue one item each; the reader looks meanwhile, and once after. The queue is two words without any
/// ordering of their own, so that only the flag makes items visible.
fn all_that_is_queued_is_found() {
    loom::model(|| {
        let (flag, queue) = (Arc::new(Flag::default()), Arc::new([AtomicU64::new(0), AtomicU64::new(0)]));
        let senders = [0, 1].map(|word: usize| {
            let (flag, queue) = (flag.clone(), queue.clone());
            thread::spawn(move || {
                queue[word].store(1, Ordering::Relaxed);
                flag.raise();
            })
        });
        let mut found = 0;
        let mut take = || {
            if flag.is_up() {
                flag.lower();
                found = queue.iter().map(|word| word.load(Ordering::Relaxed)).sum::<u64>();
            }
        };
        take();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
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
fn twin_that_lowers_its_flag_without_acquire_must_fail() {
    weakened(&[(Reliance::FlagLower, Ordering::Relaxed)], all_that_is_queued_is_found);
}

type Blocks = [[AtomicU64; 2]; 2];

fn generations(blocks: &Blocks) -> impl Iterator<Item = Generation<'_>> + Clone {
    blocks.iter().map(|[generation, _]| Generation(generation))
}

fn give(blocks: &Blocks, owner: u64) {
    blocks.iter().for_each(|[_, word]| word.store(owner, Ordering::Relaxed));
}

/// Blocks change owners during a read, which uses the generation of the first.
fn owners_are_not_mixed() {
    loom::model(|| {
        let blocks = Arc::new(Blocks::default());
        renew(generations(&blocks), || give(&blocks, 1));
        let theirs = blocks.clone();
        let reader = thread::spawn(move || {
            let generation = || Ok::<_, Infallible>(theirs[0][0].load(Ordering::Relaxed));
            whole(generation, || Ok([1, 0].map(|block: usize| theirs[block][1].load(Ordering::Relaxed))))
        });
        renew(generations(&blocks), || give(&blocks, 2));
        let Ok(found) = reader.join().unwrap();
        assert!(found.is_none_or(|words| words == [1, 1] || words == [2, 2]), "two owners are mixed");
    });
}

#[test]
fn what_is_read_of_a_block_is_of_one_owner() {
    owners_are_not_mixed();
}

#[test]
#[should_panic(expected = "two owners are mixed")]
fn twin_that_opens_a_block_without_release_must_fail() {
    weakened(&[(Reliance::BlockOpen, Ordering::Relaxed)], owners_are_not_mixed);
}

#[test]
#[should_panic(expected = "two owners are mixed")]
fn twin_that_sees_a_block_open_without_acquire_must_fail() {
    weakened(&[(Reliance::BlockSeen, Ordering::Relaxed)], owners_are_not_mixed);
}

#[test]
#[should_panic(expected = "two owners are mixed")]
fn twin_that_closes_a_block_without_its_fence_must_fail() {
    weakened(&[(Reliance::BlockClose, Ordering::Relaxed)], owners_are_not_mixed);
}

#[test]
#[should_panic(expected = "two owners are mixed")]
fn twin_that_looks_again_without_its_fence_must_fail() {
    weakened(&[(Reliance::BlockStayed, Ordering::Relaxed)], owners_are_not_mixed);
}

/// A block is opened during a single look.
fn an_open_block_is_filled() {
    loom::model(|| {
        let blocks = Arc::new(Blocks::default());
        let theirs = blocks.clone();
        let reader = thread::spawn(move || {
            let [generation, word] = &theirs[0];
            if Generation(generation).is_open() {
                assert_eq!(word.load(Ordering::Relaxed), 1, "an open block is empty");
            }
        });
        renew(generations(&blocks), || give(&blocks, 1));
        reader.join().unwrap();
    });
}

#[test]
fn who_finds_a_block_open_finds_it_filled() {
    an_open_block_is_filled();
}

#[test]
#[should_panic(expected = "an open block is empty")]
fn twin_that_looks_at_a_block_without_acquire_must_fail() {
    weakened(&[(Reliance::BlockLook, Ordering::Relaxed)], an_open_block_is_filled);
}

#[derive(Debug, Default)]
struct Made {
    unwiped: AtomicU64,
    value: AtomicU64,
}

impl Made {
    fn fill(&self) -> *mut Self {
        self.unwiped.store(1, Ordering::Relaxed);
        self.value.store(1, Ordering::Relaxed);
        std::ptr::from_ref(self).cast_mut()
    }
}

fn room(things: usize) -> Vec<Made> {
    (0..things).map(|_| Made::default()).collect()
}

struct Child {
    place: PerProcess<Made>,
    made: Vec<Made>,
}

impl Child {
    fn find(&self, made: *mut Made) -> &Made {
        self.made.iter().find(|known| std::ptr::eq(*known, made)).expect("one of those that were made")
    }

    fn ask(&self, thread: usize) -> (usize, bool) {
        let is_own = |made| self.find(made).unwiped.load(Ordering::Relaxed) == 1;
        let Ok(got) = self.place.get(is_own, || Ok::<_, Infallible>(self.made[thread].fill()));
        let (Got::There(own) | Got::Made { own, .. } | Got::Late { own, .. }) = got;
        assert_eq!(self.find(own).value.load(Ordering::Relaxed), 1, "a process made one by halves");
        (own as usize, matches!(got, Got::Made { parents, .. } if std::ptr::eq(parents, &self.made[0])))
    }
}

/// Two threads of a child ask simultaneously.
fn a_process_makes_one() {
    loom::model(|| {
        let made = room(3);
        let child = Arc::new(Child { place: PerProcess::holding(made[0].fill()), made });
        child.made[0].unwiped.store(0, Ordering::Relaxed);
        let theirs = child.clone();
        let other = thread::spawn(move || theirs.ask(1));
        let (own, inherits) = child.ask(2);
        let (others, other_inherits) = other.join().unwrap();
        assert_eq!(own, others, "a process made two");
        assert!(inherits != other_inherits, "the parent's is inherited once");
    });
}

#[test]
fn the_threads_of_a_process_get_one() {
    a_process_makes_one();
}

#[test]
#[should_panic(expected = "a process made")]
fn twin_that_puts_it_there_without_release_must_fail() {
    weakened(&[(Reliance::PlacePut, Ordering::Relaxed)], a_process_makes_one);
}

#[test]
#[should_panic(expected = "a process made")]
fn twin_that_looks_for_it_without_acquire_must_fail() {
    weakened(&[(Reliance::PlaceLook, Ordering::Relaxed)], a_process_makes_one);
}

#[test]
#[should_panic(expected = "a process made")]
fn twin_that_comes_late_without_acquire_must_fail() {
    weakened(&[(Reliance::PlaceLost, Ordering::Relaxed)], a_process_makes_one);
}

/// One thread makes its process's object, and another forks when it sees it. The child has the memory that the
/// forking thread sees and makes its own object, and everything inherited is complete.
fn a_child_inherits_what_is_whole() {
    loom::model(|| {
        let parent = Arc::new(Child { place: PerProcess::holding(std::ptr::null_mut()), made: room(2) });
        let theirs = parent.clone();
        let forks = thread::spawn(move || {
            let mut copied: *mut Made = std::ptr::null_mut();
            while copied.is_null() {
                thread::yield_now();
                let _ = theirs.place.peek(|there| {
                    copied = there;
                    true
                });
            }
            let child = PerProcess::holding(copied);
            let Ok(got) = child.get(|_| false, || Ok::<_, Infallible>(theirs.made[1].fill()));
            let Got::Made { own, parents } = got else { panic!("a child goes on with its parent's") };
            assert!(std::ptr::eq(own, &theirs.made[1]) && parents == copied);
            assert_eq!(theirs.find(parents).value.load(Ordering::Relaxed), 1, "a child inherits a half");
        });
        parent.ask(0);
        forks.join().unwrap();
    });
}

#[test]
fn a_child_makes_its_own_and_inherits_a_whole_one() {
    a_child_inherits_what_is_whole();
}

#[test]
#[should_panic(expected = "inherits a half")]
fn twin_that_forks_where_it_is_put_without_release_must_fail() {
    weakened(&[(Reliance::PlacePut, Ordering::Relaxed)], a_child_inherits_what_is_whole);
}
