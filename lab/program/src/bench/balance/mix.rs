//! An open mix of sizes on devices that fill: whether a policy carries the load, compared with the linear program's
//! bound.
//!
//! The pools are those of the simulator's bake-off, at a common speed: all devices are emulated on one core.

use super::super::error::BenchError;
use super::super::experiment::{By, Case, Run, Turn, Variant, measure_all};
use super::super::scenario::Settings;
use super::super::task::{Mix, Task};
use super::super::testbed::{Plan, Testbed};
use super::{OP, POLICIES, input_len};
use crate::report::{Outcome, column};
use sidecore::config::{DeviceConfig, NotifyConfig};
use sidecore::core::policy::balance::Program;
use sidecore::core::policy::notify::Notify;
use sidecore_measure::progress::Progress;
use sidecore_sim::bakeoff::{Run as Simulated, random_pool, regression_pool};

/// Capacity of each pool, requests a second: low enough for one core to emulate.
const PER_S: f64 = 8_000.0;
/// Offered loads as shares of the capacity.
const LOADS: [f64; 2] = [0.8, 0.95];
const QUICK_LOADS: [f64; 1] = [0.9];
const DEPTHS: [u32; 2] = [8, 64];
const QUICK_DEPTHS: [u32; 1] = [64];
const POOLS: u64 = 5;
/// Requests of the burst, and its start as a share of the run.
const BURST: u32 = 1_000;
const BURST_AFTER: f64 = 0.2;
const SLOTS: u32 = 1_024;
/// One request in this number carries stage times.
const SAMPLE_EVERY: u32 = 4;

struct Pool {
    name: String,
    /// Fixed time in ns, and time of each byte in ns.
    models: Vec<(f64, f64)>,
    parts: Vec<(f64, u32)>,
}

impl Pool {
    /// The pool scaled to the common speed. `None`: the linear program has no solution.
    fn new(name: &str, of: &Simulated) -> Option<Self> {
        let models = of.cards.iter().map(|card| (card.fixed, card.per_byte)).collect();
        let mut pool = Self { name: name.to_owned(), models, parts: of.sizes.clone() };
        let slower = pool.per_s()? / PER_S;
        for (fixed, per_byte) in &mut pool.models {
            (*fixed, *per_byte) = (*fixed * slower, *per_byte * slower);
        }
        Some(pool)
    }

    /// The highest rate in requests a second by the linear program. `None`: it has no solution.
    fn per_s(&self) -> Option<f64> {
        let mix: Vec<f64> = self.parts.iter().map(|(part, _)| *part).collect();
        let time = |kind: usize, device: usize| {
            let (fixed, per_byte) = self.models[device];
            Some(fixed + per_byte * input_len(self.parts[kind].1) as f64)
        };
        let per_ns = Program::new(self.models.len(), mix.len()).solve(self.models.len(), &mix, time)?;
        Some(per_ns * 1e9)
    }

    fn devices(&self, depth: u32) -> Vec<DeviceConfig> {
        let device = |(i, (fixed, per_byte)): (usize, &(f64, f64))| {
            let name = format!("device-{i}");
            DeviceConfig { depth: Some(depth), ..DeviceConfig::emulated(&name, fixed.round() as u64, *per_byte) }
        };
        self.models.iter().enumerate().map(device).collect()
    }

    fn in_words(&self, depth: u32) -> String {
        let part = |(part, size): &(f64, u32)| format!("{:.0} % {size} B", part * 100.0);
        format!("{}, depth {depth}: {}", self.name, self.parts.iter().map(part).collect::<Vec<_>>().join(", "))
    }

    fn case(&self, load: f64, depth: u32, seed: u64, ns: u64) -> Case<'_, Testbed> {
        let name = self.in_words(depth);
        let per_s = load * PER_S;
        // The offered rate includes the burst.
        let offered = per_s + f64::from(BURST) * 1e9 / ns as f64;
        let possible = offered.min(per_s * BURST_AFTER + PER_S * (1.0 - BURST_AFTER));
        let case = Case::new("balance").with(column::OP, OP).with(column::CLIENTS, 1).with(column::LOAD, load);
        POLICIES.into_iter().fold(case.with(column::SEED, seed), |case, policy| {
            let run = move |testbed: &mut Testbed, turn: &Turn<'_>| {
                testbed.set(&format!("balance={policy}"))?;
                let mix = Mix { parts: self.parts.clone(), per_s, burst: BURST };
                let seed = seed.wrapping_add(turn.repeat as u64);
                let task = |start| Task::Mixed { op: OP.to_owned(), mix: mix.clone(), seed, start, ns };
                Ok(Run::of(testbed.together(1, task)?).begun(offered))
            };
            let variant = Variant::new(&name, run).with(column::BALANCE, policy);
            case.variant(variant.against(By::Bound(possible), "linear program"))
        })
    }
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let (repeats, ns) = settings.pick((1, 2_000_000_000), (3, 2_000_000_000));
    let loads = settings.pick(&QUICK_LOADS[..], &LOADS);
    let mut outcome = Outcome::default();
    for pool in pools(settings.pick(0, POOLS)).take_while(|_| !progress.is_stopped()) {
        for depth in settings.pick(&QUICK_DEPTHS[..], &DEPTHS) {
            let devices = pool.devices(*depth);
            let count = devices.len();
            let plan = Plan::inline(1);
            let notify = NotifyConfig::all(Notify::Spin);
            let plan = Plan { notify, devices, slots: SLOTS, sample_every: SAMPLE_EVERY, ..plan };
            let mut testbed = Testbed::start(&plan)?;
            let cases = loads.iter().map(|load| {
                let case = pool.case(*load, *depth, settings.seed, ns).pinned(&testbed.pinning, 1);
                case.with(column::DEVICES, format!("{count} emulated, depth {depth}"))
            });
            let cases = cases.collect();
            outcome.add(measure_all(&mut testbed, cases, repeats, progress)?);
        }
    }
    Ok(outcome.noted(format!(
        "balance --mix: the load is a part of the {PER_S:.0} requests a second that the linear program allows these devices; \
         after a fifth of each run {BURST} come at once besides. The ratio is what was done of what these devices can do of all that: \
         a policy that loses nothing has 0.99 and more. Latency counts from the time at which a request was to be submitted."
    )))
}

fn pools(random: u64) -> impl Iterator<Item = Pool> {
    let first = Pool::new("regression", &regression_pool(LOADS[0]));
    let others = (0..random).filter_map(|seed| Pool::new(&format!("pool {seed}"), &random_pool(seed, LOADS[0])));
    first.into_iter().chain(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_brought_to_one_speed() {
        let pools: Vec<Pool> = pools(POOLS).collect();
        assert_eq!(pools.len() as u64, 1 + POOLS);
        for pool in &pools {
            assert!((pool.per_s().unwrap() / PER_S - 1.0).abs() < 1e-9, "{}", pool.name);
            assert!(pool.devices(8).iter().all(|device| device.depth() == 8 && device.fixed_ns > 0));
        }
        assert_eq!(pools[0].in_words(8), "regression, depth 8: 95 % 256 B, 5 % 16384 B");
    }
}
