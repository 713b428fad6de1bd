//! Balance policies on emulated devices of unequal speed, against the sum of what the devices' model allows.

use super::crew::{BenchError, Crew, Plan};
use super::series::{median, ratio, spread, with_stages};
use super::task::{Measured, Task};
use super::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::Row;
use sidecore::config::{DeviceConfig, NotifyConfig};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;

const OP: &str = "aes-256-gcm";
const POLICIES: [&str; 5] = ["round-robin", "sed", "eft", "tokens", "priced"];
const SIZES: [u32; 2] = [256, 16_384];
/// In flight: as many as one device holds, so that no device is ever full and each choice is the policy's.
const DEPTH: u32 = 64;

/// Devices by what one request costs on them.
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
}

fn pools(settings: &Settings) -> &'static [Pool] {
    if settings.quick { &POOLS[..1] } else { &POOLS }
}

fn repeats(settings: &Settings) -> usize {
    if settings.quick { 2 } else { 5 }
}

fn duration(settings: &Settings) -> u64 {
    if settings.quick { 150_000_000 } else { 500_000_000 }
}

pub(super) fn steps(settings: &Settings) -> usize {
    pools(settings).len() * SIZES.len() * POLICIES.len()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    for pool in pools(settings) {
        let notify = NotifyConfig::all(Notify::Spin);
        let mut crew = Crew::start(&Plan { notify, devices: pool.devices(), slots: DEPTH, ..Plan::inline(1) })?;
        for (size, policy) in SIZES.iter().flat_map(|size| POLICIES.map(|policy| (*size, policy))) {
            progress.begin(&format!("{policy}, {size} B, {}", pool.name));
            outcome.rows.push(one_case(&mut crew, pool, policy, size, settings)?);
            progress.advance();
        }
    }
    outcome.notes.push(
        "balance: the sum of rates is computed from the devices' models; 64 requests are in flight, as many as one \
         device holds, so that the choice is the policy's."
            .to_owned(),
    );
    Ok(outcome)
}

fn one_case(crew: &mut Crew, pool: &Pool, policy: &str, size: u32, settings: &Settings) -> Result<Row, BenchError> {
    crew.set(&format!("balance={policy}"))?;
    let mut measured = Vec::new();
    for _ in 0..repeats(settings) {
        let ns = duration(settings);
        let closed = |_, start| Task::Closed { op: OP.to_owned(), size, depth: DEPTH, start, ns };
        measured.extend(crew.together(1, closed)?);
    }
    let rates: Vec<f64> = measured.iter().map(Measured::per_s).collect();
    let sum = pool.sum_of_rates(input_len(size));
    let row = Row {
        op: Some(OP.to_owned()),
        balance: Some(policy.to_owned()),
        devices: Some(pool.name.to_owned()),
        clients: Some(1),
        size: Some(u64::from(size)),
        ops_per_s: Some(median(&rates)),
        ratio: ratio(&rates, &vec![sum; rates.len()]),
        baseline: Some("sum of rates".to_owned()),
        pinned: Some(crew.pinning.describe(1)),
        repeats: Some(rates.len() as u32),
        spread: Some(spread(&rates)),
        ..Row::new("balance", format!("{size} B on {} devices", pool.models.len()))
    };
    Ok(with_stages(row, &measured))
}

/// Bytes that a device counts: the payload with what goes before it.
fn input_len(size: u32) -> usize {
    Class::from_name(OP).map_or(size as usize, |class| sample(class, size as usize, 1).input.len())
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
