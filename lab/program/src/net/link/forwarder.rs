//! The threads of a link: they move frames between its interfaces as [`Path`] decides.

use super::counters::Tally;
use super::path::{Fate, Next, Path};
use super::settings::Settings;
use super::store::Store;
use super::sys::Tap;
use super::wire;
use crate::error::LabError;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use sidecore::core::time::Nanos;
use std::hint::spin_loop;
use std::io::{self, ErrorKind, PipeReader};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tun_rs::{VIRTIO_NET_HDR_LEN, VirtioNetHdr};

const BATCH: u64 = 64;
const BATCH_BYTES: u64 = 256 << 10;
/// Registers that a driver reads for an interrupt: status, and the number of new frames.
const INTERRUPT_READS: u64 = 2;

pub(super) struct Way {
    from: Arc<Tap>,
    to: Arc<Tap>,
    /// Bytes of the interface's header before each frame; 0 without offload and checksums.
    header: usize,
    path: Path,
    store: Store,
    register: Duration,
    tally: Arc<Tally>,
    clock: Clock,
}

impl Way {
    pub(super) fn new(
        settings: &Settings,
        (from, to): (&Arc<Tap>, &Arc<Tap>),
        seed: u64,
        tally: &Arc<Tally>,
        clock: Clock,
    ) -> Self {
        Self {
            from: from.clone(),
            to: to.clone(),
            header: if settings.offload || settings.checksums { VIRTIO_NET_HDR_LEN } else { 0 },
            path: Path::new(settings, seed),
            store: Store::new(settings.bytes() as usize),
            register: Duration::from_nanos(settings.register),
            tally: tally.clone(),
            clock,
        }
    }

    /// Takes a batch of waiting frames. Returns whether there may be more.
    fn take(&mut self) -> io::Result<bool> {
        let (mut frames, mut bytes) = (0, 0);
        let more = loop {
            if frames == BATCH || bytes >= BATCH_BYTES {
                break true;
            }
            let Some(room) = self.store.room() else { break false };
            let length = match self.from.recv(room) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if frames == 0 {
                self.access(1);
            }
            frames += 1;
            bytes += self.decide(length);
        };
        if frames > 0 {
            self.tally.doorbells.add(1);
            self.tally.frames.add(frames);
            self.tally.bytes.add(bytes);
        }
        Ok(more)
    }

    fn decide(&mut self, length: usize) -> u64 {
        let now = self.clock.now();
        let Some((said, frame)) = self.store.room().and_then(|read| read.get(..length)?.split_at_checked(self.header))
        else {
            return 0;
        };
        let on_line = wire::bytes(VirtioNetHdr::decode(said).ok().as_ref(), frame);
        let bytes = frame.len() as u64;
        match self.path.take(now, bytes as u32, on_line) {
            Fate::Taken => self.store.keep(length),
            Fate::Lost => self.tally.lost.add(1),
            Fate::Dropped => self.tally.dropped.add(1),
        }
        bytes
    }

    /// Hands over due frames. Returns the time of the next ones, unless a frame arrives earlier.
    fn hand_over(&mut self) -> Option<Nanos> {
        loop {
            match self.path.next(self.clock.now()) {
                Next::HandOver(frames) => self.interrupt(frames),
                Next::At(instant) => return Some(instant),
                Next::Nothing => return None,
            }
        }
    }

    fn interrupt(&mut self, frames: u32) {
        self.access(INTERRUPT_READS);
        for _ in 0..frames {
            // The interface writes the descriptor of each frame back.
            self.access(1);
            let frame = self.store.oldest().unwrap_or_default();
            match self.to.send(frame) {
                Ok(_) => {
                    self.tally.delivered.add(1);
                    self.tally.delivered_bytes.add((frame.len() - self.header) as u64);
                }
                Err(_) => self.tally.refused.add(1),
            }
            self.store.forget();
        }
        self.tally.interrupts.add(1);
        self.tally.held_ns.set(self.path.held());
    }

    /// Accounts for `count` accesses to registers. The thread waits for them, as a processor does.
    fn access(&self, count: u64) {
        self.tally.accesses.add(count);
        if self.register.is_zero() {
            return;
        }
        let (begin, cost) = (Instant::now(), self.register * count as u32);
        while begin.elapsed() < cost {
            spin_loop();
        }
    }
}

pub(super) fn drive(way: &mut Way, stop: &PipeReader, spin: Nanos) -> Result<(), LabError> {
    // With the default slack, sleeps end up to 50 us late.
    set_timerslack(1).map_err(|error| LabError::failed("cannot have precise timers", error))?;
    loop {
        let more = way.take().map_err(|error| LabError::failed("an interface of the link is gone", error))?;
        let next = way.hand_over();
        let pause = if more { Some(0) } else { next.map(|next| next.saturating_sub(way.clock.now())) };
        if rest(way, stop, pause, spin)? {
            return Ok(());
        }
    }
}

/// Sleeps until a frame arrives, at most for `pause`, and less by `spin`, which is spent polling the clock. Returns
/// whether to end.
fn rest(way: &mut Way, stop: &PipeReader, pause: Option<Nanos>, spin: Nanos) -> Result<bool, LabError> {
    // Without room, new frames wait in the sender's interface until the next ones are handed over.
    let wanted = if way.store.room().is_none() { PollFlags::empty() } else { PollFlags::POLLIN };
    let mut watched = [PollFd::new(stop.as_fd(), PollFlags::POLLIN), PollFd::new(way.from.as_fd(), wanted)];
    let sleep = pause.map(|pause| TimeSpec::from(Duration::from_nanos(pause.saturating_sub(spin))));
    match ppoll(&mut watched, sleep, None) {
        Ok(_) | Err(Errno::EINTR) => Ok(watched[0].any().unwrap_or(true)),
        Err(error) => Err(LabError::failed("cannot wait for frames", error)),
    }
}

#[derive(Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Nanos {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use std::thread;

    #[test]
    fn a_store_that_was_full_and_is_empty_again_takes_more() {
        let pair = || UnixDatagram::pair().unwrap();
        let ((near, from), (to, far)) = (pair(), pair());
        from.set_nonblocking(true).unwrap();
        let settings = Settings { delay: 0, offload: false, checksums: false, ..Settings::default() };
        let ends = (&Arc::new(Tap::of(from)), &Arc::new(Tap::of(to)));
        let mut way = Way::new(&settings, ends, 1, &Arc::default(), Clock::start());
        // Full with one frame.
        way.store = Store::new(0);
        let (stop, stops) = io::pipe().unwrap();
        let drives = thread::spawn(move || drive(&mut way, &stop, 0));
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        for number in 0..10 {
            near.send(&[number; 60]).unwrap();
        }
        for number in 0..10 {
            let mut frame = [0; 100];
            assert_eq!((far.recv(&mut frame).unwrap(), frame[0]), (60, number));
        }
        drop(stops);
        drives.join().unwrap().unwrap();
    }
}
