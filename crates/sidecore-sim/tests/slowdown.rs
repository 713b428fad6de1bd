//! Balance policies in random pools whose best device becomes four times slower.

use sidecore_core::policy::balance::{Balance, Program};
use sidecore_sim::engine::Random;
use sidecore_sim::plan::Plan;
use std::fmt::Write;
use std::path::Path;
use std::thread;

const POOLS: u64 = 20;
const SLOWER: f64 = 4.0;
const LOAD: f64 = 0.85;
const COUNT: u32 = 200_000;

/// Devices that are alike: their number, and their time for each operation, us.
struct Kind {
    count: u32,
    times: Vec<f64>,
    is_exponential: bool,
}

struct Pool {
    kinds: Vec<Kind>,
    /// Parts of the operations.
    mix: Vec<f64>,
    /// Number of the kind with the best device.
    best: usize,
}

/// 2 to 8 devices of 1 to 4 kinds and 1 to 3 operations of 0.3 to 5 us. Work is exponential in a third of the pools and
/// constant in another; in the rest each kind has its own.
fn random_pool(seed: u64) -> Pool {
    let mut random = Random::new(seed);
    let devices = 2 + random.below(7) as u32;
    let kinds = (1 + random.below(4) as u32).min(devices);
    let operations = 1 + random.below(3);
    let kinds: Vec<Kind> = (0..kinds)
        .map(|number| Kind {
            count: devices / kinds + u32::from(number < devices % kinds),
            times: (0..operations).map(|_| 0.3 * (5.0_f64 / 0.3).powf(random.uniform())).collect(),
            is_exponential: [true, false, random.below(2) == 0][(seed % 3) as usize],
        })
        .collect();
    let shares: Vec<f64> = (0..operations).map(|_| random.exponential(1.0) + 0.1).collect();
    let sum: f64 = shares.iter().sum();
    let mix: Vec<f64> = shares.iter().map(|share| share / sum).collect();
    let mean = |kind: &Kind| kind.times.iter().zip(&mix).map(|(time, part)| time * part).sum::<f64>();
    let best = (0..kinds.len()).min_by(|a, b| mean(&kinds[*a]).total_cmp(&mean(&kinds[*b]))).unwrap();
    Pool { kinds, mix, best }
}

impl Pool {
    /// Most requests per us, with the best device this much slower.
    fn capacity(&self, slower: f64) -> f64 {
        let of = |(number, kind): (usize, &Kind)| {
            let factor = move |of: u32| if number == self.best && of == 0 { slower } else { 1.0 };
            let times = kind.times.clone();
            (0..kind.count).map(move |of| times.iter().map(|time| time * factor(of)).collect())
        };
        let devices: Vec<Vec<f64>> = self.kinds.iter().enumerate().flat_map(of).collect();
        let mut program = Program::new(devices.len(), self.mix.len());
        program.solve(devices.len(), &self.mix, |kind, device| Some(devices[device][kind])).unwrap()
    }

