//! Operations of 1 to 8 client processes on one core that computes them side by side. Compared with the same core
//! without batches, with OpenSSL and with a worker. Also measures latency at open loads.

use super::error::BenchError;
use super::experiment::{By, Case, Counted, Run, Turn, Variant, measure_all};
use super::scenario::{SERVICES, Scenario, Settings};
use super::task::Task;
use super::testbed::{Plan, Testbed};
use crate::baseline::openssl_library;
use crate::report::{Column, Outcome, column, section};
use sidecore::config::{DeviceConfig, NotifyConfig, Sidecores};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::Class;
use sidecore::engine::crypto::batch::SideBySide;
use sidecore::engine::crypto::sample::sample;
use sidecore_ipc::sys::clock;
use sidecore_measure::progress::Progress;
use sidecore_report::columns;
use sidecore_report::format::plain;

columns! {
    pub(super) COLUMNS after column::JOBS;

    /// Requests in flight for a device that computes several side by side.
    FILL = Column::set("fill", 0, plain);
}

pub(super) static SCENARIO: Scenario = Scenario::new(
    "batch",
    "Private operations of several clients side by side on one core; not among all",
    measure,
    &[section(
    "batch",
    "Batch: private operations side by side",
    "Operations a second of client processes with one request in flight each, on one core that does them side by side, \
     against the same core with one after another.",
),
        section(
    "batch-open",
    "Batch: random arrivals",
    "Latency of requests that come at random times, at a share of what the batch device does at most. Down is better.",
)],
).ops(ops).alone(SERVICES);

/// An operation, and the bytes that it is about: the length of a message to be signed or encrypted.
type Op = (&'static str, u32);

const OPS: [Op; 8] = [
    ("rsa-2048-sign", 32),
    ("rsa-3072-sign", 32),
    ("rsa-4096-sign", 32),
    ("rsa-1024-sign", 32),
    ("p-256-sign", 32),
    ("aes-256-cbc", 1 << 10),
    ("aes-256-cbc", 16 << 10),
    ("aes-256-cbc", 64 << 10),
];
const QUICK_OPS: [Op; 4] =
    [("rsa-2048-sign", 32), ("rsa-4096-sign", 32), ("p-256-sign", 32), ("aes-256-cbc", 64 << 10)];
const FILLS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const QUICK_FILLS: [usize; 4] = [1, 2, 4, 8];
/// Offered loads as shares of the batched capacity.
const LOADS: [f64; 7] = [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95];
const QUICK_LOADS: [f64; 3] = [0.05, 0.5, 0.8];
const CLIENTS: usize = 8;

/// Services with a device on the same core. One is measured at a time; the others sleep.
struct Testbeds {
    worker: Testbed,
    batch: Testbed,
}

fn ops() -> Vec<&'static str> {
    let mut names: Vec<_> = OPS.into_iter().map(|(name, _)| name).collect();
    names.dedup();
    names
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut testbeds = Testbeds { worker: start(DeviceConfig::worker)?, batch: start(DeviceConfig::batch)? };
    let (ops, fills): (&[Op], &[usize]) = if settings.quick { (&QUICK_OPS, &QUICK_FILLS) } else { (&OPS, &FILLS) };
    let named: Vec<Op> = OPS.into_iter().filter(|(op, _)| settings.ops.iter().any(|named| named == op)).collect();
    let ops = if settings.ops.is_empty() { ops.to_vec() } else { named };
    let ns = settings.pick(100_000_000, 400_000_000);
    // Many processes with one request each, then one process with the same number of requests.
    let ways = || fills.iter().map(|fill| (*fill, 1)).chain([(1, CLIENTS)]);
    let closed = ops.iter().flat_map(|op| ways().map(|way| filled(&testbeds, *op, way, ns))).collect();
    let repeats = settings.pick(3, 5);
    let mut outcome = measure_all(&mut testbeds, closed, repeats, progress)?;
    let loads: &[f64] = if settings.quick { &QUICK_LOADS } else { &LOADS };
    let mut open = Vec::new();
    for op in ops {
        let capacity = testbeds.batch.closed(CLIENTS, op, 1, ns)?.rate();
        open.extend(loads.iter().map(|load| arriving(&testbeds, op, *load, capacity, ns)));
    }
    outcome.add(measure_all(&mut testbeds, open, repeats, progress)?);
    Ok(outcome.noted(
        "batch: each client process has a session of its own and so many jobs in flight; the device has a core of its own and \
         spins there, the sidecore and the clients share the other and sleep. inline and openssl are one process alone on one core, \
         lanes is one that does so many side by side. batch-open: one \
         client at random times; the load is a share of what 8 clients reach with the batch device.",
    ))
}

