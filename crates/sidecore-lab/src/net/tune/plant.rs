//! Problems that the laboratory puts into a path, to see that they are found.

use super::rig::Ends;
use super::setting::by_name;
use clap::ValueEnum;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// Packets of 576 bytes
    Mtu,
    /// No segmentation by the interface, nor just before it
    Offload,
    /// Packets wait up to a millisecond
    Moderation,
    /// Packets are taken in on the first processor only, which has other work
    BusyCore,
    /// Sockets with buffers of 8 KiB
    Buffers,
    /// Small packets, which nothing puts together again
    Gro,
}

/// What a planted problem keeps going until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Planted(Option<Arc<AtomicBool>>);

impl Plant {
    /// What it sets at both ends.
    fn values(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Mtu => &[("mtu", "576"), ("tso", "off"), ("gso", "off")],
            Self::Offload => &[("tso", "off"), ("gso", "off")],
            Self::Moderation => {
                &[("tso", "off"), ("gro", "on"), ("gro-flush-timeout", "1000000"), ("napi-defer-hard-irqs", "1000")]
            }
            Self::BusyCore => &[("rps", "1")],
            Self::Buffers => &[("rmem", "4096 8192 8192"), ("wmem", "4096 8192 8192")],
            Self::Gro => &[("gro", "off"), ("tso", "off"), ("gso", "off")],
        }
    }

    /// What cannot be changed then: a pair of virtual interfaces never cuts large packets of its own, so that neither their
    /// size nor putting them together would matter, and packets wait there only where it does not cut any.
    pub(super) fn holds(self, name: &str) -> bool {
        match self {
            Self::Mtu | Self::Moderation => ["tso", "gso"].contains(&name),
            Self::Gro => ["tso", "gso", "mtu"].contains(&name),
            _ => false,
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// It cannot be set here.
    pub(super) fn into(self, ends: &mut Ends) -> Result<Planted, String> {
        // Whatever this machine's default is: its effect would hide the problem's.
        let first = ("congestion-control", "cubic");
        for (name, value) in [first].iter().chain(self.values()) {
            let set = ends.write(by_name(name)?, &[(*value).to_owned()]);
            set.map_err(|why| format!("cannot plant {name} {value}: {why}"))?;
        }
        if self == Self::BusyCore { busy() } else { Ok(Planted::default()) }
    }
}

/// The first processor has work without end.
fn busy() -> Result<Planted, String> {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let mut first = CpuSet::new();
    first.set(0).map_err(|error| error.to_string())?;
    let work = move || {
        // Without the right to choose its processor it works wherever it is.
        let _ = sched_setaffinity(Pid::from_raw(0), &first);
        let mut number = 1_u64;
        while !seen.load(Ordering::Relaxed) {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    };
    thread::Builder::new().name("busy".to_owned()).spawn(work).map_err(|error| error.to_string())?;
    Ok(Planted(Some(ended)))
}

impl Drop for Planted {
    fn drop(&mut self) {
        if let Some(ended) = &self.0 {
            ended.store(true, Ordering::Relaxed);
        }
    }
}
