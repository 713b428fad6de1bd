//! Notify policies under load: latency and CPU time of each.

use super::error::BenchError;
use super::experiment::{By, Case, Counted, Run, Turn, Variant, measure_all};
use super::scenario::{Scenario, Settings, WAITS};
use super::task::Task;
use super::testbed::{Plan, Testbed};
use crate::report::figures::{LARGE, Series, along, bar_chart, figure};
use crate::report::plot::{Bar, Scale};
use crate::report::{Column, Group, Headline, Outcome, Row, column, grouped, micros, plain, ratio, section};
use sidecore_measure::progress::Progress;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "notify",
    "Notify policies under load: latency, CPU, stages",
    measure,
    &[section(
        "notify",
        "Notify: how to wait",
        "What each waiting policy costs in latency and in CPU time as the load grows. Spinning is the \
     yardstick for latency, parking the one for CPU.",
    )
    .plots(|rows| vec![against_load(rows), stages(rows)])
    .headline(|_, rows| closest(rows))],
)
.by_default()
.alone(WAITS);

const OP: &str = "aes-256-gcm";
const SIZE: u32 = 1024;
/// The first one is the baseline.
const POLICIES: [&str; 6] = ["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even", "learn"];
const LOADS: [f64; 6] = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9];
const QUICK_LOADS: [f64; 3] = [0.05, 0.5, 0.8];
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

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    measure_beside(settings, progress, &mut |_| Ok(()))
}

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
            let case = case.with(column::PARK_COST_NS, sleeping.cost).with(column::WAKE_TIME_NS, sleeping.wake);
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

fn capacity(testbed: &mut Testbed, ns: u64) -> Result<f64, BenchError> {
    testbed.set("notify=spin")?;
    Ok(testbed.closed(1, (OP, SIZE), DEPTH, ns)?.rate())
}

fn fell_behind(row: &Row, capacity: f64) -> Option<String> {
    let (load, rate) = (row.number(column::LOAD)?, row.number(column::OPS_PER_S)?);
    let share = rate / (load * capacity);
    let policy = row.text(column::NOTIFY)?;
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
            .with(column::OP, OP)
            .with(column::SIZE, SIZE)
            .with(column::CLIENTS, self.clients())
            .with(column::LOAD, load)
            .with(column::SEED, load.map(|_| seed))
            .with(column::OFFERED_S, load.map(|_| ns as f64 / 1e9))
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
            case.variant(Variant::new(variant, run).with(column::NOTIFY, policy).against(By::Median, POLICIES[0]))
        })
    }
}

fn against_load(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.number(column::LOAD).is_some()).collect();
    let mut series = Series::of(&rows, &[column::LOAD]);
    let plots = [
        ("Median latency", along::LOAD, along::MEDIAN),
        ("Latency, 99th percentile", along::LOAD, along::TAIL),
        ("CPU time, clients and service together", along::LOAD, along::CPU),
        ("Median latency against CPU time", along::CPU, along::MEDIAN),
    ];
    let figures = plots.map(|(title, x, y)| figure(title, series.line_plot(LARGE, &rows, x, y))).into();
    Group { legend: series.names, figures }
}

/// Load whose stage times are shown if there are several: busy, not saturated.
const TYPICAL_LOAD: f64 = 0.5;

const STAGES: [(&str, &Column); 3] = [
    ("queue: submitted to handed over", column::QUEUE_MEAN),
    ("device: handed over to reply taken", column::DEVICE_MEAN),
    ("deliver: reply taken to received", column::DELIVER_MEAN),
];

