//! Prints the bake-off's table for so many random pools: `cargo run --release -p sidecore-sim --example bakeoff 60`.

use std::ops::ControlFlow;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(seeds) = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok()) else {
        eprintln!("say how many random pools: a number");
        return ExitCode::from(2);
    };
    print!("{}", sidecore_sim::bakeoff::run(seeds, &mut |_, _| ControlFlow::Continue(())));
    ExitCode::SUCCESS
}
