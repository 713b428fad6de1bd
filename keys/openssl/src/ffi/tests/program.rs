//! Actions of programs that affect the libraries in them: closing descriptors, signals, and many open files.

use super::{Site, in_child, succeeded};
use crate::jobs::waiting::Waiting;
use crate::jobs::{NO_NUMBER, permit_all_numbers};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sidecore::sys::verified_fd::SELECT_LIMIT;
use sidecore_client::keyops::lanes;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const NUMBERS: RawFd = 1200;

fn put(from: OwnedFd, at: RawFd) -> OwnedFd {
    if from.as_raw_fd() == at {
        return from;
    }
    // SAFETY: any program may do this, and the test is about it; the caller owns the descriptor afterwards.
    unsafe {
        assert_eq!(libc::dup2(from.as_raw_fd(), at), at);
        OwnedFd::from_raw_fd(at)
    }
}

struct Thing {
    fd: OwnedFd,
    inode: u64,
    other: Option<OwnedFd>,
}

impl Thing {
    fn at(number: RawFd) -> Self {
        let (fd, other) = match number % 3 {
            0 => (memfd_create("data", MemfdFlags::CLOEXEC).unwrap(), None),
            1 => (eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap(), None),
            _ => {
                let (one, other) = UnixStream::pair().unwrap();
                other.set_nonblocking(true).unwrap();
                // A number that no other file gets.
                (one.into(), Some(fcntl_dupfd_cloexec(other, 200).unwrap()))
            }
        };
        let inode = fstat(&fd).unwrap().st_ino;
        Self { fd: put(fd, number), inode, other }
    }

    fn is_untouched(&self) -> bool {
        let Ok(status) = fstat(&self.fd) else { return false };
        let empty = match self.fd.as_raw_fd() % 3 {
            0 => status.st_size == 0,
            1 => read(&self.fd, &mut [0; 8]) == Err(Errno::AGAIN),
            _ => self.other.as_ref().is_some_and(|other| read(other, &mut [0; 8]) == Err(Errno::AGAIN)),
        };
        empty && status.st_ino == self.inode
    }
}

fn close_all() {
    for number in 3..NUMBERS {
        // SAFETY: as in `put`.
        unsafe { libc::close(number) };
    }
}

fn things() -> Vec<Thing> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let numbers = (3..40).chain(SELECT_LIMIT..SELECT_LIMIT + 40);
    numbers.filter(|number| (*number as u64) < limit).map(Thing::at).collect()
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(1000)
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_own_and_goes_on() {
    let site = Site::new();
    assert!(succeeded(in_child(|| {
        let before = site.works();
        close_all();
        let things = things();
        let after = site.works() && site.works();
        lanes::close_idle();
        before && after && things.iter().all(Thing::is_untouched)
    })));
}

#[test]
fn what_a_job_waits_on_is_made_anew_where_the_program_closed_it() {
    let uses: [fn(&mut Waiting); 5] = [
        |waiting| waiting.watch_pool(0, later()).unwrap(),
        |waiting| waiting.watch_time(1_000_000).unwrap(),
        |waiting| waiting.watch_nothing().unwrap(),
        |waiting| waiting.leave_pool(),
        |waiting| waiting.settle(),
    ];
    for go_on in uses {
        assert!(succeeded(in_child(|| {
            permit_all_numbers();
            let pool = lanes::pool().unwrap();
            let mut waiting = Waiting::new(pool).unwrap();
            waiting.watch_pool(0, later()).unwrap();
            waiting.watch_time(1_000_000_000).unwrap();
            let number = waiting.fd();
            close_all();
            let things = things();
            // Another descriptor of ours must be detected as well.
            let other = Waiting::new(pool).unwrap();
            let taken = other.fd();
            go_on(&mut waiting);
            let now = waiting.fd();
            drop(waiting);
            // SAFETY: only asks.
            let lives = unsafe { libc::fcntl(taken, libc::F_GETFD) } >= 0;
            lives && (now == number || now != taken) && things.iter().all(Thing::is_untouched)
        })));
    }
}

#[test]
fn one_wait_context_does_not_close_another_at_its_number() {
    assert!(succeeded(in_child(|| {
        // Independent of other tests' open files: both must get the lowest number.
        close_all();
        permit_all_numbers();
        let pool = lanes::pool().unwrap();
        let mut first = Waiting::new(pool).unwrap();
        let number = first.fd();
        close_all();
        let second = Waiting::new(pool).unwrap();
        let same = second.fd() == number;
        first.watch_pool(0, later()).unwrap();
        let moved = first.fd() != number;
        drop(first);
        // SAFETY: only asks.
        let lives = unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0;
        same && moved && lives
    })));
}

#[test]
fn a_child_takes_its_parents_number_over_if_it_is_still_the_sets() {
    let pool = || -> &'static lanes::Pool { Box::leak(Box::new(lanes::Pool::default())) };
    let (first, second) = (pool(), pool());
    assert!(succeeded(in_child(|| {
        permit_all_numbers();
        let mut waiting = Waiting::new(first).unwrap();
        let number = waiting.fd();
        waiting.renew(second).unwrap();
        let kept = waiting.fd() == number;
        let thing = Thing::at(number);
        waiting.renew(first).unwrap();
        let moved = waiting.fd() != number;
        drop(waiting);
        kept && moved && thing.is_untouched()
    })));
}

#[test]
fn signals_fail_no_operation() {
    let site = Site::new();
    assert!(succeeded(in_child(|| {
        extern "C" fn nothing(_signal: libc::c_int) {}
        // SAFETY: the handler does nothing, and the structures are plain numbers, which may be zero.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGVTALRM, &raw const action, std::ptr::null_mut());
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGUSR1;
            let mut timer = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
            let period = libc::timespec { tv_sec: 0, tv_nsec: 300_000 };
            let every = libc::itimerspec { it_interval: period, it_value: period };
            assert_eq!(libc::timer_settime(timer, 0, &raw const every, std::ptr::null_mut()), 0);
        }
        (0..100).all(|_| {
            lanes::close_idle();
            site.works()
        })
    })));
}

/// Open files as in a program with many connections: at the numbers that `select` accepts, and some more.
fn many_files() -> Vec<OwnedFd> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    (0..1100).map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap()).collect()
}

#[test]
fn jobs_wait_on_numbers_that_select_takes_or_do_not_pause() {
    let site = Site::new();
    assert!(succeeded(in_child(|| {
        permit_all_numbers();
        let before = site.works();
        let pool = lanes::pool().unwrap();
        let mut waiting = Waiting::new(pool).unwrap();
        let low = waiting.fd() < SELECT_LIMIT;
        let mut files = many_files();
        waiting.watch_pool(0, later()).unwrap();
        let kept = waiting.fd() < SELECT_LIMIT;
        let refused = Waiting::new(pool).err().is_some_and(|error| error.kind() == NO_NUMBER);
        let synchronous = site.works();
        files.retain(|file| file.as_raw_fd() != 900);
        let found = Waiting::new(pool).is_ok_and(|waiting| waiting.fd() == 900);
        before && low && kept && refused && synchronous && found
    })));
}

#[test]
fn lanes_leave_the_numbers_that_select_takes_to_others() {
    let site = Site::new();
    assert!(succeeded(in_child(|| {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
        let free = || eventfd(0, EventfdFlags::CLOEXEC).unwrap().as_raw_fd();
        let before = free();
        // The pipe that a Rust program may wait for stays open.
        site.works() && free() <= before + 1
    })));
}
