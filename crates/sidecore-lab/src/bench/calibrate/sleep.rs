//! What sleeping and waking take on two cores, and how often the host takes one away.

use crate::bench::BenchError;
use sidecore::sys::{clock, cpu};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::thread;
use std::time::Duration;

/// Wake-ups of each kind.
const WAKES: usize = 400;
const DEEP_WAKES: usize = 60;
/// Sleeps before the ring: a short one, and one after which the core has gone to rest, ns.
const SHORT: u64 = 60_000;
const DEEP: u64 = 8_000_000;
/// Sleeps that lie between both count as short, ns.
const DEEP_AFTER: u64 = 1_000_000;
/// The nap whose overshoot is measured, ns.
const NAP: u64 = 250_000;
const NAPS: usize = 200;
/// A core that is watched for so long shows what is taken from it; a gap from so long on was taken, ns.
const WATCH: u64 = 400_000_000;
const GAP: u64 = 3_000;

/// All in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sleep {
    pub(super) latency: f64,
    pub(super) deep_latency: f64,
    pub(super) deep_after: f64,
    pub(super) send: f64,
    pub(super) cpu: f64,
    pub(super) overshoot: f64,
    pub(super) client_overshoot: f64,
    pub(super) noise_every: f64,
    pub(super) noise_lasts: f64,
}

/// `cores`: of the one that rings, and of the one that sleeps.
pub(super) fn measure(cores: (usize, usize)) -> Result<Sleep, BenchError> {
    let measured = thread::spawn(move || measure_pinned(cores)).join();
    Ok(measured.map_err(|_| "the measuring thread panicked")??)
}

fn measure_pinned((here, there): (usize, usize)) -> std::io::Result<Sleep> {
    cpu::pin(here)?;
    let [latency, send, cpu] = wakes(there, SHORT, WAKES)?;
    let [deep_latency, ..] = wakes(there, DEEP, DEEP_WAKES)?;
    let (noise_every, noise_lasts) = noise();
    // A client has the kernel's slack for timers, a sidecore asks for none.
    let client_overshoot = overshoot();
    cpu::precise_sleep();
    Ok(Sleep {
        latency,
        deep_latency,
        deep_after: DEEP_AFTER as f64,
        send,
        cpu,
        overshoot: overshoot(),
        client_overshoot,
        noise_every,
        noise_lasts,
    })
}

/// A thread on the other core sleeps on a pipe, as a client does, and tells when it ran. Medians of the time until then
/// and of ringing, and the mean of the sleeper's CPU time.
fn wakes(there: usize, sleep: u64, count: usize) -> std::io::Result<[f64; 3]> {
    let ((bell, ringer), (answers, answer)) = (pipe()?, pipe()?);
    let sleeper = thread::spawn(move || sleeper(there, count, bell, answer));
    let result = ring(count, sleep, ringer, answers);
    let cpu = sleeper.join().map_err(|_| std::io::Error::other("the sleeper panicked"))??;
    let (mut latencies, mut sends) = result?;
    Ok([middle(&mut latencies), middle(&mut sends), cpu as f64 / count as f64])
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

type Times = Vec<u64>;

fn ring(count: usize, sleep: u64, mut ringer: PipeWriter, mut answers: PipeReader) -> std::io::Result<(Times, Times)> {
    let (mut latencies, mut sends) = (Times::new(), Times::new());
    for _ in 0..count {
        // Spinning keeps this side awake, as a busy sidecore is.
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

fn middle(times: &mut [u64]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0) as f64
}

/// How much later than asked a nap ends.
fn overshoot() -> f64 {
    let mut late: Times = (0..NAPS)
        .map(|_| {
            let start = clock::now();
            thread::sleep(Duration::from_nanos(NAP));
            (clock::now() - start).saturating_sub(NAP)
        })
        .collect();
    middle(&mut late)
}

/// How long the thread has this core between two interruptions, and how long one lasts, in the mean. Never interrupted: once
/// in the time that it was watched, for 0.
fn noise() -> (f64, f64) {
    let (start, mut last, mut gaps) = (clock::now(), clock::now(), Times::new());
    while last - start < WATCH {
        let now = clock::now();
        if now - last > GAP {
            gaps.push(now - last);
        }
        last = now;
    }
    let (count, taken) = (gaps.len().max(1) as f64, gaps.iter().sum::<u64>());
    (((last - start - taken) as f64 / count).max(1.0), taken as f64 / count)
}