fn start(device: fn(&str, Option<usize>, bool) -> DeviceConfig) -> Result<Testbed, BenchError> {
    let plan = Plan::inline(CLIENTS);
    let core = plan.pinning.sidecores.first().copied();
    let devices = vec![device("device", core, core.is_some())];
    let sidecores = Sidecores { cpus: plan.pinning.clients.first().copied().into_iter().collect(), owned: false };
    Testbed::start(&Plan { devices, sidecores, notify: NotifyConfig::all(Notify::Park), ..plan })
}

fn case(testbeds: &Testbeds, scenario: &str, (op, size): Op, clients: usize) -> Case<'static, Testbeds> {
    let pinned = &testbeds.batch.pinning;
    let described = format!("clients and sidecore {:?}, device {:?}", pinned.clients, pinned.sidecores);
    Case::new(scenario)
        .with(column::OP, op)
        .with(column::SIZE, size)
        .with(column::CLIENTS, clients)
        .with(column::PINNED, described)
}

fn filled(testbeds: &Testbeds, op: Op, (clients, jobs): (usize, usize), ns: u64) -> Case<'static, Testbeds> {
    let alone = move |task: Task| {
        move |testbeds: &mut Testbeds, _: &Turn<'_>| {
            let measured = testbeds.worker.together(1, |_| task.clone())?;
            Ok(Run::of(measured).counted(Counted::cpu(0)))
        }
    };
    let (name, size) = (op.0.to_owned(), op.1);
    let inline = alone(Task::Inline { op: name.clone(), size, ns });
    let openssl = alone(Task::OpenSsl { op: name.clone(), size, ns });
    let lanes = alone(Task::SideBySide { op: name, size, fill: clients * jobs, ns });
    let worker = move |testbeds: &mut Testbeds, _: &Turn<'_>| {
        served(&mut testbeds.worker, |testbed| testbed.closed(clients, op, jobs as u32, ns))
    };
    let batch = move |testbeds: &mut Testbeds, _: &Turn<'_>| {
        served(&mut testbeds.batch, |testbed| testbed.closed(clients, op, jobs as u32, ns))
    };
    let batch = Variant::new("batch", batch).with(column::LIBRARY, "sidecore-batch");
    let lanes = Variant::new("lanes", lanes).with(column::LIBRARY, "sidecore-batch").against(By::Rate, "inline");
    let closed = case(testbeds, "batch", op, clients)
        .with(column::JOBS, jobs)
        .with(FILL, clients * jobs)
        .variant(Variant::new("inline", inline).with(column::LIBRARY, "aws-lc"))
        .variant(Variant::new("openssl", openssl).with(column::LIBRARY, openssl_library()))
        .variant(Variant::new("worker", worker).with(column::LIBRARY, "aws-lc").against(By::Rate, "inline"))
        .variant(["inline", "openssl", "worker"].iter().fold(batch, |batch, name| batch.against(By::Rate, name)));
    if jobs == 1 && is_side_by_side(op) { closed.variant(lanes) } else { closed }
}

fn is_side_by_side((op, size): Op) -> bool {
    Class::from_name(op).is_some_and(|class| SideBySide::new(&sample(class, size as usize, 1)).is_some())
}

/// Adds the CPU time of all threads of the service, and its batches. A device with its own core does not sleep
/// meanwhile; the other service's device does.
fn served(testbed: &mut Testbed, run: impl FnOnce(&mut Testbed) -> Result<Run, BenchError>) -> Result<Run, BenchError> {
    let is_alone = !testbed.pinning.sidecores.is_empty();
    if is_alone {
        testbed.set("notify.to_device=spin")?;
    }
    let (cpu, before) = (clock::process_cpu(), testbed.batches()?);
    let run = run(testbed);
    let (cpu, after) = (clock::process_cpu() - cpu, testbed.batches()?);
    if is_alone {
        testbed.set("notify.to_device=park")?;
    }
    let run = run?;
    let counts = std::array::from_fn(|at| after[at] - before[at]);
    Ok(run.counted(Counted::cpu(cpu).batches(counts)))
}

fn arriving(testbeds: &Testbeds, op: Op, load: f64, capacity: f64, ns: u64) -> Case<'static, Testbeds> {
    let task = move |start| Task::Open { op: op.0.to_owned(), size: op.1, per_s: load * capacity, seed: 1, start, ns };
    let worker = move |testbeds: &mut Testbeds, _: &Turn<'_>| {
        served(&mut testbeds.worker, |testbed| Ok(Run::of(testbed.together(1, task)?)))
    };
    let batch = move |testbeds: &mut Testbeds, _: &Turn<'_>| {
        served(&mut testbeds.batch, |testbed| Ok(Run::of(testbed.together(1, task)?)))
    };
    case(testbeds, "batch-open", op, 1)
        .with(column::LOAD, load)
        .variant(Variant::new("worker", worker).with(column::LIBRARY, "aws-lc"))
        .variant(Variant::new("batch", batch).with(column::LIBRARY, "sidecore-batch").against(By::Median, "worker"))
}