pub(super) fn stages(rows: &[&Row]) -> Group {
    let is_staged = |row: &&Row| STAGES.iter().all(|(_, key)| row.number(key).is_some());
    let mut rows: Vec<_> = rows.iter().copied().filter(is_staged).collect();
    let far = |load: &f64| (load - TYPICAL_LOAD).abs();
    let loads = rows.iter().filter_map(|row| row.number(column::LOAD));
    let typical = loads.min_by(|a, b| far(a).total_cmp(&far(b)));
    rows.retain(|row| row.number(column::LOAD) == typical);
    let series = Series::of(&rows, &[]);
    let stacked = |row: &&Row| {
        let parts: Vec<_> = STAGES.iter().filter_map(|(_, key)| row.number(key)).enumerate().collect();
        Bar { name: series.name(row), text: micros(parts.iter().map(|part| part.1).sum()), parts, range: None }
    };
    let bars: Vec<_> = rows.iter().map(stacked).collect();
    let at = typical.map_or(String::new(), |load| format!(", at load {}", plain(load)));
    let svg = bar_chart(2 * LARGE.0, ("mean time", Scale::Linear, column::TOTAL_MEAN), &bars, None);
    let legend = STAGES.map(|(name, _)| (name.to_owned(), false)).into();
    Group { legend, figures: vec![figure(&format!("Where the time goes{at}"), svg)] }
}

/// The policy whose worst load is least bad: its latency compared with spinning, its CPU time compared with parking.
fn closest(rows: &[&Row]) -> Option<Headline> {
    let of = |name| rows.iter().copied().filter(|row| policy(row) == name).collect::<Vec<_>>();
    let (spin, park) = (of("spin"), of("park"));
    let others = grouped(rows, policy).into_iter().filter(|(name, _)| *name != "spin" && *name != "park");
    let judged = others.filter_map(|(name, rows)| {
        Some((name, worst(&rows, &spin, column::TOTAL_P50)?, worst(&rows, &park, column::CLIENT_CPU)?))
    });
    let (name, latency, cpu) = judged.min_by(|a, b| a.1.max(a.2).total_cmp(&b.1.max(b.2)))?;
    Some(Headline {
        value: format!("{latency:.2} / {}", ratio(cpu)),
        label: "latency of spinning / CPU time of parking, each at its worst load".to_owned(),
        detail: name.to_owned(),
    })
}

fn policy(row: &Row) -> &str {
    row.text(column::NOTIFY).unwrap_or_else(|| row.variant())
}

fn worst(rows: &[&Row], yardstick: &[&Row], key: &'static Column) -> Option<f64> {
    let same = [column::LOAD, column::OP, column::SIZE, column::CLIENTS];
    let ratios = rows.iter().filter_map(|row| {
        let unit = yardstick.iter().find(|unit| same.iter().all(|key| row.get(key) == unit.get(key)))?;
        Some(row.figure(key)? / unit.figure(key)?).filter(|ratio| ratio.is_finite())
    });
    ratios.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Times;

    #[test]
    fn a_load_that_is_not_kept_up_is_noted() {
        let row = |ops: f64| {
            Row::new("notify", "open").with(column::NOTIFY, "park").with(column::LOAD, 0.5).with(column::OPS_PER_S, ops)
        };
        assert_eq!(fell_behind(&row(499.0), 1000.0), None);
        assert!(fell_behind(&row(250.0), 1000.0).unwrap().contains("did 50 %"));
    }

    fn waiting(policy: &str, load: f64, p50: f64, service: f64) -> Row {
        Row::new("notify", policy)
            .with(column::LOAD, load)
            .with_times(column::TOTAL, Some(Times { p50, ..Times::default() }))
            .with(column::CLIENT_CPU, 0.0)
            .with(column::SERVICE_CPU, service)
    }

    #[test]
    fn a_policy_is_judged_at_its_worst_load() {
        let rows = [
            waiting("spin", 0.1, 1.0, 100.0),
            waiting("spin", 0.9, 1.0, 10.0),
            waiting("park", 0.1, 50.0, 10.0),
            waiting("park", 0.9, 50.0, 5.0),
            waiting("learn", 0.1, 1.1, 20.0),
            waiting("learn", 0.9, 1.2, 5.0),
            waiting("timer", 0.1, 9.0, 10.0),
        ];
        let headline = closest(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((headline.value.as_str(), headline.detail.as_str()), ("1.20 / 2.00 x", "learn"));
    }
}
