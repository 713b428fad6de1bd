//! `sidecore serve` in its sandbox: what others see of it, what it still does, and what it says where it cannot.

mod attack;
mod check;
mod example;
mod remote;
mod service;
mod sockets;
mod start;
mod unit;
mod work;

use sidecore_testing::skipped;

/// Whether this is root. Where it is not, what takes that is skipped.
fn root_or_skipped(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped(&format!("only root can: {what}"));
    }
    root
}
