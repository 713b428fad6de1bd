//! Pools against queues whose response times are known, at loads of 0.5, 0.8 and 0.9: means within 1 %, 99th percentiles
//! within 3 %.
//!
//! Response times in a long queue are strongly correlated, so 1 % needs millions of requests. The means of arrival rate
//! and of use are known too. So estimates are corrected by linear regression of the runs' figures on both (control
//! variates; Law and Kelton, "Simulation Modeling and Analysis", chapter 11). The standard error of each estimate is at
//! most two fifths of its bound.

use nalgebra::{DMatrix, DVector};
use sidecore_sim::plan::Plan;
use std::path::Path;

const TABLE: &str =
    "[table]\ncell = \"p99_us\"\nrows = { \"requests.clients\" = [0] }\ncolumns = { \"host.cores\" = [1] }\n";
const LOADS: [f64; 3] = [0.5, 0.8, 0.9];
/// Runs of each queue.
const RUNS: u64 = 24;
/// Requests of a run at each load, of the queue M/M/1. Others need a part of it, or more.
const REQUESTS: [f64; 3] = [60_000.0, 260_000.0, 1_200_000.0];
/// Time of a request, us.
const SERVICE: f64 = 10.0;
const MEAN_WITHIN: f64 = 0.01;
const TAIL_WITHIN: f64 = 0.03;

/// Known figures of a queue.
struct Known {
    /// Arrivals, 1/s.
    rate: f64,
    /// Part of the engines' time that is used.
    used: f64,
    /// Response time, us.
    mean: f64,
    p99: Option<f64>,
}

/// Runs the plan and compares. `sections`: work and devices.
fn agrees(name: &str, sections: &str, requests: u32, known: &Known) {
    let Known { rate, used, mean, p99 } = *known;
    let text = format!(
        "system = \"pool\"\ntitle = \"A queue\"\n[requests]\nrate_per_s = {rate}\ncount = {requests}\n{sections}\n{TABLE}"
    );
    let plan = Plan::parse(Path::new("pool.toml"), &text).unwrap();
    let runs: Vec<Vec<f64>> = (1..=RUNS).map(|seed| plan.system.run(&plan.settings, seed).values).collect();
    let of = |name: &str| {
        let number = plan.system.metrics.iter().position(|metric| metric.name == name).unwrap();
        runs.iter().map(|values| values[number]).collect::<Vec<f64>>()
    };
    let controls = [("rate_per_s", rate), ("device_use", used)]
        .map(|(name, expected)| of(name).iter().map(|value| value / expected - 1.0).collect::<Vec<f64>>());
    let compared = [("mean_us", Some(mean), MEAN_WITHIN), ("p99_us", p99, TAIL_WITHIN)];
    for (metric, expected, bound) in compared {
        let Some(expected) = expected else { continue };
        let (found, error) = corrected(&of(metric), &controls);
        let (off, error) = (found / expected - 1.0, error / expected);
        println!(
            "{name} {metric}: {found:.3} for {expected:.3}, off by {:.2} %, standard error {:.2} %",
            off * 100.0,
            error * 100.0
        );
        assert!(error <= 0.4 * bound, "{name} {metric}: the standard error is {error}");
        assert!(off.abs() <= bound, "{name} {metric}: {found} for {expected}");
    }
}

/// The mean at 0 of the controls, whose means are known to be 0, and its standard error: least squares.
fn corrected(values: &[f64], controls: &[Vec<f64>; 2]) -> (f64, f64) {
    let rows = values.len();
    let design = DMatrix::from_fn(rows, 3, |row, column| if column == 0 { 1.0 } else { controls[column - 1][row] });
    let values = DVector::from_column_slice(values);
    let inverse = (design.transpose() * &design).try_inverse().unwrap();
    let found = &inverse * design.transpose() * &values;
    let rest = (&values - &design * &found).norm_squared() / (rows - 3) as f64;
    (found[0], (rest * inverse[(0, 0)]).sqrt())
}

