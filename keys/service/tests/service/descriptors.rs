//! Programs that close foreign descriptors. `tests/peer/descriptors.rs` runs inside them.

use crate::common::start;
use crate::peer::Peer;
use sidecore::config::Config;

#[test]
fn what_a_program_opens_at_the_numbers_of_a_lane_is_left_alone() {
    let service = start(Config::default());
    let lines = Peer::start(&["foreign", service.socket().to_str().unwrap()]).finish();
    assert_eq!(lines, ["done"]);
}

#[test]
fn a_program_without_standard_descriptors_gets_none_of_a_lane_there() {
    let service = start(Config::default());
    let lines = Peer::start(&["bare", service.socket().to_str().unwrap()]).finish();
    assert_eq!(lines, ["done"]);
}
