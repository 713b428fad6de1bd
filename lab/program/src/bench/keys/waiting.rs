//! Interrupts against timers. Service and clients first wait by polling at intervals, as z/VM's host and its Linux
//! guests did, and then by notification.
//!
//! The cards are emulated: they use no processor time beyond computing the true result, and an answer is found at the
//! next poll. Under a timer the service polls cards and lanes at that interval; otherwise they notify it.

use super::case;
use crate::bench::error::BenchError;
use crate::bench::experiment::{Case, Turn, Variant, measure_all};
use crate::bench::notify::stages;
use crate::bench::scenario::Settings;
use crate::bench::testbed::{Plan, Testbed};
use crate::report::figures::bare;
use crate::report::{Column, Outcome, Row, Section, column, section};
use sidecore::config::DeviceConfig;
use sidecore_measure::progress::Progress;
use sidecore_report::Better::{Less, More};
use sidecore_report::columns;

columns! {
    pub(in crate::bench) COLUMNS after column::AT_MOST;

    /// Change against another row, in percent of it: mean time from submission to hand-over.
    QUEUE_CHANGE = Column::found("changes.queue", "queue ±", 2, Less, change);
    /// The same for the mean time on the device.
    DEVICE_CHANGE = Column::found("changes.device", "device ±", 2, Less, change);
    /// The same for the mean time from submission to reception.
    TOTAL_CHANGE = Column::found("changes.total", "total ±", 2, Less, change);
    /// The same for the operations a second.
    THROUGHPUT_CHANGE = Column::found("changes.throughput", "ops/s ±", 2, More, change);
}

pub(super) const WAITING: Section = section(
    "keys-waiting",
    "Keys: how to wait",
    "One client of two emulated cards, as service and client look now and then, or are woken.",
)
.plots(|rows| vec![bare(rows), stages(&short(rows))]);

pub(super) const INTERRUPTS: Section = section(
    "keys-interrupts",
    "Keys: interrupts against timers",
    "What waking changes, in percent of what the timer took, beside z/VM's published changes. Where \
     the client's own timer gates, waking the service gains little.",
);

/// Short, so that the card's time dominates the time of the true result.
const OP: &str = "p-256-sign";
/// A card's time for one request, ns. Source: about z/VM's RSERV with interrupts.
const CARD_NS: u64 = 60_000;
/// As in z/VM's measurement.
const CARDS: usize = 2;

/// Policies of the two hops in the report: the service's, for requests and for the cards' answers, and the clients'.
type Policies = (&'static str, &'static str);

const TIMERS: [&str; 4] = ["timer(50us)", "timer(1ms)", "timer(10ms)", "timer(200ms)"];
const QUICK_TIMERS: [&str; 3] = ["timer(50us)", "timer(1ms)", "timer(10ms)"];
const WOKEN: [&str; 3] = ["park", "break-even", "spin"];
const GATES: [&str; 2] = ["timer(250us)", "timer(50us)"];
const HOST: &str = "timer(50us)";
const JOBS: [u32; 2] = [1, 8];

fn timers(settings: &Settings) -> &'static [&'static str] {
    settings.pick(&QUICK_TIMERS, &TIMERS)
}

fn policies(settings: &Settings, jobs: u32) -> Vec<Policies> {
    let mut all: Vec<Policies> = timers(settings).iter().map(|timer| (*timer, WOKEN[0])).collect();
    // A program with jobs sleeps on their descriptors and has no timer of its own.
    if jobs == 1 {
        all.extend(GATES.iter().flat_map(|gate| [(HOST, *gate), (WOKEN[0], *gate)]));
    }
    all.extend(WOKEN.iter().map(|woken| (*woken, *woken)));
    all
}

/// Long enough for several polls, ns.
fn duration(settings: &Settings, policies: Policies) -> u64 {
    let least = settings.pick(60_000_000, 200_000_000);
    match policies.0 {
        "timer(200ms)" => 1_600_000_000,
        "timer(10ms)" => least.max(120_000_000),
        _ => least,
    }
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    if !settings.wants(OP) {
        return Ok(Outcome::default());
    }
    let cards = (0..CARDS).map(|number| DeviceConfig::emulated(&format!("card{number}"), CARD_NS, 0.0)).collect();
    let mut testbed = Testbed::with_keys(&Plan { devices: cards, ..Plan::inline(1) }, &[OP])?;
    let mut outcome = Outcome::default();
    for jobs in JOBS.into_iter().take_while(|_| !progress.is_stopped()) {
        let cases = vec![one(&testbed, jobs, settings)];
        let part = measure_all(&mut testbed, cases, settings.pick(2, 5), progress)?;
        let compared = comparisons(settings, jobs, &part.rows);
        outcome.add(part);
        outcome.rows.extend(compared);
    }
    outcome.rows.push(published());
    Ok(outcome.noted(format!(
        "keys-waiting, interrupts against timers: one client process and {CARDS} emulated cards that take {} us for a \
         request. The service's policy is that of its hops to clients and from cards. Changes are of mean times and of \
         medians of throughput; z/VM's are those of its report, with ten guests of ten threads and its host's tasks \
         polling every 50 us to 200 ms.",
        CARD_NS / 1000
    )))
}

