//! A thread that takes samples from the kernel during a measurement, and adds them up.

use super::account::Account;
use super::profile::{AWAKE, DEVICE, Processes, SAMPLING, Stack};
use super::symbols::{Id, Symbols};
use crate::error::LabError;
use perf_event::Sampler;
use perf_event::data::Record;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) symbols: Arc<Symbols>,
    pub(super) counts: HashMap<Stack, u64>,
    pub(super) processes: Processes,
    pub(super) lost: u64,
    /// Threads with special meaning, by the number that replaces their process.
    apart: HashMap<u32, u32>,
}

pub(super) struct Collected {
    pub(super) taken: Taken,
    pub(super) samplers: Vec<Sampler>,
    pub(super) ended: Instant,
    pub(super) account: Result<Account, LabError>,
}

/// Interval of readings. Buffers hold the samples of several intervals.
const PAUSE: Duration = Duration::from_millis(50);
/// Most different stacks and processes to keep; further ones count as lost.
const MAX_STACKS: usize = 200_000;
const MAX_PROCESSES: usize = 100_000;
/// Mask of a record's CPU mode, and its value for the kernel.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// Entries of a chain from here on are markers of context and not addresses.
const MARKS: u64 = u64::MAX - 4095;

impl Taken {
    pub(super) fn new(symbols: Arc<Symbols>, awake: &[u32], device: &[u32]) -> Self {
        let apart = [(awake, AWAKE), (device, DEVICE)];
        let apart = apart.into_iter().flat_map(|(threads, of)| threads.iter().map(move |thread| (*thread, of)));
        let apart = apart.collect();
        Self { symbols, counts: HashMap::new(), processes: Processes::default(), lost: 0, apart }
    }

    pub(super) fn collect(mut self, mut samplers: Vec<Sampler>, until: &Receiver<()>) -> Collected {
        self.apart.extend(this_thread().map(|own| (own, SAMPLING)));
        self.processes.called(SAMPLING, "sampling");
        self.processes.called(AWAKE, "awake");
        self.processes.called(DEVICE, "device");
        while until.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            for sampler in &mut samplers {
                self.take_from(sampler);
            }
        }
        for sampler in &mut samplers {
            // A sampler that cannot be stopped continues into a buffer without a reader.
            let _ = sampler.disable();
        }
        // Read here, because on a busy machine this thread may run long after the request to stop.
        let (ended, account) = (Instant::now(), Account::now());
        for sampler in &mut samplers {
            self.take_from(sampler);
        }
        Collected { taken: self, samplers, ended, account }
    }

    fn take_from(&mut self, sampler: &mut Sampler) {
        while let Some(record) = sampler.next_record() {
            let in_kernel = record.misc() & MODE == MODE_KERNEL;
            match record.parse_record() {
                Ok(Record::Sample(sample)) => {
                    let chain = sample.callchain().unwrap_or_default();
                    let own = [sample.ip().unwrap_or(0)];
                    let has_chain = chain.iter().any(|address| *address < MARKS);
                    let addresses = if !in_kernel {
                        &[]
                    } else if has_chain {
                        chain
                    } else {
                        &own[..]
                    };
                    self.add(self.whose(sample.pid().unwrap_or(0), sample.tid()), addresses);
                }
                Ok(Record::Lost(lost)) => self.lost = self.lost.saturating_add(lost.lost),
                Ok(Record::LostSamples(lost)) => self.lost = self.lost.saturating_add(lost.lost),
                Ok(Record::Fork(fork)) if fork.pid != fork.ppid => self.processes.started(fork.pid, fork.ppid),
                Ok(Record::Comm(comm)) => self.processes.called(comm.pid, &String::from_utf8_lossy(&comm.comm)),
                Ok(_) => {}
                Err(_) => self.lost = self.lost.saturating_add(1),
            }
        }
    }

    fn whose(&self, process: u32, thread: Option<u32>) -> u32 {
        thread.and_then(|thread| self.apart.get(&thread)).copied().unwrap_or(process)
    }

    fn add(&mut self, process: u32, addresses: &[u64]) {
        let addresses = addresses.iter().filter(|address| **address < MARKS);
        // A caller's address is its return address: it follows the call, and may be after the end of the function.
        let of_call = |(depth, address): (usize, &u64)| {
            self.symbols.find(if depth == 0 { *address } else { address.saturating_sub(1) })
        };
        let functions: Vec<Id> = addresses.enumerate().map(of_call).collect();
        let stack = Stack { process, functions };
        self.processes.seen(process);
        let is_full = self.counts.len() >= MAX_STACKS;
        match self.counts.entry(stack) {
            Entry::Occupied(known) => *known.into_mut() += 1,
            Entry::Vacant(new) if !is_full => *new.insert(0) += 1,
            Entry::Vacant(_) => self.lost += 1,
        }
    }
}

pub(super) fn this_thread() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

impl Processes {
    fn started(&mut self, process: u32, by: u32) {
        if self.parents.len() < MAX_PROCESSES {
            self.parents.insert(process, by);
            // Buffers of several CPUs are read one after the other, so a later name of the new process may have been
            // read already.
            if let Some(name) = self.names.get(&by).filter(|_| !self.names.contains_key(&process)).cloned() {
                self.called(process, &name);
            }
        }
    }

    fn called(&mut self, process: u32, name: &str) {
        if self.names.len() < MAX_PROCESSES {
            self.names.insert(process, name.to_owned());
        }
    }

    fn seen(&mut self, process: u32) {
        if !self.names.contains_key(&process) {
            let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
            self.called(process, String::from_utf8_lossy(&name).trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_called_as_whoever_started_it_until_it_has_a_name_of_its_own() {
        let mut processes = Processes::default();
        processes.called(4, "sh");
        processes.started(5, 4);
        assert_eq!(processes.names[&5], "sh");
        processes.called(5, "bash");
        processes.called(6, "bash");
        processes.started(6, 4);
        assert_eq!((processes.names[&5].as_str(), processes.names[&6].as_str()), ("bash", "bash"));
        assert_eq!((processes.parents[&5], processes.parents[&6]), (4, 4));
    }
}
