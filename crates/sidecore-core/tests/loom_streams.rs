//! What a program and its sidecore share of a stream, under every interleaving: see `loom.rs`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use sidecore_core::streams::bell::{Bell, Rung};
use sidecore_core::streams::hold::{Hold, Holder};
use sidecore_core::sync::{AtomicU64, Ordering, Reliance, weakened};

/// A sidecore and a program that take a stream in turn, each moving what the other left.
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
            Bell(bell).shut();
            tail.load(Ordering::Relaxed)
        });
        let [bell, tail] = &*words;
        tail.store(1, Ordering::Relaxed);
        let rung = Bell(bell).ring();
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

/// A sidecore finds a stream held, and its program releases it meanwhile with something left in the ring.
fn a_stream_that_is_released_is_served() {
    loom::model(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        assert!(Hold(&words[1]).take(Holder::Program));
        let theirs = words.clone();
        let sidecore = thread::spawn(move || {
            let [bell, hold] = &*theirs;
            Hold(hold).take(Holder::Sidecore) || {
                Bell(bell).arm();
                Hold(hold).take(Holder::Sidecore)
            }
        });
        let [bell, hold] = &*words;
        Hold(hold).release();
        let rung = Bell(bell).ring();
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

/// A service shuts a bell because of an error, while the program writes.
fn an_error_is_told() {
    loom::model(|| {
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let theirs = words.clone();
        let service = thread::spawn(move || {
            let [bell, error] = &*theirs;
            error.store(104, Ordering::Relaxed);
            Bell(bell).shut();
        });
        let [bell, error] = &*words;
        if Bell(bell).ring() == Rung::Shut {
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
