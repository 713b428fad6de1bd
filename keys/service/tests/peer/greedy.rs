//! Clients that want more than their share.

use crate::busy::Busy;
use crate::raw::RawLane;
use crate::{options, wait_for_line};
use rustix::process::{Signal, Uid, getpid, kill_process};
use sidecore::client::Options;
use sidecore::core::ring::Message;
use sidecore::core::session::{Class, Op};
use sidecore::core::wire::{Extent, Request, Submission};
use sidecore::engine::crypto::sample::sample;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub(crate) fn run(socket: &str, op: &str, size: usize, lanes: u64, uid: u32) {
    if uid != 0 {
        rustix::thread::set_thread_uid(Uid::from_raw(uid)).expect("root may be anybody");
    }
    let options = Options { slots: 64, arena_bytes: 1 << 20, ..options(socket) };
    let done: Vec<AtomicU64> = (0..lanes).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for done in &done {
            let mut busy = Busy::new(&options, op, size).expect("a lane");
            scope.spawn(move || {
                while busy.step().is_ok() {
                    done.store(busy.done, Ordering::Relaxed);
                }
            });
        }
        answer_lines(&done);
    });
}

/// Ends with stdin, in the middle of its work.
fn answer_lines(done: &[AtomicU64]) {
    println!("busy");
    while wait_for_line().is_some() {
        let counts: Vec<String> = done.iter().map(|count| count.load(Ordering::Relaxed).to_string()).collect();
        println!("{}", counts.join(" "));
    }
    std::process::exit(0);
}

/// Fills the largest rings that there are, and stops: it takes no more time of any core itself.
pub(crate) fn fill(socket: &str, op: &str, lanes: u64, uid: u32) {
    if uid != 0 {
        rustix::thread::set_thread_uid(Uid::from_raw(uid)).expect("root may be anybody");
    }
    let options = Options { slots: 1024, arena_bytes: 1 << 16, ..options(socket) };
    let mut lanes: Vec<Busy> = (0..lanes).map(|_| Busy::new(&options, op, 100).expect("a lane")).collect();
    println!("attached");
    wait_for_line();
    lanes.iter_mut().for_each(Busy::fill);
    println!("full");
    kill_process(getpid(), Signal::STOP).expect("its own process");
}

/// Makes its work look cheap: it samples only requests that end immediately.
pub(crate) fn cheat(socket: &str) {
    let (lane, _fds) = RawLane::attach(socket, 64, 4096).expect("a lane");
    let session = lane.open_session(sample(signing(), 0, 1).spec).expect("a session");
    let words = |len, submitted| {
        let (op, inputs, outputs) = (Op::SignDigest, &[Extent::new(0, len)], &[Extent::new(1024, 512)]);
        let request = Request { tag: 0, op, session, head_len: 0, inputs, outputs, urgent: false, submitted };
        *Submission::of(&request).expect("two extents").words()
    };
    let (honest, short) = (words(32, None), words(31, Some(1)));
    let done = [AtomicU64::new(0)];
    thread::scope(|scope| {
        scope.spawn(|| answer_lines(&done));
        keep_cheating(&lane, [honest, short], &done[0]);
    });
}

fn signing() -> Class {
    Class::from_name("rsa-2048-sign-digest").expect("an operation")
}

/// Half of the requests are of each kind, so half of the completions are work.
fn keep_cheating(lane: &RawLane, requests: [Message; 2], done: &AtomicU64) {
    let mut answered = 0;
    loop {
        while lane.pushed.get() - answered < 64 {
            lane.push(&requests[lane.pushed.get() as usize % 2]);
        }
        while lane.answered(answered) {
            answered += 1;
        }
        done.store(answered / 2, Ordering::Relaxed);
        thread::yield_now();
    }
}
