//! A link with properties, for experiments on one machine: two interfaces, and threads that move frames between them.
//!
//! [`path`] makes the decisions and receives the time as an argument; [`forwarder`] carries them out.

pub(super) mod check;
pub(super) mod command;
mod counters;
mod forwarder;
mod path;
mod settings;
mod store;
mod sys;
mod wire;

use super::links::Links;
use super::pair::Pair;
use crate::error::LabError;
pub(crate) use counters::Counters;
use counters::Tally;
use forwarder::{Clock, Way};
pub(crate) use settings::Settings;
use std::fs;
use std::io::{PipeWriter, pipe};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use sys::Tap;

const ENDS: [&str; 2] = ["near", "far"];
const THREAD: &str = "link";
/// Length of the interfaces' queues, in frames. The thread empties them immediately unless the machine is overloaded.
/// The usual length of 1000 would then drop frames that the link's own queue has room for.
const INTERFACE_QUEUE: u32 = 10_000;

/// A link between two namespaces. The link and its interfaces end on drop, or with this process.
pub(super) struct Link {
    /// Closing it ends the threads.
    stop: Option<PipeWriter>,
    threads: Vec<JoinHandle<Result<(), LabError>>>,
    tallies: [Arc<Tally>; 2],
}

impl Link {
    /// Without settings by a veth pair. The calling thread is in the `near` namespace.
    pub(super) fn or_veth(settings: Option<&Settings>) -> Result<(Pair, Option<Self>), LabError> {
        match settings {
            None => Ok((Pair::by_veth()?, None)),
            Some(settings) => Self::start(settings).map(|(pair, link)| (pair, Some(link))),
        }
    }

    pub(super) fn start(settings: &Settings) -> Result<(Pair, Self), LabError> {
        settings.check()?;
        let mut link = None;
        let pair = Pair::joined(|links| {
            link = Some(Self::between(links, settings)?);
            Ok(())
        })?;
        // `joined` calls its argument or fails.
        let link = link.ok_or(LabError::broken("there is no link"))?;
        Ok((pair, link))
    }

    fn between(links: &Links, settings: &Settings) -> Result<Self, LabError> {
        let [near, far] = [interface(ENDS[0], settings)?, interface(ENDS[1], settings)?];
        for end in ENDS {
            links.set_mtu(end, settings.mtu)?;
            links.set_queue(end, INTERFACE_QUEUE)?;
        }
        let tallies = [Arc::new(Tally::default()), Arc::new(Tally::default())];
        let clock = Clock::start();
        // Different losses in the two directions, the same in each run.
        let there = Way::new(settings, (&near, &far), settings.seed, &tallies[0], clock);
        let back = Way::new(settings, (&far, &near), !settings.seed, &tallies[1], clock);
        let (ended, stop) = pipe().map_err(|error| LabError::failed("cannot make a pipe", error))?;
        let ended = Arc::new(ended);
        let mut link = Self { stop: Some(stop), threads: Vec::new(), tallies };
        let spin = settings.spin;
        // A thread for each direction: one for both moved a third less.
        for mut way in [there, back] {
            let ended = ended.clone();
            let thread = thread::Builder::new().name(THREAD.to_owned());
            let thread = thread.spawn(move || forwarder::drive(&mut way, &ended, spin));
            link.threads.push(thread.map_err(|error| LabError::failed("cannot start a thread", error))?);
        }
        Ok(link)
    }

    /// From near to far, and back.
    pub(super) fn counters(&self) -> [Counters; 2] {
        [self.tallies[0].read(), self.tallies[1].read()]
    }

    /// Numbers of this process's threads that move frames. They count as device and driver.
    pub(super) fn threads() -> Vec<u32> {
        let all = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let is_own = |thread: &PathBuf| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == THREAD);
        all.map(|thread| thread.path())
            .filter(is_own)
            .filter_map(|thread| thread.file_name()?.to_str()?.parse().ok())
            .collect()
    }

    pub(super) fn stop(&mut self) -> Result<(), LabError> {
        self.stop = None;
        let threads = self.threads.drain(..).map(JoinHandle::join);
        let ends = threads.map(|end| end.unwrap_or_else(|_| Err(LabError::broken("a thread of the link panicked"))));
        // Both threads must be joined.
        ends.collect::<Vec<_>>().into_iter().collect()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Drop cannot report errors.
        let _ = self.stop();
    }
}

fn interface(name: &str, settings: &Settings) -> Result<Arc<Tap>, LabError> {
    Tap::new(name, settings).map(Arc::new).map_err(|error| {
        let remedy = "the module tun must be there (modprobe tun), and /dev/net/tun be open to this user";
        LabError::missing(format!("cannot make the interface {name}"), error, remedy)
    })
}
