//! Tests of each path alone, of long random sequences against an oracle, and of results in simulated time.

mod deferred;
mod emulated;
mod fills;
mod model;
mod paths;
mod shares;
mod users;

use super::*;

pub(super) fn capability(depth: u32) -> Capability {
    Capability { classes: Classes::all(), immediate: false, remote_keys: false, depth, weight: 1, rates: Rates::new() }
}

pub(super) fn remote(depth: u32) -> Capability {
    Capability { remote_keys: true, ..capability(depth) }
}

pub(super) fn work(lane: LaneId, tag: u32) -> Work {
    Work {
        lane,
        tag,
        class: Class::NOOP,
        size: 1_000,
        urgent: false,
        key_location: KeyLocation::LOCAL,
        submitted: None,
    }
}
