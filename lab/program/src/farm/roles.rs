//! The farm's processes, started as `sidecore farm` starts each.

use super::stand::Stand;
use crate::farm::crew::{Process, ProcessError, Role};
use std::time::Duration;

/// Silence after which a node is lost. It is shorter than the default, because the gap after a kill is measured on a
/// quiet machine.
const NODE_TIMEOUT: &str = "40ms";
/// A quarter of it.
const BEAT: &str = "10ms";

pub(crate) fn dispatcher(stand: &Stand, farm: &str, number: usize, further: &[&str]) -> Result<Process, ProcessError> {
    let further = [&["--silence", NODE_TIMEOUT], further].concat();
    start(stand, farm, format!("dispatcher {number}"), "dispatch", &further, false)
}

/// A node that sleeps `unit` for each unit of an event, one event after the other.
pub(crate) fn node(stand: &Stand, farm: &str, number: usize, unit: Duration) -> Result<Process, ProcessError> {
    let (name, unit) = (node_name(number), format!("{}ns", unit.as_nanos()));
    start(
        stand,
        farm,
        format!("node {number}"),
        "work",
        &["--name", &name, "--jobs", "1", "--beat", BEAT, "--sleep", &unit],
        false,
    )
}

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number}")
}

pub(crate) fn feeder(stand: &Stand, farm: &str, name: &str) -> Result<Process, ProcessError> {
    start(stand, farm, "feeder".to_owned(), "feed", &["--name", name, "--lines"], true)
}

fn start(
    stand: &Stand,
    farm: &str,
    name: String,
    command: &str,
    further: &[&str],
    reads: bool,
) -> Result<Process, ProcessError> {
    let url = stand.server.url();
    let arguments = [&[command, "--farm", farm, "--server", &url], further].concat();
    let role = Role::of_the_farm(name, arguments, stand.logs())?;
    Role { reads, ..role }.start()
}
