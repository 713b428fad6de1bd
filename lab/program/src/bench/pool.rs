//! One sidecore and one worker under random arrivals, for comparisons with a plan of the system `pool`.

use super::error::BenchError;
use super::experiment::{Case, Run, Turn, Variant, measure_all};
use super::scenario::{SERVICES, Scenario, Settings};
use super::task::Task;
use super::testbed::{Plan, Testbed};
use crate::report::{Outcome, column, section};
use sidecore::config::{DeviceConfig, NotifyConfig, Sidecores};
use sidecore::core::policy::notify::Notify;
use sidecore_measure::pinning::Pinning;
use sidecore_measure::progress::Progress;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "pool",
    "One sidecore and one worker under random arrivals, for `sim POOLPLAN --compare`; not among all",
    measure,
    &[section(
        "pool",
        "Pool: one worker",
        "Latency of requests that come at random times, at a share of what the worker does at most. Down is better.",
    )],
)
.ops(ops)
.alone(SERVICES);

/// With sizes in bytes: of a message to sign, or of a payload.
const OPS: [(&str, u32); 3] = [("rsa-2048-sign", 32), ("p-256-sign", 32), ("aes-256-gcm", 16_384)];
/// Offered loads as shares of the capacity.
const LOADS: [f64; 2] = [0.5, 0.8];
/// Requests in flight while the capacity is measured.
const DEPTH: u32 = 32;
/// One request in this number carries stage times.
const SAMPLE_EVERY: u32 = 4;

fn ops() -> Vec<&'static str> {
    OPS.into_iter().map(|(op, _)| op).collect()
}

/// The cores of client, sidecore and worker.
struct Places {
    client: usize,
    sidecore: usize,
    worker: usize,
}

impl Places {
    /// The worker has a core of its own. The sidecore has one if there is a third. `None`: there is one core.
    fn new(cores: &[usize]) -> Option<Self> {
        match cores {
            [] | [_] => None,
            [first, second] => Some(Self { client: *first, sidecore: *first, worker: *second }),
            [first, .., sidecore, worker] => Some(Self { client: *first, sidecore: *sidecore, worker: *worker }),
        }
    }

    fn is_shared(&self) -> bool {
        self.client == self.sidecore
    }

    fn plan(&self) -> Plan {
        let of_others = if self.is_shared() { Notify::Park } else { Notify::Spin };
        Plan {
            pinning: Pinning { sidecores: vec![self.sidecore], clients: vec![self.client], is_unknown: false },
            sidecores: Sidecores { cpus: vec![self.sidecore], owned: !self.is_shared() },
            clients: 1,
            notify: NotifyConfig { to_device: Notify::Spin, ..NotifyConfig::all(of_others) },
            devices: vec![DeviceConfig::worker("worker", Some(self.worker), true)],
            sample_every: SAMPLE_EVERY,
            ..Plan::inline(1)
        }
    }
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let places = Places::new(&sidecore_daemon::sys::cpu::allowed());
    let places = places.ok_or(BenchError::Machine("pool needs two cores, one of them for the worker"))?;
    let plan = places.plan();
    let mut testbed = Testbed::start(&plan)?;
    let (repeats, ns) = settings.pick((3, 1_000_000_000), (5, 4_000_000_000));
    let mut outcome = Outcome::default();
    for (op, size) in OPS.into_iter().filter(|(op, _)| settings.wants(op)) {
        if progress.is_stopped() {
            break;
        }
        let capacity = testbed.closed(1, (op, size), DEPTH, ns / 4)?.rate();
        let cases = LOADS.map(|load| case(&places, (op, size), load, capacity, (settings.seed, ns)));
        outcome.add(measure_all(&mut testbed, cases.into(), repeats, progress)?);
    }
    Ok(outcome.noted(
        "pool: the worker has a core of its own and spins there. With two cores the sidecore and the client share the other \
         and sleep. The load is a share of what the worker does with 32 requests in flight.",
    ))
}

fn case(
    places: &Places,
    (op, size): (&'static str, u32),
    load: f64,
    capacity: f64,
    (seed, ns): (u64, u64),
) -> Case<'static, Testbed> {
    let Places { client, sidecore, worker } = places;
    let notify = if places.is_shared() { Notify::Park } else { Notify::Spin };
    let per_s = load * capacity;
    let run = move |testbed: &mut Testbed, turn: &Turn<'_>| {
        let seed = seed.wrapping_add(turn.repeat as u64);
        let task = |start| Task::Open { op: op.to_owned(), size, per_s, seed, start, ns };
        Ok(Run::of(testbed.together(1, task)?).begun(per_s))
    };
    let variant = Variant::new("open", run).with(column::NOTIFY, notify.to_string());
    Case::new("pool")
        .with(column::OP, op)
        .with(column::SIZE, size)
        .with(column::CLIENTS, 1)
        .with(column::LOAD, load)
        .with(column::SEED, seed)
        .with(column::OFFERED_S, ns as f64 / 1e9)
        .with(column::DEVICES, "1 worker")
        .with(column::PINNED, format!("client {client}, sidecore {sidecore}, worker {worker}"))
        .variant(variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_alone_on_its_core() {
        assert!(Places::new(&[3]).is_none());
        for (cores, shared) in [(vec![0, 1], true), (vec![0, 1, 2], false), (vec![4, 5, 6, 7], false)] {
            let places = Places::new(&cores).unwrap();
            assert_eq!(places.is_shared(), shared, "{cores:?}");
            assert!(places.worker != places.client && places.worker != places.sidecore, "{cores:?}");
            let plan = places.plan();
            assert_eq!((plan.sidecores.owned, plan.devices[0].owned), (!shared, true));
            assert_eq!(plan.notify.to_device, Notify::Spin);
        }
    }
}
