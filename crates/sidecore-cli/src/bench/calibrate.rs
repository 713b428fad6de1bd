//! `sidecore bench calibrate`: what this machine is like, as a plan for `sidecore sim`.
//!
//! The time of operations is measured inside one process; what the lane adds is measured with operations that do
//! nothing and with one reference operation, so that the others, and all ways to wait, are predictions.

mod plan;
mod sleep;

use super::crew::{BenchError, Crew, Plan};
use super::series::median;
use super::task::Task;
use crate::progress::Progress;
use plan::Machine;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;
use std::fs;
use std::path::Path;

/// Operations that are measured, each at a small and a large size, bytes; with 0, at one size only.
const OPS: [(&str, u32, u32); 8] = [
    (REFERENCE, 64, LARGE),
    ("aes-256-gcm", 64, LARGE),
    ("chacha20-poly1305", 64, LARGE),
    ("sha-256", 64, LARGE),
    ("rsa-2048-sign", 32, 0),
    ("rsa-4096-sign", 32, 0),
    ("p-256-sign", 32, 0),
    ("ed25519-sign", 32, 0),
];
/// The operation by which moving of payload is measured.
const REFERENCE: &str = "aes-256-ctr";
const LARGE: u32 = 16_384;
/// In flight where the rate counts.
const DEPTH: u32 = 64;
const REPEATS: usize = 5;
const NS: u64 = 40_000_000;

/// A fixed time and a time per byte, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Line {
    fixed: f64,
    per_byte: f64,
}

impl Line {
    /// Through two sizes with their times; never negative.
    fn through((small, at_small): (u32, f64), (large, at_large): (u32, f64)) -> Self {
        let per_byte = ((at_large - at_small) / f64::from(large - small)).max(0.0);
        Self { fixed: (at_small - per_byte * f64::from(small)).max(0.0), per_byte }
    }
}

/// Measures, writes the plan and says what it found.
pub(super) fn run(path: &Path) -> Result<(), BenchError> {
    let crew_plan = Plan { notify: NotifyConfig::all(Notify::Spin), ..Plan::inline(1) };
    if crew_plan.pinning.clients.is_empty() {
        return Err(BenchError::new("calibrate needs two cores, one for a client and one for a sidecore"));
    }
    let mut progress = Progress::new(OPS.len() + 3);
    progress.scenario("calibrate");
    let cores = (crew_plan.pinning.clients[0], crew_plan.pinning.sidecores[0]);
    progress.begin("sleeping and waking");
    let sleep = sleep::measure(cores)?;
    progress.advance();
    let mut crew = Crew::start(&crew_plan)?;
    let mut machine = Machine { sleep, ..Machine::default() };
    for (op, small, large) in OPS {
        progress.begin(op);
        machine.ops.push((op, inline(&mut crew, op, small, large)?));
        progress.advance();
    }
    progress.begin("the lane");
    measure_lane(&mut crew, &mut machine)?;
    progress.advance();
    drop(progress);
    let text = machine.to_toml();
    fs::write(path, &text).map_err(|error| BenchError::new(format!("cannot write {}: {error}", path.display())))?;
    print!("{}", machine.to_grid().to_text());
    println!("\nWritten to {}: run it with `sidecore sim {}`.", path.display(), path.display());
    Ok(())
}

/// Time of an operation inside the client's process, by size.
fn inline(crew: &mut Crew, op: &str, small: u32, large: u32) -> Result<Line, BenchError> {
    let mut time = |size| {
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            let task = Task::Inline { op: op.to_owned(), size, ns: NS };
            times.push(1e9 / crew.first(&task)?.map_err(BenchError::new)?.per_s());
        }
        Ok::<f64, BenchError>(median(&times))
    };
    let at_small = time(small)?;
    if large == 0 {
        return Ok(Line { fixed: at_small, per_byte: 0.0 });
    }
    Ok(Line::through((small, at_small), (large, time(large)?)))
}

/// Time of one request through the lane with so many in flight.
fn through(crew: &mut Crew, op: &str, size: u32, depth: u32) -> Result<f64, BenchError> {
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let closed = |_, start| Task::Closed { op: op.to_owned(), size, depth, start, ns: NS };
        times.push(1e9 / crew.together(1, closed)?[0].per_s());
    }
    Ok(median(&times))
}

/// What the lane adds: from no-ops the parts of both sides and the hop, from the reference operation what moving costs.
fn measure_lane(crew: &mut Crew, machine: &mut Machine) -> Result<(), BenchError> {
    let (trip, request) = (through(crew, "noop", 0, 1)?, through(crew, "noop", 0, DEPTH)?);
    let reference = machine.op(REFERENCE);
    let own = |size: u32| request + reference.fixed + reference.per_byte * f64::from(size);
    let added = |time: f64, size: u32| (time - own(size)).max(0.0);
    let (small, large) = (through(crew, REFERENCE, 64, DEPTH)?, through(crew, REFERENCE, LARGE, DEPTH)?);
    machine.moving = Line::through((64, added(small, 64)), (LARGE, added(large, LARGE)));
    machine.request = request;
    machine.client = request;
    machine.hop = ((trip - machine.request - machine.client) / 2.0).max(0.0);
    let alone = through(crew, REFERENCE, LARGE, 1)?;
    let parts = machine.client + 2.0 * machine.hop + own(LARGE) + machine.moving.fixed;
    let moved = machine.moving.per_byte * f64::from(LARGE);
    machine.client_per_byte = ((alone - parts - moved) / f64::from(LARGE)).max(0.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_two_points_and_is_never_negative() {
        assert_eq!(Line::through((64, 164.0), (1064, 1164.0)), Line { fixed: 100.0, per_byte: 1.0 });
        assert_eq!(Line::through((64, 50.0), (1064, 40.0)), Line { fixed: 50.0, per_byte: 0.0 });
        assert!(Line::through((64, 10.0), (1064, 1010.0)).fixed.abs() < 1e-9);
    }
}