fn device(servers: u32, rest: &str) -> String {
    format!("[device.d]\nengines = {servers}\nring = 16384\n{rest}\n")
}

/// The value at that a falling function reaches 0.01.
fn p99(beyond: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > 0.01 { low = middle } else { high = middle }
    }
    low
}

/// Probability of waiting with Poisson arrivals and exponential service. Source: Erlang's C formula.
fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    let inverse = (1..=servers).fold(1.0, |inverse, n| 1.0 + inverse * f64::from(n) / offered);
    let blocked = 1.0 / inverse;
    blocked / (1.0 - load * (1.0 - blocked))
}

/// Exponential service; one who waits does so for an exponential time.
fn exponential(servers: u32, load: f64) -> Known {
    let (waits, serve) = (erlang_c(servers, load), 1.0 / SERVICE);
    let spare = f64::from(servers) * (1.0 - load) * serve;
    let beyond = |time: f64| {
        let both = (spare * (-serve * time).exp() - serve * (-spare * time).exp()) / (spare - serve);
        (1.0 - waits) * (-serve * time).exp() + waits * both
    };
    let rate = f64::from(servers) * load * serve * 1e6;
    Known { rate, used: load, mean: SERVICE + waits / spare, p99: Some(p99(beyond)) }
}

/// Constant service. Probabilities of numbers in the system: Crommelin's chain over one time of service (1932).
/// Distribution of the waiting time: Franx's formula, "A simple solution for the M/D/c waiting time distribution" (2001).
fn constant(servers: u32, load: f64) -> Known {
    let (c, offered) = (servers as usize, f64::from(servers) * load);
    let within = in_system(c, offered);
    let mean = within.iter().enumerate().map(|(number, part)| number as f64 * part).sum::<f64>() / offered;
    // Probabilities that at most that number wait.
    let mut sum: f64 = within[..c].iter().sum();
    let queued: Vec<f64> = within[c..]
        .iter()
        .map(|part| {
            sum += part;
            sum
        })
        .collect();
    let beyond = |wait: f64| {
        let periods = wait.floor() + 1.0;
        let left = offered * (periods - wait);
        let mut term = (-left).exp();
        let last = periods as usize * c - 1;
        let terms = (0..=last).map(|number| {
            let part = term * queued[(last - number).min(queued.len() - 1)];
            term *= left / (number + 1) as f64;
            part
        });
        1.0 - terms.sum::<f64>()
    };
    let p99 = p99(|time| if time >= 1e3 { 0.0 } else { beyond(time) });
    Known { rate: offered / SERVICE * 1e6, used: load, mean: SERVICE * mean, p99: Some(SERVICE * (1.0 + p99)) }
}

/// Those in the system after a time of service are those who waited before it, and the arrivals.
fn in_system(servers: usize, offered: f64) -> Vec<f64> {
    const MOST: usize = 400;
    let arrivals: Vec<f64> = (0..MOST)
        .scan((-offered).exp(), |term, number| {
            let now = *term;
            *term *= offered / (number + 1) as f64;
            Some(now)
        })
        .take_while(|part| *part > 1e-18)
        .collect();
    let mut now = vec![0.0; MOST];
    now[0] = 1.0;
    for _ in 0..20_000 {
        let mut next = vec![0.0; MOST];
        for (number, part) in now.iter().enumerate() {
            let left = number.saturating_sub(servers);
            next[left..].iter_mut().zip(&arrivals).for_each(|(sum, arrive)| *sum += part * arrive);
        }
        let total: f64 = next.iter().sum();
        for part in &mut next {
            *part /= total;
        }
        let moved: f64 = next.iter().zip(&now).map(|(a, b)| (a - b).abs()).sum();
        now = next;
        if moved < 1e-13 {
            break;
        }
    }
    now
}

