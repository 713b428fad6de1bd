//! `sidecore serve` in its sandbox: what others see of it, what it still does, and what it says where it cannot.

mod attack;
mod check;
mod example;
mod service;
mod start;
mod unit;
mod work;

use std::io::Write;

/// Whether this is root. Where it is not, says which part of a test was left out, past the harness, which keeps what a
/// passing test prints.
fn root_or_say(left_out: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        say(&format!("NOT TESTED, for only root can: {left_out}"));
    }
    root
}

fn say(text: &str) {
    // Nothing to be done where there is no stderr.
    let _ = writeln!(std::io::stderr(), "{text}");
}
