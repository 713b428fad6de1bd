//! Balance policies on emulated devices of unequal speed, against the sum of rates by the devices' model.

mod mix;

use super::error::BenchError;
use super::experiment::{By, Case, Turn, Variant, measure_all};
use super::scenario::{DEVICES, Scenario, Settings};
use super::testbed::{Plan, Testbed};
use crate::report::figures::{LARGE, Series, along, panels, ratio_title};
use crate::report::{Group, Outcome, Row, column, most, section};
use sidecore::config::{DeviceConfig, NotifyConfig};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;
use sidecore_measure::progress::Progress;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "balance",
    "Balance policies on devices of unequal speed",
    measure,
    &[section(
        "balance",
        "Balance: which device gets the next request",
        "The highest stable load divided by what the devices could carry at best: 1.00 x loses nothing.",
    )
    .plots(|rows| vec![by_policy(rows)])
    .headline(|_, rows| most(rows, column::RATIO, "of the highest load the devices could carry"))],
)
.by_default()
.alone(DEVICES);

const OP: &str = "aes-256-gcm";
const POLICIES: [&str; 5] = ["round-robin", "sed", "eft", "tokens", "priced"];
const SIZES: [u32; 2] = [256, 16_384];
/// Requests in flight. One device holds that number, so no device is ever full and the policy makes each choice.
const DEPTH: u32 = 64;

struct Pool {
    name: &'static str,
    /// Fixed time in ns, and time of each byte in ns.
    models: &'static [(u64, f64)],
}

const POOLS: [Pool; 2] = [
    Pool {
        name: "3 emulated: 20 us + 1 ns/B, 40 us + 2 ns/B, 80 us + 4 ns/B",
        models: &[(20_000, 1.0), (40_000, 2.0), (80_000, 4.0)],
    },
    // Two of 0.35 us + 0.589 ns/B and two of 1.25 us + 0.595 ns/B, 20 times as slow: one core computes for all four.
    Pool {
        name: "4 emulated: 2 of 7 us + 11.8 ns/B, 2 of 25 us + 11.9 ns/B",
        models: &[(7_000, 11.78), (7_000, 11.78), (25_000, 11.9), (25_000, 11.9)],
    },
];

impl Pool {
    fn devices(&self) -> Vec<DeviceConfig> {
        let device = |(i, (fixed, per_byte)): (usize, &(u64, f64))| {
            DeviceConfig::emulated(&format!("device-{i}"), *fixed, *per_byte)
        };
        self.models.iter().enumerate().map(device).collect()
    }

    /// Requests a second of all devices together, by their models.
    fn sum_of_rates(&self, input: usize) -> f64 {
        self.models.iter().map(|(fixed, per_byte)| 1e9 / (*fixed as f64 + per_byte * input as f64)).sum()
    }

    fn case(&self, size: u32, ns: u64) -> Case<'static, Testbed> {
        let case = Case::new("balance").with(column::OP, OP).with(column::DEVICES, self.name).with(column::CLIENTS, 1);
        let name = format!("{size} B on {} devices", self.models.len());
        let bound = By::Bound(self.sum_of_rates(input_len(size)));
        POLICIES.into_iter().fold(case.with(column::SIZE, size), |case, policy| {
            let run = move |testbed: &mut Testbed, _: &Turn<'_>| {
                testbed.set(&format!("balance={policy}"))?;
                testbed.closed(1, (OP, size), DEPTH, ns)
            };
            case.variant(Variant::new(&name, run).with(column::BALANCE, policy).against(bound, "sum of rates"))
        })
    }
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    if settings.mix {
        return mix::measure(settings, progress);
    }
    let (repeats, ns) = settings.pick((2, 150_000_000), (5, 500_000_000));
    let mut outcome = Outcome::default();
    for pool in settings.pick(&POOLS[..1], &POOLS) {
        if progress.is_stopped() {
            break;
        }
        let notify = NotifyConfig::all(Notify::Spin);
        let mut testbed = Testbed::start(&Plan { notify, devices: pool.devices(), slots: DEPTH, ..Plan::inline(1) })?;
        let cases = SIZES.map(|size| pool.case(size, ns).pinned(&testbed.pinning, 1));
        outcome.add(measure_all(&mut testbed, cases.into(), repeats, progress)?);
    }
    Ok(outcome.noted(
        "balance: the sum of rates is computed from the devices' models; 64 requests are in flight, as many as one \
         device holds, so that the choice is the policy's.",
    ))
}

/// Bytes that a device computes its time from: the payload and the head before it.
fn input_len(size: u32) -> usize {
    Class::from_name(OP).map_or(size as usize, |class| sample(class, size as usize, 1).input.len())
}

fn by_policy(rows: &[&Row]) -> Group {
    // If the variant differs from the policy, it is the mix of requests.
    let mixes = rows.iter().any(|row| row.text(column::BALANCE).is_some_and(|policy| policy != row.variant()));
    let apart = [column::LOAD, column::VARIANT, column::DEVICES, column::SIZE];
    let mut series = Series::of(rows, if mixes { &apart } else { &apart[..1] });
    // Without mixes all rows share one panel: none of them has this key.
    let mix = if mixes { column::VARIANT } else { column::LIMIT };
    let mut figures =
        panels(rows, mix, &ratio_title(rows), |rows| series.bar_plot(LARGE.0, rows, along::RATIO, Some(1.0)));
    figures.extend(panels(rows, mix, "Latency, 99th percentile", |rows| {
        series.line_plot(LARGE, rows, along::LOAD, along::TAIL)
    }));
    Group { legend: series.names, figures }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_rates_follows_from_the_models() {
        let sum = POOLS[0].sum_of_rates(0);
        assert!((sum - (50_000.0 + 25_000.0 + 12_500.0)).abs() < 1e-6);
        assert_eq!(POOLS[1].devices().len(), 4);
        assert_eq!(input_len(256), 256 + 12);
    }
}
