//! `sidecore sim`: predicts hardware that is not here.

mod bakeoff;
mod bench_rows;
mod compare;
mod faults;
mod output;
mod plots;
mod replay;
mod sheet;
mod speed;
mod stop;
mod tables;
mod waiting;

use crate::args::{Sim, SimCommand};

/// `false`: the answer is no.
pub(crate) fn run(args: &Sim) -> Result<bool, String> {
    match &args.command {
        None => tables::run(&args.plans),
        Some(SimCommand::Bakeoff(args)) => bakeoff::run(args),
        Some(SimCommand::Waiting(args)) => waiting::run(args),
        Some(SimCommand::Faults(args)) => faults::run(args),
        Some(SimCommand::Replay(args)) => replay::run(&args.record),
        Some(SimCommand::Speed) => speed::run().map(|()| true),
    }
}
