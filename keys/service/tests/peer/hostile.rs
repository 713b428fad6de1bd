//! A client that writes any value to any word within its reach.

use crate::checked::Random;
use crate::raw::RawLane;
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_setfl, ftruncate, open};
use sidecore::control::Reply;
use sidecore::core::ring::Message;
use sidecore::core::session::{Class, Op};
use sidecore::core::wire::{Extent, Submission};
use sidecore::engine::crypto::sample::sample;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Writes of one lane: by the attack itself and by a second thread at the same time.
const WRITES: u64 = 3000;
const WRITES_BESIDE: u64 = 1000;
/// Submissions that a full lane suppresses before one is made all the same.
const MAX_SUPPRESSED: u32 = 100;
/// Operations of the requests' sessions; the last is on a slow device.
const OPS: [&str; 3] = ["aes-256-gcm", "sha-256", "3des-cbc"];

type Attack = fn(&mut Attacker<'_>);
/// An attacker's actions, with their frequency per 1000.
const ATTACKS: [(usize, Attack); 14] = [
    (600, |a| a.write_anywhere()),
    (180, |a| a.flip_a_bit()),
    (80, |a| a.submit_and_scribble()),
    (40, |a| a.replay()),
    (40, |a| a.flood_flags()),
    (30, |a| a.ring_wildly()),
    (10, |a| a.wake_oneself()),
    (5, |a| a.make_blocking()),
    (5, |a| a.reshape_memory()),
    (4, |a| a.submit_wrong()),
    (2, |a| a.publish_garbage()),
    (2, |a| a.overrun()),
    (1, |a| a.flood_slow_device()),
    (1, |a| a.close_something()),
];

pub(crate) fn run(socket: &str, seed: u64, mutations: u64) {
    let (mut random, mut ends, mut made) = (Random(seed), BTreeMap::<String, u64>::new(), 0);
    while made < mutations {
        let shape = [(8, 16_384), (64, 65_536), (2, 4096)][random.below(3)];
        let (end, writes) = attack_lane(socket, shape, &mut random).expect("the service gives a lane");
        *ends.entry(end).or_default() += 1;
        made += writes;
    }
    for (end, count) in ends {
        println!("{count} {end}");
    }
    println!("{made} mutations");
}

pub(crate) fn break_each_rule(socket: &str) {
    let valid = *Submission::new(7, Op::Digest, 0, &[Extent::new(0, 64)], &[]).expect("one extent").words();
    let breakages: [fn(&mut Message); 6] = [
        |words| words[0] |= 255 << 32,
        |words| words[0] |= 4 << 40,
        |words| words[0] |= 1 << 63,
        |words| words[0] |= 15 << 48,
        |words| words[2] = 4096 | 1 << 32,
        |words| words[1] |= 65 << 32,
    ];
    for break_it in breakages {
        let (lane, fds) = RawLane::attach(socket, 2, 4096).expect("a lane");
        let mut words = valid;
        break_it(&mut words);
        lane.push(&words);
        // Wakes the service, which would look only after a while.
        let _ = rustix::io::write(&fds[1], &1_u64.to_ne_bytes());
        println!("{}", end_of(&lane));
    }
    println!("{}", one_too_many(socket));
}

/// Two requests to a slow device fill the lane; the third is beyond its limit.
fn one_too_many(socket: &str) -> String {
    let (lane, fds) = RawLane::attach(socket, 2, 4096).expect("a lane");
    let session = lane.open_session(sample(Class::NOOP, 0, 0).spec).expect("a session");
    for tag in 0..3 {
        // The first two were taken long ago when the third overwrites the first.
        thread::sleep(Duration::from_millis(50));
        lane.push(Submission::new(tag, Op::Noop, session, &[], &[]).expect("no extent").words());
        let _ = rustix::io::write(&fds[1], &1_u64.to_ne_bytes());
    }
    end_of(&lane)
}

fn end_of(lane: &RawLane) -> String {
    match lane.control.receive() {
        Ok((Reply::Ended(reason), _)) => reason,
        other => format!("{other:?}"),
    }
}

/// Asks for sessions that do not exist, as fast as it can, until the service is gone.
pub(crate) fn flood(socket: &str) {
    let lanes = [(); 3].map(|()| RawLane::attach(socket, 64, 4096).expect("a lane").0);
    let request = |tag| *Submission::new(tag, Op::Encrypt, 12_345, &[], &[]).expect("no extent").words();
    println!("flooding");
    let mut answered = [0; 3];
    for tag in 0.. {
        for (lane, answered) in lanes.iter().zip(&mut answered) {
            if lane.pushed.get() - *answered < 64 {
                lane.push(&request(tag));
            }
            while lane.answered(*answered) {
                *answered += 1;
            }
        }
        if tag % 4096 == 0 && lanes[0].control.ready() {
            return;
        }
    }
}

fn attack_lane(socket: &str, (slots, arena): (u32, u32), random: &mut Random) -> io::Result<(String, u64)> {
    let (lane, fds) = RawLane::attach(socket, slots, arena)?;
    let open = |op| lane.open_session(sample(Class::from_name(op).expect("an operation"), 64, 1).spec);
    let sessions = [open(OPS[0])?, open(OPS[1])?, open(OPS[2])?];
    let (mut seed, words) = (Random(random.next()), lane.words());
    let (stop, beside) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut attacker = Attacker {
        lane: &lane,
        fds,
        random: Random(random.next()),
        sessions,
        answered: 0,
        patience: MAX_SUPPRESSED,
        writes: 0,
    };
    let end = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) && beside.load(Ordering::Relaxed) < WRITES_BESIDE {
                words[seed.below(words.len())].store(seed.next(), Ordering::Relaxed);
                beside.fetch_add(1, Ordering::Relaxed);
            }
        });
        let end = attacker.run();
        stop.store(true, Ordering::Relaxed);
        end
    });
    Ok((end, attacker.writes + beside.into_inner()))
}

