//! Interrupts against timers: the service and its clients wait by looking now and then, as z/VM's host and its Linux
//! guests did, and then are woken.
//!
//! The cards are emulated: they take no processor time but that of the true result, and when their answer is found
//! depends on when one looks. Under a timer the service looks at cards and lanes that often; else they wake it.

use super::found::Found;
use super::setup::Setup;
use crate::bench::crew::BenchError;
use crate::bench::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::{Changes, Row};
use sidecore::config::DeviceConfig;
use sidecore::core::stage::Stage;

/// Short, so that the time of the card and not that of the true result is measured.
const OP: &str = "p-256-sign";
/// Time of a card for one request, about what z/VM's RSERV came down to with interrupts, ns.
const CARD_NS: u64 = 60_000;
/// As many as z/VM had.
const CARDS: usize = 2;

/// How the two hops wait that the report tells apart: that of the service, for requests and for the cards' answers,
/// and that of the clients.
type Policies = (&'static str, &'static str);

/// Old designs and what the service's hops gain when they are woken instead; clients are woken in each.
const TIMERS: [&str; 4] = ["timer(50us)", "timer(1ms)", "timer(10ms)", "timer(200ms)"];
const QUICK_TIMERS: [&str; 3] = ["timer(50us)", "timer(1ms)", "timer(10ms)"];
const WOKEN: [&str; 3] = ["park", "break-even", "spin"];
/// Clients that poll, before a service that polls and before one that is woken.
const GATES: [&str; 2] = ["timer(250us)", "timer(50us)"];
const HOST: &str = "timer(50us)";
/// Jobs of the one client: requests in flight.
const JOBS: [u32; 2] = [1, 8];

/// What was measured of one pair of policies.
struct Cell {
    policies: Policies,
    jobs: u32,
    found: Found,
}

fn timers(settings: &Settings) -> &'static [&'static str] {
    if settings.quick { &QUICK_TIMERS } else { &TIMERS }
}

/// Each pair once.
fn policies(settings: &Settings, jobs: u32) -> Vec<Policies> {
    let mut all: Vec<Policies> = timers(settings).iter().map(|timer| (*timer, WOKEN[0])).collect();
    // A program with jobs sleeps on their descriptors and has no timer of its own.
    if jobs == 1 {
        all.extend(GATES.iter().flat_map(|gate| [(HOST, *gate), (WOKEN[0], *gate)]));
    }
    all.extend(WOKEN.iter().map(|woken| (*woken, *woken)));
    all
}

pub(super) fn steps(settings: &Settings) -> usize {
    if settings.wants(OP) { JOBS.iter().map(|jobs| policies(settings, *jobs).len()).sum() } else { 0 }
}

fn repeats(settings: &Settings) -> usize {
    if settings.quick { 2 } else { 5 }
}

/// Long enough for several looks, ns.
fn duration(settings: &Settings, policies: Policies) -> u64 {
    let least = if settings.quick { 60_000_000 } else { 200_000_000 };
    match policies.0 {
        "timer(200ms)" => 1_600_000_000,
        "timer(10ms)" => least.max(120_000_000),
        _ => least,
    }
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    if !settings.wants(OP) {
        return Ok(outcome);
    }
    let cards = (0..CARDS).map(|number| DeviceConfig::emulated(&format!("card{number}"), CARD_NS, 0.0)).collect();
    let mut setup = Setup::start(1, cards, &[OP])?;
    for jobs in JOBS {
        let mut cells: Vec<Cell> = policies(settings, jobs)
            .into_iter()
            .map(|policies| Cell { policies, jobs, found: Found::default() })
            .collect();
        for repeat in 0..repeats(settings) {
            for cell in &mut cells {
                progress.begin(&format!("service {}, client {}, {jobs} jobs", cell.policies.0, cell.policies.1));
                one_run(&mut setup, cell, duration(settings, cell.policies))?;
                if repeat == 0 {
                    progress.advance();
                }
            }
        }
        outcome.rows.extend(cells.iter().map(|cell| row(&setup, cell)));
        outcome.rows.extend(comparisons(settings, jobs, &cells));
    }
    outcome.rows.push(published());
    outcome.notes.push(format!(
        "keys-waiting, interrupts against timers: one client process and {CARDS} emulated cards that take {} us for a \
         request. The service's policy is that of its hops to clients and from cards. Changes are of mean times and of \
         medians of throughput; z/VM's are those of its report, with ten guests of ten threads and its host's tasks \
         polling every 50 us to 200 ms.",
        CARD_NS / 1000
    ));
    Ok(outcome)
}

fn one_run(setup: &mut Setup, cell: &mut Cell, ns: u64) -> Result<(), BenchError> {
    let (service, client) = cell.policies;
    setup.set(&format!("notify.client={client}"))?;
    setup.set(&format!("notify.from_device={service}"))?;
    setup.set(&format!("notify.service={service}"))?;
    cell.found.add(setup.provided(OP, 1, cell.jobs, ns)?);
    // The next orders must not wait for a sleeper.
    setup.set("notify=park")
}

fn row(setup: &Setup, cell: &Cell) -> Row {
    cell.found.row(Row {
        op: Some(OP.to_owned()),
        notify: Some(format!("service {}, client {}", cell.policies.0, cell.policies.1)),
        devices: Some(format!("{CARDS} emulated: {} us", CARD_NS / 1000)),
        clients: Some(1),
        jobs: Some(cell.jobs),
        pinned: Some(setup.pinning.describe(1)),
        ..Row::new("keys-waiting", "closed")
    })
}

/// What waking changes, pair by pair.
fn comparisons(settings: &Settings, jobs: u32, cells: &[Cell]) -> Vec<Row> {
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
    let cell = |policies| cells.iter().find(|cell| cell.policies == policies);
    let row = |(variant, from, to): (String, Policies, Policies)| {
        let changes = changes(&cell(from)?.found, &cell(to)?.found);
        Some(Row { jobs: Some(jobs), changes: Some(changes), ..Row::new("keys-interrupts", variant) })
    };
    pairs.into_iter().filter_map(row).collect()
}

fn changes(from: &Found, to: &Found) -> Changes {
    let change = |from: f64, to: f64| (from > 0.0).then(|| (to / from - 1.0) * 100.0);
    let of = |stage| change(from.stage(stage)?.mean, to.stage(stage)?.mean);
    Changes {
        queue: of(Stage::Queue),
        device: of(Stage::Device),
        total: of(Stage::Total),
        throughput: change(from.rate(), to.rate()),
    }
}

/// What z/VM's report states.
fn published() -> Row {
    let changes = Changes { queue: Some(-95.9), device: Some(-61.1), total: None, throughput: Some(274.0) };
    Row { changes: Some(changes), ..Row::new("keys-interrupts", "z/VM, as published: host woken") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_comparison_has_both_its_sides() {
        for quick in [true, false] {
            let settings = Settings { quick, seed: 1, ops: Vec::new() };
            for jobs in JOBS {
                let cell = |policies| Cell { policies, jobs, found: Found::default() };
                let cells: Vec<Cell> = policies(&settings, jobs).into_iter().map(cell).collect();
                let gates = if jobs == 1 { 2 * GATES.len() } else { 0 };
                assert_eq!(comparisons(&settings, jobs, &cells).len(), timers(&settings).len() + gates);
            }
        }
    }
}
