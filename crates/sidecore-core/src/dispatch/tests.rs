//! Each path by itself, long random sequences against an oracle, and what comes of it in simulated time.

mod emulated;
mod fills;
mod kept;
mod model;
mod paths;
mod shares;

use super::*;

/// A device for all classes of which nothing is known.
pub(super) fn capability(depth: u32) -> Capability {
    Capability { classes: Classes::all(), immediate: false, elsewhere: false, depth, weight: 1, rates: Rates::new() }
}

/// One that works with keys of other machines.
pub(super) fn elsewhere(depth: u32) -> Capability {
    Capability { elsewhere: true, ..capability(depth) }
}

pub(super) fn work(lane: LaneId, tag: u32) -> Work {
    Work { lane, tag, class: Class::NOOP, size: 1_000, urgent: false, reach: Reach::HERE, submitted: None }
}