struct Attacker<'l> {
    lane: &'l RawLane,
    /// Memory, doorbell, wake-up pipe, the doorbell's other end; fewer when some were closed.
    fds: Vec<OwnedFd>,
    random: Random,
    sessions: [u32; 3],
    answered: u64,
    patience: u32,
    writes: u64,
}

impl Attacker<'_> {
    fn run(&mut self) -> String {
        while self.writes < WRITES {
            for _ in 0..32 {
                self.attack();
            }
            if self.writes >= WRITES {
                // On a machine with one core this lets the service see the lane.
                self.ring(1);
                thread::yield_now();
            }
            if self.lane.control.ready() {
                return end_of(self.lane);
            }
        }
        "left".to_owned()
    }

    fn attack(&mut self) {
        let mut draw = self.random.below(1000);
        for (weight, attack) in ATTACKS {
            if draw < weight {
                return attack(self);
            }
            draw -= weight;
        }
    }

    fn store(&mut self, word: usize, value: u64) {
        self.lane.words()[word].store(value, Ordering::Relaxed);
        self.writes += 1;
    }

    fn write_anywhere(&mut self) {
        let (word, value) = (self.random.below(self.lane.words().len()), self.random.next());
        self.store(word, value);
    }

    fn flip_a_bit(&mut self) {
        let word = self.random.below(self.lane.layout.lines() * 8);
        let value = self.lane.words()[word].load(Ordering::Relaxed) ^ 1 << self.random.below(64);
        self.store(word, value);
    }

    fn request(&mut self, which: usize) -> Message {
        let arena = self.lane.layout.arena_bytes();
        let offset = self.random.below(arena as usize / 2) as u32;
        let room = (arena - offset).min(16_000);
        let len = 28 + self.random.below(room as usize - 48) as u32 / 8 * 8;
        let op = if which == 1 { Op::Digest } else { [Op::Encrypt, Op::Decrypt][self.random.below(2)] };
        let outputs = [Extent::new(self.random.below(offset as usize + 12) as u32, room - 12)];
        let inputs = [Extent::new(offset, len)];
        let tag = self.random.next() as u32;
        *Submission::new(tag, op, self.sessions[which], &inputs, &outputs).expect("two extents").words()
    }

    fn submit(&mut self, message: &Message) {
        while self.answered < self.lane.pushed.get() && self.lane.answered(self.answered) {
            (self.answered, self.patience) = (self.answered + 1, MAX_SUPPRESSED);
        }
        let is_full = self.lane.pushed.get() - self.answered >= u64::from(self.lane.layout.slots());
        if is_full && self.patience > 0 {
            self.patience -= 1;
            return;
        }
        self.lane.push(message);
        self.writes += 8;
    }

    /// Changes a request while the service reads it.
    fn submit_and_scribble(&mut self) {
        let which = self.random.below(3) % 2;
        let message = self.request(which);
        self.submit(&message);
        self.ring(1);
        let first = (self.lane.layout.arena_offset() + message[2] as u32 as usize) / 8;
        for word in first..first + 16 {
            let value = self.random.next();
            self.store(word, value);
        }
    }

    fn replay(&mut self) {
        let from = self.random.below(self.lane.layout.slots() as usize) as u64;
        let words = self.lane.slot(from);
        let message = std::array::from_fn(|word| words[word].load(Ordering::Relaxed));
        let is_empty = message == [0; 7];
        if !is_empty && self.random.below(20) == 0 {
            self.submit(&message);
        }
    }

    fn flood_flags(&mut self) {
        let mut message = self.request(0);
        message[0] |= 3 << 40;
        message[6] = [0, 1, self.random.next(), u64::MAX][self.random.below(4)];
        self.submit(&message);
    }

    fn submit_wrong(&mut self) {
        let which = self.random.below(3);
        let mut message = self.request(which);
        let arena = u64::from(self.lane.layout.arena_bytes());
        let noise = self.random.next();
        match self.random.below(8) {
            0 => message[0] ^= noise & 0xff << 32,
            1 => message[0] ^= 1 << (42 + noise % 22),
            2 => message[0] |= (noise & 0xff) << 48,
            3 => message[2 + (noise % 4) as usize] = (arena + noise % 2) << 32 | noise >> 60,
            4 => message[2] = u64::MAX << (noise % 64),
            5 => message[1] |= noise << 32,
            6 => message[1] = noise,
            _ => message[(noise % 7) as usize] ^= 1 << (noise >> 8 & 63),
        }
        self.submit(&message);
    }

    fn publish_garbage(&mut self) {
        let message = std::array::from_fn(|_| self.random.next());
        self.submit(&message);
    }

    fn overrun(&mut self) {
        for _ in 0..self.lane.layout.slots() * 3 {
            let message = self.request(1);
            self.lane.push(&message);
            self.writes += 8;
        }
        self.ring(1);
    }

    fn flood_slow_device(&mut self) {
        for _ in 0..=self.lane.layout.slots() {
            let mut message = self.request(2);
            message[0] = message[0] & !(0xff << 32) | (Op::Encrypt as u64) << 32;
            message[2] = 64 << 32;
            self.lane.push(&message);
            self.writes += 8;
            self.ring(1);
            thread::yield_now();
        }
    }

    /// Rings the doorbell, needed or not. A full one must not block this process.
    fn ring(&self, bytes: usize) {
        if let Some(doorbell) = self.fds.get(1) {
            let _ = fcntl_setfl(doorbell, OFlags::NONBLOCK);
            let _ = rustix::io::write(doorbell, &[1; 8192][..bytes]);
        }
    }

    fn ring_wildly(&mut self) {
        let bytes = [1, 2, 4095, 4096, 8192][self.random.below(5)];
        self.ring(bytes);
        if let Some(end) = self.fds.get(3).filter(|_| bytes == 2) {
            let _ = fcntl_setfl(end, OFlags::NONBLOCK);
            while rustix::io::read(end, &mut [0; 4096]).is_ok_and(|read| read > 0) {}
        }
    }

    fn wake_oneself(&mut self) {
        let Some(pipe) = self.fds.get(2) else { return };
        let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
        if let Ok(writer) = open(path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
            while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
        }
    }

    /// Makes all descriptors blocking, on this side and for every file shared with the other.
    fn make_blocking(&mut self) {
        for fd in self.fds.iter().chain([&self.lane.control.0]) {
            let _ = fcntl_setfl(fd, OFlags::empty());
        }
    }

    fn reshape_memory(&mut self) {
        let Some(memory) = self.fds.first() else { return };
        let total = self.lane.layout.total_bytes() as u64;
        assert!(ftruncate(memory, 0).is_err() && ftruncate(memory, total * 2).is_err(), "the size is sealed");
        assert!(fcntl_add_seals(memory, SealFlags::WRITE).is_err(), "the seals are sealed");
        let from = self.random.below(total as usize) as u64;
        let _ = fallocate(memory, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, total - from);
        self.writes += 1;
    }

    fn close_something(&mut self) {
        self.fds.pop();
    }
}