fn loads(part: f64) -> impl Iterator<Item = (f64, u32)> {
    LOADS.into_iter().zip(REQUESTS.map(|requests| (requests * part) as u32))
}

fn exponential_servers(servers: u32, part: f64) {
    let sections = format!("[work.op]\n{}", device(servers, "work = \"exponential\"\nop = { us = 10 }"));
    for (load, requests) in loads(part) {
        agrees(&format!("M/M/{servers} {load}"), &sections, requests, &exponential(servers, load));
    }
}

fn constant_servers(servers: u32, part: f64) {
    let sections = format!("[work.op]\n{}", device(servers, "op = { us = 10 }"));
    for (load, requests) in loads(part) {
        agrees(&format!("M/D/{servers} {load}"), &sections, requests, &constant(servers, load));
    }
}

#[test]
fn formulas_agree_with_each_other() {
    for load in LOADS {
        let one = exponential(1, load);
        let tail = SERVICE / (1.0 - load) * 100f64.ln();
        assert!((one.mean * (1.0 - load) / SERVICE - 1.0).abs() < 1e-9);
        assert!((one.p99.unwrap() / tail - 1.0).abs() < 1e-9);
        // Pollaczek and Khinchine.
        let constant = constant(1, load);
        let mean = SERVICE * (1.0 + load / (2.0 * (1.0 - load)));
        assert!((constant.mean / mean - 1.0).abs() < 1e-6, "{} {mean}", constant.mean);
    }
}

#[test]
fn one_exponential_server() {
    exponential_servers(1, 1.0);
}

#[test]
fn four_exponential_servers() {
    exponential_servers(4, 0.5);
}

#[test]
fn eight_exponential_servers() {
    exponential_servers(8, 0.4);
}

#[test]
fn one_constant_server() {
    constant_servers(1, 0.4);
}

#[test]
fn four_constant_servers() {
    constant_servers(4, 0.3);
}

#[test]
fn two_operations_at_one_server() {
    // Times of 5 us (nine of ten) and 55 us: Pollaczek and Khinchine.
    let sections = format!(
        "[work.short]\nshare = 9\n[work.long]\nshare = 1\n{}",
        device(1, "short = { us = 5 }\nlong = { us = 55 }")
    );
    let (first, second) = (0.9 * 5.0 + 0.1 * 55.0, 0.9 * 25.0 + 0.1 * 3025.0);
    for (load, requests) in loads(1.4) {
        let mean = first + load / first * second / (2.0 * (1.0 - load));
        let known = Known { rate: load / first * 1e6, used: load, mean, p99: None };
        agrees(&format!("M/G/1 {load}"), &sections, requests, &known);
    }
}

#[test]
fn batches_are_bulk_service() {
    // M/M/1 in batches: with p(n) = a r^n waiting behind a batch in work, (l + m) r = l + m r^(most + 1).
    for (most, load, requests) in [(64, 0.625, 800_000), (8, 0.5, 100_000), (8, 0.8, 520_000), (2, 0.9, 1_400_000)] {
        let (serve, arrive) = (1.0 / 2000.0, load * f64::from(most) / 2000.0);
        let step = |r: f64| (arrive + serve * r.powi(most + 1)) / (arrive + serve);
        let r = (0..100_000).fold(0.5, |r, _| step(r));
        let a = 1.0 / (serve / arrive + 1.0 / (1.0 - r));
        let mean = a * r / (1.0 - r).powi(2) / arrive + 2000.0;
        let known = Known { rate: arrive * 1e6, used: 1.0 - a * serve / arrive, mean, p99: None };
        let batch = format!("batch_max = {most}\nlaunch_us = 2000\nwork = \"exponential\"\n");
        let sections = format!("[work.op]\n{}", device(1, &(batch + "op = { us_by_bytes = \"0:0.000001\" }")));
        agrees(&format!("M/M[{most}]/1 {load}"), &sections, requests, &known);
    }
}