    /// The plan for this number of requests a us. The best device is slow from `slow.0` to `slow.1`, and requests count that arrive
    /// from `from` on, ms.
    fn plan(&self, rate: f64, slow: (f64, f64), from: f64) -> Plan {
        let mut text = format!(
            "system = \"pool\"\ntitle = \"A pool\"\n\
             [requests]\nrate_per_s = {}\ncount = {COUNT}\nmeasure_from_ms = {from}\n",
            rate * 1e6
        );
        for (number, part) in self.mix.iter().enumerate() {
            writeln!(text, "[work.op{number}]\nshare = {part}").unwrap();
        }
        for (number, kind) in self.kinds.iter().enumerate() {
            let work = if kind.is_exponential { "exponential" } else { "constant" };
            writeln!(text, "[device.kind{number}]\ncount = {}\nwork = \"{work}\"", kind.count).unwrap();
            if number == self.best && slow.0 > 0.0 {
                let (from, until) = slow;
                writeln!(text, "slow_from_ms = {from}\nslow_until_ms = {until}\nslow_factor = {SLOWER}").unwrap();
            }
            for (operation, time) in kind.times.iter().enumerate() {
                writeln!(text, "op{operation} = {{ us = {time} }}").unwrap();
            }
        }
        text +=
            "[table]\ncell = \"p99_us\"\nrows = { \"requests.clients\" = [0] }\ncolumns = { \"host.cores\" = [1] }\n";
        Plan::parse(Path::new("pool.toml"), &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

/// Mean and 99th percentile, us.
fn judged(plan: &Plan, balance: Balance, seed: u64) -> (f64, f64) {
    let mut plan = plan.clone();
    plan.set_all(&[format!("host.balance={balance}")]).unwrap();
    let outcome = plan.system.run(&plan.settings, seed);
    let value = |name| outcome.values[plan.system.metrics.iter().position(|metric| metric.name == name).unwrap()];
    (value("mean_us"), value("p99_us"))
}

/// In each pool, in the order of seeds.
fn of_pools<T: Send>(find: impl Fn(u64, &Pool) -> T + Sync) -> Vec<T> {
    const PARTS: u64 = 2;
    thread::scope(|scope| {
        let find = &find;
        let part = |part| (part..POOLS).step_by(PARTS as usize).map(|seed| (seed, find(seed, &random_pool(seed))));
        let parts: Vec<_> = (0..PARTS).map(|number| scope.spawn(move || part(number).collect::<Vec<_>>())).collect();
        let mut all: Vec<_> = parts.into_iter().flat_map(|part| part.join().unwrap()).collect();
        all.sort_by_key(|(seed, _)| *seed);
        all.into_iter().map(|(_, found)| found).collect()
    })
}

#[test]
fn a_device_that_slows_down_harms_priced_no_more_than_eft() {
    let found = of_pools(|seed, pool| {
        let rate = LOAD * pool.capacity(SLOWER);
        let half = f64::from(COUNT) / 2.0 / rate / 1e3;
        let plan = pool.plan(rate, (half, 0.0), half);
        [Balance::Priced, Balance::Eft].map(|balance| judged(&plan, balance, seed).1)
    });
    for (seed, [priced, eft]) in found.iter().enumerate() {
        println!("pool {seed}: {priced:.2} {eft:.2} us, {:.2}", priced / eft);
    }
    let worse = found.iter().filter(|[priced, eft]| *priced > 1.2 * eft).count();
    assert_eq!(worse, 0);
}

#[test]
fn steady() {
    let found = of_pools(|seed, pool| {
        let rate = LOAD * pool.capacity(1.0);
        let plan = pool.plan(rate, (0.0, 0.0), 0.0);
        [Balance::Priced, Balance::Eft].map(|balance| judged(&plan, balance, seed))
    });
    for (seed, [priced, eft]) in found.iter().enumerate() {
        println!("steady {seed}: {:.3} {:.3} {:.3} {:.3}", priced.0, priced.1, eft.0, eft.1);
    }
}

#[test]
fn a_device_that_recovers_is_used_again() {
    for (from, until) in [(0.25, 0.5), (0.45, 0.5)] {
        let found = of_pools(|seed, pool| {
            let rate = LOAD * pool.capacity(SLOWER);
            let all = f64::from(COUNT) / rate / 1e3;
            // 1,000 requests after it became quick again.
            let measure = 0.5 * all + 1.0 / rate;
            let recovered = pool.plan(rate, (from * all, until * all), measure);
            let never = pool.plan(rate, (0.0, 0.0), measure);
            [(&recovered, Balance::Priced), (&never, Balance::Priced), (&recovered, Balance::Eft)]
                .map(|(plan, balance)| judged(plan, balance, seed).1)
        });
        for (seed, [recovered, never, eft]) in found.iter().enumerate() {
            println!("recovery {seed}: {recovered:.2} {never:.2} {eft:.2} us, {:.2}", recovered / never);
        }
    }
}

#[test]
fn full_load_recovery() {
    let found = of_pools(|seed, pool| {
        let rate = LOAD * pool.capacity(1.0);
        let all = f64::from(COUNT) / rate / 1e3;
        let measure = 0.5 * all;
        let recovered = pool.plan(rate, (0.23 * all, 0.25 * all), measure);
        let never = pool.plan(rate, (0.0, 0.0), measure);
        [(&recovered, Balance::Priced), (&never, Balance::Priced), (&recovered, Balance::Eft)]
            .map(|(plan, balance)| judged(plan, balance, seed).1)
    });
    for (seed, [recovered, never, eft]) in found.iter().enumerate() {
        println!("full recovery {seed}: {recovered:.2} {never:.2} {eft:.2} us, {:.2}", recovered / never);
    }
}
