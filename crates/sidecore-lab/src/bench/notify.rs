//! Notify policies under load: what each costs in latency and in CPU time.

use super::crew::{BenchError, Crew, Plan};
use super::series::{median, spread, total_per_s, with_stages};
use super::task::{Measured, Task};
use super::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::{CpuPerOp, Row};
use sidecore::counters::{LaneCounter, SidecoreCounter, Snapshot};

const OP: &str = "aes-256-gcm";
const SIZE: u32 = 1024;
/// The first one is the baseline.
const POLICIES: [&str; 7] = ["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even", "learn", "predict"];
const LOADS: [f64; 6] = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9];
const QUICK_LOADS: [f64; 3] = [0.05, 0.5, 0.8];
/// Clients with one request in flight each.
const CLIENTS: [usize; 3] = [1, 4, 32];
const QUICK_CLIENTS: [usize; 2] = [1, 8];
/// In flight when the capacity is measured.
const DEPTH: u32 = 32;
/// One request in so many carries stage times.
const SAMPLE_EVERY: u32 = 4;
/// A load counts as kept up from this share of it on.
const KEPT_UP: f64 = 0.95;

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrival {
    /// At random times, at this share of the capacity.
    Open(f64),
    /// So many clients with one request in flight each.
    Closed(usize),
}

/// What the repeats of one case yielded.
#[derive(Default)]
struct Found {
    rates: Vec<f64>,
    measured: Vec<Measured>,
    service_cpu: u64,
    empty_polls: u64,
    wakeups_sent: u64,
    wakeups_saved: u64,
}

fn loads(settings: &Settings) -> Vec<Arrival> {
    let loads: &[f64] = if settings.quick { &QUICK_LOADS } else { &LOADS };
    loads.iter().map(|load| Arrival::Open(*load)).collect()
}

fn crowds(settings: &Settings) -> Vec<Arrival> {
    let crowds: &[usize] = if settings.quick { &QUICK_CLIENTS } else { &CLIENTS };
    crowds.iter().map(|clients| Arrival::Closed(*clients)).collect()
}

fn repeats(settings: &Settings) -> usize {
    if settings.quick { 2 } else { 3 }
}

fn duration(settings: &Settings) -> u64 {
    if settings.quick { 100_000_000 } else { 400_000_000 }
}

pub(super) fn steps(settings: &Settings) -> usize {
    (loads(settings).len() + crowds(settings).len()) * POLICIES.len()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    let crowds = crowds(settings);
    let most = crowds.iter().map(|crowd| crowd.clients()).max().unwrap_or(1);
    for (arrivals, clients) in [(loads(settings), 1), (crowds, most)] {
        let mut crew = Crew::start(&Plan { sample_every: SAMPLE_EVERY, ..Plan::inline(clients) })?;
        let capacity = capacity(&mut crew, duration(settings))?;
        if clients == 1 {
            outcome
                .notes
                .push(format!("notify: load is relative to {capacity:.0} operations a second: 32 in flight, spin."));
        }
        for arrival in arrivals {
            let part = one_arrival(&mut crew, arrival, capacity, settings, progress)?;
            outcome.rows.extend(part.rows);
            outcome.notes.extend(part.notes);
        }
    }
    outcome.notes.push(
        "notify: the ratio is the median latency against that of spin at the same load. Latency counts from the time \
         at which a request was to be submitted. CPU time of clients is without waiting for the next arrival. Empty \
         polls and wake-ups are those of both sides, per case."
            .to_owned(),
    );
    Ok(outcome)
}

/// Operations a second that one client reaches with many in flight.
fn capacity(crew: &mut Crew, ns: u64) -> Result<f64, BenchError> {
    crew.set("notify=spin")?;
    let closed = |_, start| Task::Closed { op: OP.to_owned(), size: SIZE, depth: DEPTH, start, ns };
    Ok(total_per_s(&crew.together(1, closed)?))
}

/// All policies in turn under the same load.
fn one_arrival(
    crew: &mut Crew,
    arrival: Arrival,
    capacity: f64,
    settings: &Settings,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    let mut found: Vec<Found> = POLICIES.iter().map(|_| Found::default()).collect();
    for repeat in 0..repeats(settings) as u64 {
        for (policy, found) in POLICIES.iter().zip(&mut found) {
            progress.begin(&format!("{policy}, {arrival:?}"));
            crew.set(&format!("notify={policy}"))?;
            let seed = settings.seed.wrapping_add(repeat);
            one_run(crew, found, arrival.clients(), |_, start| {
                arrival.task(capacity, seed, start, duration(settings))
            })?;
            if repeat == 0 {
                progress.advance();
            }
        }
    }
    let mut outcome = Outcome::default();
    let mut spin = None;
    for (policy, found) in POLICIES.iter().zip(&found) {
        let mut row = row(crew, arrival, policy, found, settings);
        let p50 = row.total_us.map(|times| times.p50);
        spin = spin.or(p50);
        row.ratio = p50.zip(spin).map(|(own, spin)| own / spin);
        outcome.notes.extend(fell_behind(&row, capacity));
        outcome.rows.push(row);
    }
    Ok(outcome)
}