fn one(testbed: &Testbed, jobs: u32, settings: &Settings) -> Case<'static, Testbed> {
    let case = case("keys-waiting", testbed, OP, 1).with(column::JOBS, jobs);
    let case = case.with(column::DEVICES, format!("{CARDS} emulated: {} us", CARD_NS / 1000));
    policies(settings, jobs).into_iter().fold(case, |case, policies| {
        let ((service, client), ns) = (policies, duration(settings, policies));
        let run = move |testbed: &mut Testbed, _: &Turn<'_>| {
            testbed.set(&format!("notify.client={client}"))?;
            testbed.set(&format!("notify.from_device={service}"))?;
            testbed.set(&format!("notify.service={service}"))?;
            let run = testbed.provided(OP, 1, jobs, ns)?;
            // The next order must not wait for a timer.
            testbed.set("notify=park")?;
            Ok(run)
        };
        case.variant(Variant::new("closed", run).with(column::NOTIFY, in_words(policies)))
    })
}

fn in_words((service, client): Policies) -> String {
    format!("service {service}, client {client}")
}

fn comparisons(settings: &Settings, jobs: u32, rows: &[Row]) -> Vec<Row> {
    let woken = (WOKEN[0], WOKEN[0]);
    let mut pairs: Vec<(String, Policies, Policies)> = timers(settings)
        .iter()
        .map(|timer| (format!("service {timer}: service woken"), (*timer, WOKEN[0]), woken))
        .collect();
    if jobs == 1 {
        for gate in GATES {
            let both = format!("service {HOST}, client {gate}:");
            pairs.push((format!("{both} service woken"), (HOST, gate), (WOKEN[0], gate)));
            pairs.push((format!("{both} both woken"), (HOST, gate), woken));
        }
    }
    let of = |policies| rows.iter().find(|row| row.text(column::NOTIFY) == Some(in_words(policies).as_str()));
    let compared = |(variant, from, to): (String, Policies, Policies)| {
        Some(changes(of(from)?, of(to)?, Row::new("keys-interrupts", &variant).with(column::JOBS, jobs)))
    };
    pairs.into_iter().filter_map(compared).collect()
}

const CHANGES: [(&Column, &Column); 4] = [
    (QUEUE_CHANGE, column::QUEUE_MEAN),
    (DEVICE_CHANGE, column::DEVICE_MEAN),
    (TOTAL_CHANGE, column::TOTAL_MEAN),
    (THROUGHPUT_CHANGE, column::OPS_PER_S),
];

fn changes(from: &Row, to: &Row, row: Row) -> Row {
    CHANGES.into_iter().fold(row, |row, (change, of)| {
        let pair = from.number(of).filter(|from| *from > 0.0).zip(to.number(of));
        row.with(change, pair.map(|(from, to)| (to / from - 1.0) * 100.0))
    })
}

fn published() -> Row {
    Row::new("keys-interrupts", "z/VM, as published: host woken")
        .with(QUEUE_CHANGE, -95.9)
        .with(DEVICE_CHANGE, -61.1)
        .with(THROUGHPUT_CHANGE, 274.0)
}

/// Longest mean time to plot, us: longer ones would make the others invisible.
const LONG: f64 = 3000.0;

fn short<'r>(rows: &[&'r Row]) -> Vec<&'r Row> {
    rows.iter().copied().filter(|row| row.number(column::TOTAL_MEAN).is_some_and(|mean| mean < LONG)).collect()
}

fn change(percent: f64) -> String {
    format!("{percent:+.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparison_has_both_its_sides() {
        for quick in [true, false] {
            let settings = Settings { quick, ..Settings::short() };
            for jobs in JOBS {
                let row = |policies| Row::new("keys-waiting", "closed").with(column::NOTIFY, in_words(policies));
                let rows: Vec<Row> = policies(&settings, jobs).into_iter().map(row).collect();
                let gates = if jobs == 1 { 2 * GATES.len() } else { 0 };
                assert_eq!(comparisons(&settings, jobs, &rows).len(), timers(&settings).len() + gates);
            }
        }
    }

    #[test]
    fn changes_are_in_percent_of_what_was_before() {
        let row = |queue: f64, rate: f64| Row::default().with(column::QUEUE_MEAN, queue).with(column::OPS_PER_S, rate);
        let changed = changes(&row(200.0, 50.0), &row(50.0, 100.0), Row::default());
        let found = [QUEUE_CHANGE, THROUGHPUT_CHANGE, TOTAL_CHANGE].map(|key| changed.number(key));
        assert_eq!(found, [Some(-75.0), Some(100.0), None]);
    }
}
