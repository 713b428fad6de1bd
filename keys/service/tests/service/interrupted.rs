//! Tests of signals during every wait.

use crate::common::start;
use crate::peer::Peer;
use sidecore::config::Config;

#[test]
fn signals_fail_no_connection_and_no_first_request() {
    let service = start(Config::default());
    let lines = Peer::start(&["interrupted", service.socket().to_str().unwrap()]).finish();
    assert_eq!(lines, ["100 of 100"]);
}
