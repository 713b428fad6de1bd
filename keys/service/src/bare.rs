//! Exchanges between two processes with nothing but shared memory: the baseline of a lane's measurements.
//!
//! One side makes a [`Bare`] and serves it on a thread; the other opens it by path and asks.

use crate::shm::LaneMemory;
use sidecore_core::layout::Layout;
use sidecore_core::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use sidecore_core::sync::{AtomicU64, Ordering};
use sidecore_core::time::Nanos;
use sidecore_core::wire::Extent;
use sidecore_ipc::sys::clock;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Exchanges between two looks at the clock.
const BATCH: u64 = 256;
/// Polls between two looks at the stop flag.
const POLLS: u32 = 1024;
/// Places for payload in the arena, and the most messages with payload in flight.
const PLACES: u32 = 64;

/// Kind of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// One word there and back, one at a time.
    PingPong,
    /// Slots there and back, many in flight, each with that many bytes of payload copied out and in again.
    Echo {
        /// Bytes of payload; 0: slots only.
        size: u32,
    },
}

/// Memory that two processes share.
#[derive(Debug)]
pub struct Bare {
    memory: LaneMemory,
    /// Kept open by its maker, so that the other side can open it by path.
    file: Option<OwnedFd>,
}

/// Number of exchanges, and their time, ns.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// Number of round trips.
    pub count: u64,
    /// Time for all of them.
    pub took: Nanos,
}

fn layout() -> Layout {
    Layout::new(256, PLACES * (128 << 10)).expect("constants within the limits")
}

impl Bare {
    /// Largest payload, bytes.
    pub const MAX_SIZE: u32 = 128 << 10;

    /// Makes the memory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create() -> io::Result<Self> {
        let (memory, file) = LaneMemory::create(layout())?;
        Ok(Self { memory, file: Some(file) })
    }

    /// The path for another process of the same user to open it.
    pub fn path(&self) -> Option<PathBuf> {
        let fd = self.file.as_ref()?.as_raw_fd();
        Some(PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id())))
    }

    /// Opens the memory that another process made.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Self { memory: LaneMemory::open(file, layout())?, file: None })
    }

    /// Resets the memory to its fresh state: both sides count from 0. To be called before the other side begins.
    pub fn prepare(&self) {
        let lines = self.memory.submission().iter().chain(self.memory.completion());
        lines.flat_map(|line| &line.0).for_each(|word| word.store(0, Ordering::Relaxed));
        let (asked, answered) = self.words();
        asked.store(0, Ordering::Relaxed);
        answered.store(0, Ordering::SeqCst);
    }

    /// Answers until `stop` is set. Call it after [`Bare::prepare`].
    pub fn serve(&self, exchange: Exchange, stop: &AtomicBool) {
        match exchange {
            Exchange::PingPong => self.answer_pings(stop),
            Exchange::Echo { size } => self.answer_slots(size, stop),
        }
    }

    /// Asks for about `time` ns, with up to `depth` messages in flight for an echo.
    pub fn ask(&self, exchange: Exchange, depth: u32, time: Nanos) -> Exchanged {
        let start = clock::now();
        let mut count = 0;
        let mut echo = Echo::new(exchange, depth);
        loop {
            for _ in 0..BATCH {
                match exchange {
                    Exchange::PingPong => self.ping(count + 1),
                    Exchange::Echo { .. } => echo.step(&self.memory),
                }
                count += 1;
            }
            let took = clock::now() - start;
            if took >= time {
                echo.finish(&self.memory);
                return Exchanged { count, took };
            }
        }
    }

    fn words(&self) -> (&AtomicU64, &AtomicU64) {
        (self.memory.submission_doorbell().0, self.memory.completion_doorbell().0)
    }

    fn ping(&self, number: u64) {
        let (asked, answered) = self.words();
        asked.store(number, Ordering::Release);
        while answered.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
    }

    fn answer_pings(&self, stop: &AtomicBool) {
        let (asked, answered) = self.words();
        let mut last = 0;
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..POLLS {
                let number = asked.load(Ordering::Acquire);
                if number != last {
                    last = number;
                    answered.store(number, Ordering::Release);
                }
                std::hint::spin_loop();
            }
        }
    }

    fn answer_slots(&self, size: u32, stop: &AtomicBool) {
        let (mut consumer, mut producer) = (Consumer::new(), Producer::new());
        let mut private = vec![0; size as usize];
        let mut idle = 0;
        while idle < POLLS || !stop.load(Ordering::Relaxed) {
            let Some(message) = consumer.pop(self.memory.submission()) else {
                idle = if idle < POLLS { idle + 1 } else { 0 };
                std::hint::spin_loop();
                continue;
            };
            idle = 0;
            if size > 0 {
                let place = self.memory.span(place(consumer.popped() - 1, size));
                place.inspect(|span| span.copy_to(&mut private)).inspect(|span| span.copy_from(&private));
            }
            producer.push(self.memory.completion(), &message);
        }
    }
}

fn place(number: u64, size: u32) -> Extent {
    Extent::new((number % u64::from(PLACES)) as u32 * Bare::MAX_SIZE, size)
}

struct Echo {
    producer: Producer,
    consumer: Consumer,
    depth: u64,
    size: u32,
    private: Vec<u8>,
}

impl Echo {
    fn new(exchange: Exchange, depth: u32) -> Self {
        let size = if let Exchange::Echo { size } = exchange { size.min(Bare::MAX_SIZE) } else { 0 };
        let most = if size > 0 { PLACES } else { layout().slots() };
        Self {
            producer: Producer::new(),
            consumer: Consumer::new(),
            depth: u64::from(depth.clamp(1, most)),
            size,
            private: vec![7; size as usize],
        }
    }

    fn step(&mut self, memory: &LaneMemory) {
        while self.producer.pushed() - self.consumer.popped() >= self.depth {
            self.take(memory);
        }
        let message: Message = [self.producer.pushed(); MESSAGE_WORDS];
        if let Some(span) = memory.span(place(self.producer.pushed(), self.size)) {
            span.copy_from(&self.private);
        }
        self.producer.push(memory.submission(), &message);
    }

    fn take(&mut self, memory: &LaneMemory) {
        if self.consumer.pop(memory.completion()).is_none() {
            std::hint::spin_loop();
        } else if let Some(span) = memory.span(place(self.consumer.popped() - 1, self.size)) {
            span.copy_to(&mut self.private);
        }
    }

    fn finish(&mut self, memory: &LaneMemory) {
        while self.producer.pushed() > self.consumer.popped() {
            self.take(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_exchanges_work() {
        for exchange in [Exchange::PingPong, Exchange::Echo { size: 0 }, Exchange::Echo { size: 5000 }] {
            let bare = Bare::create().unwrap();
            let other = Bare::open(&bare.path().unwrap()).unwrap();
            let stop = AtomicBool::new(false);
            bare.prepare();
            std::thread::scope(|scope| {
                scope.spawn(|| bare.serve(exchange, &stop));
                let exchanged = other.ask(exchange, 32, 1_000_000);
                assert!(exchanged.count >= BATCH && exchanged.took >= 1_000_000);
                stop.store(true, Ordering::Relaxed);
            });
        }
    }
}
