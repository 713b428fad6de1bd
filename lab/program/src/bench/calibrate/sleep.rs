//! Times of sleeping and waking on two cores, and the rate of interruptions by the host.

use super::Spread;
use crate::bench::error::BenchError;
use hdrhistogram::Histogram;
use sidecore_daemon::sys::cpu;
use sidecore_ipc::sys::clock;
use sidecore_report::statistics::histogram;
use sidecore_sim::system::PARTS;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::thread;
use std::time::Duration;

const WAKES: usize = 100;
const LONG_WAKES: usize = 12;
/// Sleeps before the wake-up, ns: a short one, and one long enough for the core to enter an idle state.
const SHORT: u64 = 60_000;
const LONG: u64 = 8_000_000;
/// Shorter sleeps count as short, ns.
pub(super) const LONG_AFTER: u64 = 1_000_000;
/// Duration of the nap whose overshoot is measured, ns.
const NAP: u64 = 250_000;
const NAPS: usize = 60;
/// Duration of the watch of both cores in a pass, and the least gap that counts as an interruption, ns.
const WATCH: u64 = 250_000_000;
pub(super) const GAP: u64 = 3_000;

/// Measured times, ns.
#[derive(Debug, Clone)]
pub(super) struct Sleep {
    pub(super) after_short: Histogram<u64>,
    pub(super) after_long: Histogram<u64>,
    pub(super) sends: Histogram<u64>,
    pub(super) overshoot: Histogram<u64>,
    pub(super) client_overshoot: Histogram<u64>,
    pub(super) interruptions: Histogram<u64>,
    /// CPU time of sleepers, and number of their sleeps.
    cpu: u64,
    sleeps: u64,
    /// Uninterrupted part of the watched time.
    free: u64,
}

type Times = Vec<u64>;

impl Default for Sleep {
    fn default() -> Self {
        let [after_short, after_long, sends, overshoot, client_overshoot, interruptions] =
            std::array::from_fn(|_| histogram());
        let (cpu, sleeps, free) = (0, 0, 0);
        Self { after_short, after_long, sends, overshoot, client_overshoot, interruptions, cpu, sleeps, free }
    }
}

impl Sleep {
    /// Measures once more. `cores`: the waker's and the sleeper's; nothing else runs there.
    pub(super) fn look(&mut self, cores: (usize, usize)) -> Result<(), BenchError> {
        let looked = thread::scope(|scope| scope.spawn(|| self.look_pinned(cores)).join());
        Ok(looked.map_err(|_| BenchError::State("the measuring thread panicked"))??)
    }

    fn look_pinned(&mut self, (here, there): (usize, usize)) -> std::io::Result<()> {
        cpu::pin(here)?;
        let (latencies, sends) = self.wakes(there, SHORT, WAKES)?;
        keep(&mut self.after_short, &latencies);
        keep(&mut self.sends, &sends);
        let (latencies, _) = self.wakes(there, LONG, LONG_WAKES)?;
        keep(&mut self.after_long, &latencies);
        // Both cores are watched simultaneously: an overcommitted host takes more from two busy cores.
        let other = thread::spawn(move || cpu::pin(there).map(|()| watch()));
        let own = watch();
        let other = other.join().map_err(|_| std::io::Error::other("the other core's thread panicked"))??;
        for (free, gaps) in [own, other] {
            self.free += free;
            keep(&mut self.interruptions, &gaps);
        }
        // A client has the kernel's timer slack; a sidecore has none.
        keep(&mut self.client_overshoot, &naps());
        cpu::precise_sleep();
        keep(&mut self.overshoot, &naps());
        Ok(())
    }

    /// A thread on the other core sleeps on a pipe, as a client does, and answers when it runs. Returns the times until
    /// then, and the times of the wake-up calls.
    fn wakes(&mut self, there: usize, sleep: u64, count: usize) -> std::io::Result<(Times, Times)> {
        let ((bell, ringer), (answers, answer)) = (pipe()?, pipe()?);
        let sleeper = thread::spawn(move || sleeper(there, count, bell, answer));
        let result = ring(count, sleep, ringer, answers);
        self.cpu += sleeper.join().map_err(|_| std::io::Error::other("the sleeper panicked"))??;
        self.sleeps += count as u64;
        result
    }

    pub(super) fn cpu_ns(&self) -> f64 {
        self.cpu as f64 / self.sleeps.max(1) as f64
    }

    /// Mean time between two interruptions, ns. Without interruptions: the whole watched time.
    pub(super) fn free_ns(&self) -> f64 {
        (self.free as f64 / self.interruptions.len().max(1) as f64).max(1.0)
    }
}

fn keep(histogram: &mut Histogram<u64>, times: &[u64]) {
    for time in times {
        histogram.saturating_record((*time).max(1));
    }
}

/// Bounds of [`PARTS`], ns; zeros for an empty histogram.
pub(super) fn spread(histogram: &Histogram<u64>) -> Spread {
    if histogram.is_empty() {
        return Spread::default();
    }
    PARTS.map(|part| if part == 0.0 { histogram.min() } else { histogram.value_at_quantile(part) } as f64)
}

fn sleeper(core: usize, count: usize, mut bell: PipeReader, mut answer: PipeWriter) -> std::io::Result<u64> {
    cpu::pin(core)?;
    let before = clock::thread_cpu();
    for _ in 0..count {
        bell.read_exact(&mut [0])?;
        answer.write_all(&clock::now().to_ne_bytes())?;
    }
    Ok(clock::thread_cpu() - before)
}

fn ring(count: usize, sleep: u64, mut ringer: PipeWriter, mut answers: PipeReader) -> std::io::Result<(Times, Times)> {
    let (mut latencies, mut sends) = (Times::new(), Times::new());
    for _ in 0..count {
        // Spinning keeps this core awake, like a busy sidecore.
        let start = clock::now();
        while clock::now() - start < sleep {
            std::hint::spin_loop();
        }
        let rung = clock::now();
        ringer.write_all(&[1])?;
        sends.push(clock::now() - rung);
        let mut ran = [0; 8];
        answers.read_exact(&mut ran)?;
        latencies.push(u64::from_ne_bytes(ran).saturating_sub(rung));
    }
    Ok((latencies, sends))
}

fn naps() -> Times {
    let nap = |_| {
        let start = clock::now();
        thread::sleep(Duration::from_nanos(NAP));
        (clock::now() - start).saturating_sub(NAP)
    };
    (0..NAPS).map(nap).collect()
}

fn watch() -> (u64, Times) {
    let (start, mut last, mut gaps) = (clock::now(), clock::now(), Times::new());
    while last - start < WATCH {
        let now = clock::now();
        if now - last > GAP {
            gaps.push(now - last);
        }
        last = now;
    }
    (last - start - gaps.iter().sum::<u64>(), gaps)
}
