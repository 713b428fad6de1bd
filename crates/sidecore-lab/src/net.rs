//! `sidecore net`: takes the way between an interface and a program apart, and makes it fast.
//!
//! Everything happens between two *ends*: this process, and another one here or on another machine.

mod end;
mod link;
mod links;
mod pair;
mod space;

use crate::args::{Net, NetCommand};
pub(crate) use end::run as run_end;
use pair::Pair;

/// Runs what was typed. The exit code.
///
/// # Errors
/// It cannot be done here: what is missing.
pub(crate) fn run(args: &Net) -> Result<u8, String> {
    match &args.command {
        NetCommand::Measure(_) => Pair::by_veth().map(|_| 0),
        NetCommand::Link(args) => link::run(args),
    }
}
