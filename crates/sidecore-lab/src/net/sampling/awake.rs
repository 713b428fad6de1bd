//! Keeps CPUs from idling: on each a thread that runs only where nothing else wants to.

use super::collect::this_thread;
use super::sys::run_last;
use sidecore::sys::cpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// See the module; ends with this.
#[derive(Debug, Default)]
pub(super) struct Awake {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Their numbers.
    pub(super) numbers: Vec<u32>,
}

impl Awake {
    /// Of those CPUs.
    ///
    /// # Errors
    /// A thread cannot be started, or not be put there.
    pub(super) fn keep(cpus: &[usize]) -> Result<Self, String> {
        let mut awake = Self::default();
        let (ready, said) = mpsc::channel();
        for cpu in cpus.iter().copied() {
            let (ready, end) = (ready.clone(), awake.end.clone());
            let spin = move || {
                let placed = cpu::pin(cpu).and_then(|()| run_last()).map_err(|error| error.to_string());
                let goes_on = placed.is_ok();
                // Who asked has ended if nobody listens: then so does this.
                let _ = ready.send(placed.map(|()| this_thread()));
                drop(ready);
                while goes_on && !end.load(Ordering::Relaxed) {}
            };
            let started = thread::Builder::new().name("awake".to_owned()).spawn(spin);
            awake.threads.push(started.map_err(|error| format!("cannot start a thread: {error}"))?);
        }
        drop(ready);
        for placed in said {
            let number = placed.map_err(|error| format!("cannot keep a CPU awake: {error}"))?;
            awake.numbers.extend(number);
        }
        Ok(awake)
    }
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
