//! `sidecore net`: takes the way between an interface and a program apart, and makes it fast.
//!
//! Everything happens between two *ends*: this process, and another one here or on another machine.

mod breakdown;
mod end;
mod links;
mod packets;
mod pair;
mod sampling;
mod show;
mod space;

use crate::args::{Net, NetCommand};
pub(crate) use end::run as run_end;
use pair::Pair;

/// Runs what was typed.
///
/// # Errors
/// It cannot be done here: what is missing.
pub(crate) fn run(args: &Net) -> Result<(), String> {
    match &args.command {
        NetCommand::Measure(_) => Pair::by_veth().map(|_| ()),
        NetCommand::Where(args) => breakdown::run(args),
    }
}
