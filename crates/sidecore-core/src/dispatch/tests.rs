//! Each path by itself, long random sequences against an oracle, and what comes of it in simulated time.

mod emulated;
mod model;
mod paths;
mod shares;

use super::*;

/// A device for all classes of which nothing is known.
fn capability(depth: u32) -> Capability {
    Capability { classes: Classes::all(), immediate: false, depth, weight: 1, rates: Rates::new() }
}

fn work(lane: LaneId, tag: u32) -> Work {
    Work { lane, tag, class: Class::NOOP, size: 1_000, urgent: false, submitted: None }
}
