//! Problems that the laboratory injects into a path. Tuning must find them.

use super::cpu_load::CpuLoad;
use super::setting::by_name;
use super::tuned_path::Ends;
use crate::args::{Goal, InjectedProblem, NetJoint};
use crate::error::LabError;

impl InjectedProblem {
    pub(super) const ALL: [Self; 6] =
        [Self::Mtu, Self::Offload, Self::Moderation, Self::BusyCore, Self::Buffers, Self::Gro];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mtu => "packets of 576 B",
            Self::Offload => "no segmentation offload",
            Self::Moderation => "moderation of 1 ms",
            Self::BusyCore => "one queue on the busy core",
            Self::Buffers => "socket buffers of 8 KiB",
            Self::Gro => "GRO off",
        }
    }

    /// Why such a path cannot have the problem. `None`: it can.
    pub(super) fn lacks(self, by: NetJoint) -> Option<&'static str> {
        let is_lacking = (self, by) == (Self::Moderation, NetJoint::Link);
        is_lacking
            .then_some("the moderation of a link is the link's own, and no setting of its interfaces (--moderate-us)")
    }

    pub(super) fn goal(self) -> Goal {
        match self {
            Self::Moderation | Self::BusyCore => Goal::latency(),
            _ => Goal::throughput(),
        }
    }

    /// Settings; any one of them cures the problem.
    pub(super) fn cures(self) -> &'static [&'static str] {
        match self {
            Self::Mtu => &["mtu"],
            Self::Offload => &["tso", "gso"],
            Self::Moderation => &["gro-flush-timeout", "napi-defer-hard-irqs", "gro"],
            Self::BusyCore => &["rps"],
            Self::Buffers => &["rmem", "wmem"],
            Self::Gro => &["gro"],
        }
    }

    pub(super) fn matters(self) -> &'static [&'static str] {
        match self {
            Self::Mtu => &["mtu", "gro", "wmem"],
            Self::Offload => &["tso", "gso", "gro", "mtu"],
            Self::Moderation => &["gro-flush-timeout", "napi-defer-hard-irqs", "gro", "threaded-napi"],
            Self::BusyCore => &["rps", "gro", "threaded-napi"],
            Self::Buffers => &["rmem", "wmem", "gro"],
            Self::Gro => &["gro", "rps", "threaded-napi"],
        }
    }

    fn values(self, by: NetJoint) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Mtu => &[("mtu", "576"), ("tso", "off"), ("gso", "off")],
            Self::Offload => &[("tso", "off"), ("gso", "off")],
            Self::Moderation => {
                &[("tso", "off"), ("gro", "on"), ("gro-flush-timeout", "1000000"), ("napi-defer-hard-irqs", "1000")]
            }
            Self::BusyCore => &[("rps", "1")],
            Self::Buffers => &[("rmem", "4096 8192 8192"), ("wmem", "4096 8192 8192")],
            // A link hands over single frames: only a threaded receiver finds several frames to merge.
            Self::Gro if by == NetJoint::Link => {
                &[("gro", "off"), ("tso", "off"), ("gso", "on"), ("threaded-napi", "1")]
            }
            Self::Gro => &[("gro", "off"), ("tso", "off"), ("gso", "on")],
        }
    }

    /// Whether the problem fixes this setting. A pair of virtual interfaces does not cut large packets by itself. With such
    /// packets neither their size nor merging would matter, and packets would not wait.
    pub(super) fn holds(self, name: &str, by: NetJoint) -> bool {
        match self {
            Self::Gro if by == NetJoint::Link && name == "threaded-napi" => true,
            Self::Mtu | Self::Moderation => ["tso", "gso"].contains(&name),
            Self::Gro => ["tso", "gso", "mtu"].contains(&name),
            _ => false,
        }
    }

    /// Injects the problem. A returned load belongs to it, and lasts until drop.
    pub(super) fn into(self, ends: &mut Ends, by: NetJoint) -> Result<Option<CpuLoad>, LabError> {
        // Independent of this machine's default: its effect would hide the problem's.
        let first = ("congestion-control", "cubic");
        for (name, value) in [first].iter().chain(self.values(by)) {
            let set = ends.write(by_name(name)?, &[(*value).to_owned()]);
            set.map_err(|why| LabError::failed(format!("cannot plant {name} {value}"), why))?;
        }
        let cpu_load = (self == Self::BusyCore).then(CpuLoad::begin).transpose();
        cpu_load.map_err(|why| LabError::failed(format!("cannot plant {}", self.name()), why))
    }
}
