//! `sidecore bench calibrate`: what this machine is like, as a plan for `sidecore sim`.
//!
//! The time of operations is measured inside one process; what the lane adds is measured with operations that do
//! nothing and with one reference operation, so that the others, and all ways to wait, are predictions.

mod plan;
mod sleep;

use super::BenchError;
use super::crew::{Crew, Plan};
use super::series::median;
use super::task::Task;
use crate::output;
use crate::progress::Progress;
use plan::Machine;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;
use std::fs;
use std::path::Path;

/// Operations that are measured at all sizes, and those whose time does not depend on it.
const SIZED: [&str; 4] = [REFERENCE, "aes-256-gcm", "chacha20-poly1305", "sha-256"];
const FIXED: [&str; 4] = ["rsa-2048-sign", "rsa-4096-sign", "p-256-sign", "ed25519-sign"];
/// Sizes, bytes, and that of what is signed.
const SIZES: [u32; 3] = [64, 1_024, 16_384];
const MESSAGE: u32 = 32;
/// The operation by which moving of payload is measured.
const REFERENCE: &str = "aes-128-gcm";
const NOOP: &str = "noop";
/// In flight where the rate counts.
const DEPTH: u32 = 64;
const REPEATS: usize = 5;
const NS: u64 = 40_000_000;
/// One request in so many carries stage times: few, and as many as in the scenario notify.
const SAMPLES: [u32; 2] = [64, 4];

/// Times at the three sizes, ns.
type Curve = [f64; 3];

/// Measures, writes the plan and says what it found.
pub(super) fn run(path: &Path) -> Result<(), BenchError> {
    let crew_plan = Plan { notify: NotifyConfig::all(Notify::Spin), ..Plan::inline(1) };
    if crew_plan.pinning.clients.is_empty() {
        return Err("calibrate needs two cores, one for a client and one for a sidecore".into());
    }
    let mut progress = Progress::new(SIZED.len() + FIXED.len() + 3);
    progress.scenario("calibrate");
    let cores = (crew_plan.pinning.clients[0], crew_plan.pinning.sidecores[0]);
    progress.begin("sleeping and waking");
    let park_cost = sidecore::service::park_times()?.cost as f64;
    let mut machine = Machine { sleep: sleep::measure(cores)?, park_cost, ..Machine::default() };
    progress.advance();
    let mut crew = Crew::start(&crew_plan)?;
    for op in SIZED.into_iter().chain(FIXED) {
        progress.begin(op);
        let sizes = if SIZED.contains(&op) { SIZES } else { [MESSAGE; 3] };
        machine.ops.push((op, inline(&mut crew, op, sizes)?));
        progress.advance();
    }
    progress.begin("the lane");
    measure_lane(&mut crew, &mut machine)?;
    drop(crew);
    progress.advance();
    progress.begin("stage times");
    let mut crew = Crew::start(&Plan { sample_every: SAMPLES[1], ..crew_plan })?;
    let often = through(&mut crew, NOOP, 0, DEPTH)?;
    let [few, many] = SAMPLES.map(|every| 1.0 / f64::from(every));
    machine.sample = ((often - machine.request) / (many - few)).max(0.0);
    drop(crew);
    progress.advance();
    drop(progress);
    let text = machine.to_toml();
    fs::write(path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let (found, path) = (machine.to_grid().to_text(), path.display());
    Ok(output::print(&format!("{found}\nWritten to {path}: run it with `sidecore sim {path}`.\n"))?)
}

/// Time of an operation, from repeated measurements of its rate.
fn time(mut rate: impl FnMut() -> Result<f64, BenchError>) -> Result<f64, BenchError> {
    let times = (0..REPEATS).map(|_| Ok(1e9 / rate()?)).collect::<Result<Vec<_>, BenchError>>()?;
    Ok(median(&times))
}

/// Time of an operation inside the client's process, by size.
fn inline(crew: &mut Crew, op: &str, sizes: [u32; 3]) -> Result<Curve, BenchError> {
    let mut curve = Curve::default();
    for (index, size) in sizes.into_iter().enumerate() {
        let task = Task::Inline { op: op.to_owned(), size, ns: NS };
        let is_known = index > 0 && size == sizes[0];
        curve[index] = if is_known { curve[0] } else { time(|| Ok(crew.together(1, |_| task.clone())?[0].per_s()))? };
    }
    Ok(curve)
}

/// Time of one request through the lane with so many in flight.
fn through(crew: &mut Crew, op: &str, size: u32, depth: u32) -> Result<f64, BenchError> {
    time(|| Ok(crew.closed(1, (op, size), depth, NS)?.rate()))
}

/// Time of one no-op whose client submits at times of its own, as fast as it can.
fn open(crew: &mut Crew) -> Result<f64, BenchError> {
    let task = |start| Task::Open { op: NOOP.to_owned(), size: 0, per_s: 1e9, seed: 1, start, ns: NS };
    time(|| Ok(crew.together(1, task)?[0].per_s()))
}

/// What the lane adds: from no-ops the parts of both sides and the hop; from no-ops with payload what copying costs the
/// client; from the reference operation what moving costs the sidecore, and, alone in the lane, what each side waits for
/// payload from the other's cache.
fn measure_lane(crew: &mut Crew, machine: &mut Machine) -> Result<(), BenchError> {
    let (trip, request) = (through(crew, NOOP, 0, 1)?, through(crew, NOOP, 0, DEPTH)?);
    (machine.request, machine.client) = (request, request);
    machine.open = (open(crew)? - request).max(0.0);
    machine.hop = ((trip - machine.request - machine.client) / 2.0).max(0.0);
    let reference = machine.op(REFERENCE);
    for (index, size) in SIZES.into_iter().enumerate() {
        machine.copy[index] = (through(crew, NOOP, size, DEPTH)? - machine.client).max(0.0);
        let own = request + reference[index];
        machine.moving[index] = (through(crew, REFERENCE, size, DEPTH)? - own).max(0.0);
        let parts = machine.client + machine.copy[index] + 2.0 * machine.hop + own + machine.moving[index];
        machine.transfer[index] = ((through(crew, REFERENCE, size, 1)? - parts) / 2.0).max(0.0);
    }
    Ok(())
}
