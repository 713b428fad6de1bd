//! CPU time by component, from samples of running functions. Samples are taken during a measurement; rules assign them
//! afterwards.

mod account;
mod awake;
mod collect;
mod events;
mod profile;
mod rules;
mod symbols;
mod sys;

use crate::error::LabError;
use account::Account;
use awake::Awake;
use collect::{Collected, Taken};
use events::{Clock, Events, PERIOD_NS, Reach};
pub(crate) use profile::{Breakdown, Profile, Share, Whose};
pub(crate) use rules::{COMPONENTS, Component, Rules};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use symbols::Symbols;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idling {
    Let,
    /// Threads of the lowest priority keep idle CPUs awake: in a virtual machine a sleeping CPU may miss its timer.
    Kept,
    /// They are kept awake if samples come from a timer, and sleep if samples are of cycles.
    KeptForTimer,
}

/// Settings and knowledge of the kernel that samplers share. It keeps idle CPUs awake until it and its samplers are
/// dropped. Threads of the lowest priority may start and end slowly on a busy machine.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    cpus: Vec<usize>,
    awake: Arc<Awake>,
    device: Vec<u32>,
    /// `None`: the kernel hides its functions.
    symbols: Option<Arc<Symbols>>,
    modules: BTreeSet<String>,
    left_out: Vec<String>,
}

/// Samples everything that runs from its start to its stop.
///
/// Without privileges it samples only the starting thread and the threads and processes started by it afterwards.
pub(crate) struct Sampler {
    collecting: JoinHandle<Collected>,
    /// Dropping it ends the collection.
    until: Sender<()>,
    began: Instant,
    account: Account,
    cpus: Vec<usize>,
    reach: Reach,
    clock: Clock,
    knows_kernel: bool,
    modules: BTreeSet<String>,
    awake: Arc<Awake>,
    left_out: Vec<String>,
}

impl Setup {
    pub(crate) fn new(cpus: &[usize], idling: Idling) -> Result<Self, LabError> {
        let are_kept = match idling {
            Idling::Let => false,
            Idling::Kept => true,
            Idling::KeptForTimer => {
                let of_time = |events: Events| events.reach == Reach::Machine && events.clock == Clock::Time;
                Events::open_from(Reach::Machine, cpus).is_ok_and(of_time)
            }
        };
        let awake = Arc::new(if are_kept { Awake::keep(cpus)? } else { Awake::default() });
        let text = fs::read(KALLSYMS).unwrap_or_default();
        let (symbols, left_out) = match Symbols::parse(&String::from_utf8_lossy(&text)) {
            Ok(symbols) => (Some(Arc::new(symbols)), Vec::new()),
            Err(why) => (None, vec![format!("which of the kernel's functions ran: {why}")]),
        };
        Ok(Self { cpus: cpus.to_vec(), awake, device: Vec::new(), symbols, modules: modules(), left_out })
    }

    pub(crate) fn with_device(mut self, threads: Vec<u32>) -> Self {
        self.device = threads;
        self
    }
}

const KALLSYMS: &str = "/proc/kallsyms";
const MODULES: &str = "/proc/modules";

impl Sampler {
    pub(crate) fn start(setup: &Setup) -> Result<Self, LabError> {
        Self::begin(Events::open_from(Reach::Machine, &setup.cpus)?, setup)
    }

    fn begin(events: Events, setup: &Setup) -> Result<Self, LabError> {
        let Events { mut samplers, reach, clock, mut left_out } = events;
        left_out.extend(setup.left_out.iter().cloned());
        let knows_kernel = setup.symbols.is_some() && reach != Reach::OwnOutside;
        let symbols = setup.symbols.clone().unwrap_or_default();
        let taken = Taken::new(symbols, &setup.awake.numbers, &setup.device);
        let account = Account::now()?;
        let began = Instant::now();
        for sampler in &mut samplers {
            sampler.enable().map_err(|error| LabError::failed("the kernel does not begin to sample", error))?;
        }
        let (until, ended) = mpsc::channel();
        let collect = move || taken.collect(samplers, &ended);
        let named = thread::Builder::new().name("samples".to_owned());
        let collecting = named.spawn(collect).map_err(|error| LabError::failed("cannot start a thread", error))?;
        Ok(Self {
            collecting,
            until,
            began,
            account,
            cpus: setup.cpus.clone(),
            reach,
            clock,
            knows_kernel,
            modules: setup.modules.clone(),
            awake: setup.awake.clone(),
            left_out,
        })
    }

    /// The missing part and a remedy if only the starting thread is sampled; `None`: everything is sampled.
    pub(crate) fn sees_only_own(&self) -> Option<&str> {
        (self.reach != Reach::Machine).then(|| self.left_out.first().map_or("", String::as_str))
    }

    /// CPU time so far for keeping each of its CPUs awake, s; empty if they are not.
    pub(crate) fn spare_s(&self) -> Vec<f64> {
        self.awake.spent_s()
    }

    pub(crate) fn stop(self) -> Result<Profile, LabError> {
        drop(self.until);
        let collected = self.collecting.join().map_err(|_| LabError::broken("the collection of samples broke off"))?;
        let Collected { taken, mut samplers, ended, account } = collected;
        drop(self.awake);
        let watched_us = (ended - self.began).as_secs_f64() * 1e6 * self.cpus.len() as f64;
        let idle_us = account?.idle_us_since(&self.account, &self.cpus) as f64;
        let (busy_us, idle_us) = match self.reach {
            Reach::Machine => ((watched_us - idle_us).max(0.0), Some(idle_us)),
            Reach::Own | Reach::OwnOutside => (running_us(&mut samplers), None),
        };
        let sample_us = (self.clock == Clock::Time).then_some(PERIOD_NS as f64 / 1e3);
        let mut profile = Profile {
            symbols: taken.symbols,
            counts: taken.counts,
            processes: taken.processes,
            lost: taken.lost,
            watched_us: (self.reach == Reach::Machine).then_some(watched_us),
            busy_us,
            idle_us,
            knows_kernel: self.knows_kernel,
            sample_us,
            left_out: self.left_out,
        };
        let loaded = modules().difference(&self.modules).cloned().collect::<Vec<_>>().join(", ");
        if !loaded.is_empty() {
            profile.left_out.push(format!("functions of what the kernel loaded meanwhile ({loaded}): measure again"));
        }
        if self.reach == Reach::OwnOutside {
            profile.add_unseen();
        }
        Ok(profile)
    }
}

fn modules() -> BTreeSet<String> {
    let text = fs::read_to_string(MODULES).unwrap_or_default();
    text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

fn running_us(samplers: &mut [perf_event::Sampler]) -> f64 {
    let ran = |sampler: &mut perf_event::Sampler| sampler.read_full().ok()?.time_running();
    samplers.iter_mut().filter_map(ran).map(|time| time.as_secs_f64() * 1e6).sum()
}

pub(crate) fn online() -> Result<Vec<usize>, LabError> {
    Ok(Account::now()?.cpus())
}

#[cfg(test)]
mod tests;
