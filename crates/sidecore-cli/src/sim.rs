//! `sidecore sim`: predicts hardware that is not here.

mod bench_rows;
mod output;
mod speed;
mod stop;
mod tables;

use crate::args::{Sim, SimCommand};

/// `false`: the answer is no.
pub(crate) fn run(args: &Sim) -> Result<bool, String> {
    match &args.command {
        None => tables::run(&args.plans),
        Some(SimCommand::Speed) => {
            speed::run();
            Ok(true)
        }
    }
}
