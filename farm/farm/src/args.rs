//! The command line of `sidecore-farm`.

mod dead;
mod dispatch;
mod durability;
pub(crate) mod error;
mod feed;
mod prune;
mod results;
pub(crate) mod watch;
pub(crate) mod work;

pub(crate) use dead::Dead;
pub(crate) use dispatch::{Dispatch, Keep};
pub(crate) use durability::{Durability, Storage};
pub(crate) use feed::{Feed, OverflowPolicy};
pub(crate) use prune::{Delete, Prune};
pub(crate) use results::{Cancel, Outcome, Progress, Results};
pub(crate) use sidecore_nats::{Farm, MAX_NAME_BYTES, name};

use clap::{Parser, Subcommand};
use sidecore_terminal::arguments::{HandedOn, Manuals};

/// Hands out events by credit, on NATS.
#[derive(Debug, Parser)]
// The user types `sidecore farm`: help and error messages show that name.
#[command(version, arg_required_else_help = true, name = "sidecore farm", bin_name = "sidecore farm")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hand the farm's events to its nodes; a second one stands by until the first is gone
    Dispatch(Dispatch),
    /// Read events and have them stored in the farm
    Feed(Feed),
    /// Be a node: do events by a program
    Work(work::Work),
    /// Take results out of the farm
    Results(Results),
    /// Print the result of one event, or why there is none
    Result(Outcome),
    /// Say how much of what a feeder has fed is done
    Progress(Progress),
    /// Cancel events that wait: they become dead letters
    Cancel(Cancel),
    /// List dead events, or feed them once more
    Dead(Dead),
    /// Remove results that every taker has, and say who has not taken the others
    Prune(Prune),
    /// Remove a farm with all that waits in it
    Delete(Delete),
    /// Say how the farm is
    Status(watch::Status),
    /// Watch the farm
    Top(watch::Top),
    /// Give how the farm is to Prometheus, over HTTP
    Export(watch::Export),
    /// Show the farm's main job in half a minute: a server, a feeder and 16 unequal nodes; some nodes are killed
    #[command(disable_help_flag = true)]
    Try(HandedOn),
    /// Measure the farm, and NATS alone
    #[command(disable_help_flag = true)]
    Bench(HandedOn),
    /// `sidecore gateway`, by its first name
    #[command(hide = true, disable_help_flag = true)]
    Gateway(HandedOn),
    /// `sidecore key-server`, by its first name
    #[command(hide = true, disable_help_flag = true)]
    KeyServer(HandedOn),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}
