//! Notify policies under load: latency and CPU time of each.

use super::experiment::{By, Case, Counted, Run, Turn, Variant, measure_all};
use super::task::Task;
use super::testbed::{Plan, Testbed};
use super::{BenchError, Outcome, Settings};
use crate::progress::Progress;
use crate::report::{Key, Row};

const OP: &str = "aes-256-gcm";
const SIZE: u32 = 1024;
/// The first one is the baseline.
const POLICIES: [&str; 6] = ["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even", "learn"];
const LOADS: [f64; 6] = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9];
const QUICK_LOADS: [f64; 3] = [0.05, 0.5, 0.8];
/// Clients with one request in flight each.
const CLIENTS: [usize; 3] = [1, 4, 32];
const QUICK_CLIENTS: [usize; 2] = [1, 8];
const DEPTH: u32 = 32;
/// One request in this number carries stage times.
const SAMPLE_EVERY: u32 = 4;
/// Least share of a load that counts as carried.
const KEPT_UP: f64 = 0.95;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrival {
    /// Random arrivals at this share of the capacity.
    Open(f64),
    /// That number of clients with one request in flight each.
    Closed(usize),
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    measure_beside(settings, progress, &mut |_| Ok(()))
}

/// Like [`measure`], with a call before each case.
pub(super) fn measure_beside(
    settings: &Settings,
    progress: &Progress,
    before_case: &mut dyn FnMut(&Testbed) -> Result<(), BenchError>,
) -> Result<Outcome, BenchError> {
    let (loads, crowds): (&[f64], &[usize]) = settings.pick((&QUICK_LOADS, &QUICK_CLIENTS), (&LOADS, &CLIENTS));
    let loads: Vec<Arrival> = loads.iter().map(|load| Arrival::Open(*load)).collect();
    let most = crowds.iter().copied().max().unwrap_or(1);
    let crowds: Vec<Arrival> = crowds.iter().map(|clients| Arrival::Closed(*clients)).collect();
    let (repeats, ns) = settings.pick((2, 100_000_000), (3, 400_000_000));
    let mut outcome = Outcome::default();
    for (arrivals, clients) in [(loads, 1), (crowds, most)] {
        if progress.is_stopped() {
            break;
        }
        let mut testbed = Testbed::start(&Plan { sample_every: SAMPLE_EVERY, ..Plan::inline(clients) })?;
        let capacity = capacity(&mut testbed, ns)?;
        let sleeping = testbed.park()?;
        let mut part = Outcome::default();
        for arrival in arrivals.into_iter().take_while(|_| !progress.is_stopped()) {
            before_case(&testbed)?;
            let case = arrival.case(&testbed, capacity, settings.seed, ns);
            let case = case.with(Key::ParkCostNs, sleeping.cost).with(Key::WakeTimeNs, sleeping.wake);
            part.add(measure_all(&mut testbed, vec![case], repeats, progress)?);
        }
        if clients == 1 {
            outcome = outcome
                .noted(format!("notify: load is relative to {capacity:.0} operations a second: 32 in flight, spin."));
        }
        outcome.notes.extend(part.rows.iter().filter_map(|row| fell_behind(row, capacity)));
        outcome.add(part);
    }
    Ok(outcome.noted(
        "notify: the ratio is the median latency against that of spin at the same load. Latency counts from the time \
         at which a request was to be submitted. CPU time of clients is without waiting for the next arrival. Empty \
         polls and wake-ups are those of both sides, per case.",
    ))
}

/// Operations a second of one client with many requests in flight.
fn capacity(testbed: &mut Testbed, ns: u64) -> Result<f64, BenchError> {
    testbed.set("notify=spin")?;
    Ok(testbed.closed(1, (OP, SIZE), DEPTH, ns)?.rate())
}

/// A note if the load exceeded the policy's capacity.
fn fell_behind(row: &Row, capacity: f64) -> Option<String> {
    let (load, rate) = (row.number(Key::Load)?, row.number(Key::OpsPerS)?);
    let share = rate / (load * capacity);
    let policy = row.text(Key::Notify)?;
    (share < KEPT_UP).then(|| {
        format!(
            "notify: {policy} at load {load} did {:.0} % of the offered requests; its latency grows with the time.",
            share * 100.0
        )
    })
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

    fn case(self, testbed: &Testbed, capacity: f64, seed: u64, ns: u64) -> Case<'static, Testbed> {
        let (variant, load) = match self {
            Self::Open(load) => ("open", Some(load)),
            Self::Closed(_) => ("closed", None),
        };
        let case = Case::new("notify")
            .with(Key::Op, OP)
            .with(Key::Size, SIZE)
            .with(Key::Clients, self.clients())
            .with(Key::Load, load)
            .with(Key::Seed, load.map(|_| seed))
            .with(Key::OfferedS, load.map(|_| ns as f64 / 1e9))
            .pinned(&testbed.pinning, self.clients());
        POLICIES.into_iter().fold(case, |case, policy| {
            let run = move |testbed: &mut Testbed, turn: &Turn<'_>| {
                testbed.set(&format!("notify={policy}"))?;
                let seed = seed.wrapping_add(turn.repeat as u64);
                let before = testbed.counters()?;
                let measured = testbed.together(self.clients(), |start| self.task(capacity, seed, start, ns))?;
                let run = Run::of(measured).counted(Counted::of(&testbed.counters()?.since(&before)));
                Ok(match self {
                    Self::Open(load) => run.begun(load * capacity),
                    Self::Closed(_) => run,
                })
            };
            case.variant(Variant::new(variant, run).with(Key::Notify, policy).against(By::Median, POLICIES[0]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_not_kept_up_is_noted() {
        let row = |ops: f64| {
            Row::new("notify", "open").with(Key::Notify, "park").with(Key::Load, 0.5).with(Key::OpsPerS, ops)
        };
        assert_eq!(fell_behind(&row(499.0), 1000.0), None);
        assert!(fell_behind(&row(250.0), 1000.0).unwrap().contains("did 50 %"));
    }
}
