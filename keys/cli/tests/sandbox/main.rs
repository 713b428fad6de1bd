//! `sidecore serve` in its sandbox: its visibility to others, its remaining abilities, and its messages.

mod apparmor;
mod attack;
mod check;
mod example;
mod remote;
mod service;
mod start;
mod unit;
mod work;

use sidecore_testing::skipped;

/// Whether the test runs as root. Otherwise the test is reported as skipped.
fn root_or_skipped(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped(&format!("only root can: {what}"));
    }
    root
}
