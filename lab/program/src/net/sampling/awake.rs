//! Keeps CPUs from idling, by a thread on each that runs only if nothing else does.

use super::collect::this_thread;
use super::sys::run_last;
use crate::error::LabError;
use sidecore_daemon::sys::cpu;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// The threads end on drop.
#[derive(Debug, Default)]
pub(super) struct Awake {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pub(super) numbers: Vec<u32>,
}

impl Awake {
    /// CPU time of each thread so far, s, in the order of the CPUs.
    pub(super) fn spent_s(&self) -> Vec<f64> {
        self.numbers.iter().map(|number| spent_s(*number).unwrap_or(0.0)).collect()
    }

    pub(super) fn keep(cpus: &[usize]) -> Result<Self, LabError> {
        let mut awake = Self::default();
        let (ready, said) = mpsc::channel();
        for (at, cpu) in cpus.iter().copied().enumerate() {
            let (ready, end) = (ready.clone(), awake.end.clone());
            let spin = move || {
                let placed = cpu::pin(cpu).and_then(|()| run_last());
                let goes_on = placed.is_ok();
                // A closed channel means that the starting thread has ended: then this one ends too.
                let _ = ready.send(placed.map(|()| (at, this_thread())));
                drop(ready);
                while goes_on && !end.load(Ordering::Relaxed) {}
            };
            let started = thread::Builder::new().name("awake".to_owned()).spawn(spin);
            awake.threads.push(started.map_err(|error| LabError::failed("cannot start a thread", error))?);
        }
        drop(ready);
        let placed: io::Result<Vec<_>> = said.into_iter().collect();
        let mut placed = placed.map_err(|error| LabError::failed("cannot keep a CPU awake", error))?;
        placed.sort_unstable();
        awake.numbers.extend(placed.into_iter().filter_map(|(_, number)| number));
        Ok(awake)
    }
}

fn spent_s(thread: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    Some(text.split(' ').next()?.parse::<u64>().ok()? as f64 / 1e9)
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot have panicked.
            let _ = thread.join();
        }
    }
}