fn one_run(
    crew: &mut Crew,
    found: &mut Found,
    clients: usize,
    task: impl Fn(usize, u64) -> Task,
) -> Result<(), BenchError> {
    let before = crew.counters()?;
    let measured = crew.together(clients, task)?;
    found.add(&crew.counters()?.since(&before));
    found.rates.push(total_per_s(&measured));
    found.measured.extend(measured);
    Ok(())
}

/// A note if the load was more than the policy could do.
fn fell_behind(row: &Row, capacity: f64) -> Option<String> {
    let (load, rate) = (row.load?, row.ops_per_s?);
    let share = rate / (load * capacity);
    let policy = row.notify.as_deref()?;
    (share < KEPT_UP).then(|| {
        format!(
            "notify: {policy} at load {load} did {:.0} % of the offered requests; its latency grows with the time.",
            share * 100.0
        )
    })
}

fn row(crew: &Crew, arrival: Arrival, policy: &str, found: &Found, settings: &Settings) -> Row {
    let (variant, load, seed) = match arrival {
        Arrival::Open(load) => ("open", Some(load), Some(settings.seed)),
        Arrival::Closed(_) => ("closed", None, None),
    };
    let row = Row {
        op: Some(OP.to_owned()),
        size: Some(u64::from(SIZE)),
        notify: Some(policy.to_owned()),
        clients: Some(arrival.clients() as u32),
        load,
        seed,
        ops_per_s: Some(median(&found.rates)),
        cpu_us_per_op: Some(found.cpu()),
        empty_polls: Some(found.empty_polls + found.measured.iter().map(|m| m.empty_polls).sum::<u64>()),
        wakeups_sent: Some(found.wakeups_sent),
        wakeups_saved: Some(found.wakeups_saved),
        baseline: Some(POLICIES[0].to_owned()),
        pinned: Some(crew.pinning.describe(arrival.clients())),
        repeats: Some(found.rates.len() as u32),
        spread: Some(spread(&found.rates)),
        ..Row::new("notify", variant)
    };
    with_stages(row, &found.measured)
}

impl Arrival {
    fn clients(self) -> usize {
        match self {
            Self::Open(_) => 1,
            Self::Closed(clients) => clients,
        }
    }

    fn task(self, capacity: f64, seed: u64, start: u64, ns: u64) -> Task {
        let (op, size) = (OP.to_owned(), SIZE);
        match self {
            Self::Open(load) => Task::Open { op, size, per_s: load * capacity, seed, start, ns },
            Self::Closed(_) => Task::Closed { op, size, depth: 1, start, ns },
        }
    }
}

impl Found {
    /// What the service counted during one run.
    fn add(&mut self, counted: &Snapshot) {
        let sidecore = |counter| counted.sidecores.iter().map(|one| one.get(counter)).sum::<u64>();
        let lane = |counter| counted.lanes.iter().map(|one| one.get(counter)).sum::<u64>();
        self.service_cpu += sidecore(SidecoreCounter::CpuNs);
        self.empty_polls += sidecore(SidecoreCounter::EmptyPolls);
        self.wakeups_sent += lane(LaneCounter::WakeupsSent) + sidecore(SidecoreCounter::WakeupsReceived);
        self.wakeups_saved += lane(LaneCounter::WakeupsSaved);
    }

    fn cpu(&self) -> CpuPerOp {
        let ops: u64 = self.measured.iter().map(|m| m.ops).sum();
        let clients: u64 = self.measured.iter().map(|m| m.cpu_ns).sum();
        let us_per_op = |ns: u64| ns as f64 / 1000.0 / ops.max(1) as f64;
        CpuPerOp { client: us_per_op(clients), service: us_per_op(self.service_cpu) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_not_kept_up_is_noted() {
        let row = |ops| Row {
            notify: Some("park".to_owned()),
            load: Some(0.5),
            ops_per_s: Some(ops),
            ..Row::new("notify", "open")
        };
        assert_eq!(fell_behind(&row(499.0), 1000.0), None);
        assert!(fell_behind(&row(250.0), 1000.0).unwrap().contains("did 50 %"));
    }
}
