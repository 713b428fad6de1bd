//! The table of the OpenBSD Cryptographic Framework's paper on this machine: 3DES, threads × message sizes.

use super::error::BenchError;
use super::experiment::{By, Case, Run, Turn, Variant, measure_all};
use super::scenario::{Scenario, Settings, WAITS};
use super::task::Task;
use super::testbed::{Plan, Testbed};
use crate::report::figures::{LARGE, Series, along, panels};
use crate::report::plot::Scale;
use crate::report::{Group, Outcome, Row, column, most, section};
use sidecore_measure::pinning::of_crowd;
use sidecore_measure::progress::Progress;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "ocf",
    "The table of the OpenBSD Cryptographic Framework's paper on this machine",
    measure,
    &[section(
        "ocf",
        "OCF: clients and message sizes",
        "3DES payload as messages grow, with more and more clients that each wait for one request. \
     With accelerators a balancer that loses nothing reaches their rated sum.",
    )
    .plots(|rows| vec![by_size(rows)])
    .headline(|_, rows| most(rows, column::MBIT_PER_S, "payload through the devices"))],
)
.by_default()
.alone(WAITS);

const OP: &str = "3des-cbc";
const CLIENTS: [usize; 7] = [1, 2, 3, 4, 8, 16, 32];
const SIZES: [u32; 6] = [16, 64, 256, 1024, 8192, 16_384];
const QUICK_CLIENTS: [usize; 3] = [1, 2, 4];
const QUICK_SIZES: [u32; 3] = [64, 1024, 16_384];

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let (clients, sizes): (&[usize], &[u32]) = settings.pick((&QUICK_CLIENTS, &QUICK_SIZES), (&CLIENTS, &SIZES));
    let most = clients.iter().copied().max().unwrap_or(1);
    let mut testbed = Testbed::start(&Plan { slots: 8, ..Plan::inline(most) })?;
    let points = clients.iter().flat_map(|clients| sizes.iter().map(|size| (*clients, *size)));
    let cases = points.map(|(clients, size)| case(&testbed, clients, size, settings)).collect();
    let outcome = measure_all(&mut testbed, cases, settings.pick(2, 3), progress)?;
    Ok(outcome.noted(
        "ocf: each client has one request in flight, as in the paper; inline is the same number of processes on all \
         cores of this machine, the sidecore's too. The sidecore spins; clients spin if each has a core, else they park.",
    ))
}

fn case(testbed: &Testbed, clients: usize, size: u32, settings: &Settings) -> Case<'static, Testbed> {
    // Many clients share few cores: the run must be long enough for each to be scheduled.
    let ns = settings.pick(50_000_000, 80_000_000 + 5_000_000 * clients as u64);
    let policy = testbed.pinning.client_policy(clients);
    let inline = move |testbed: &mut Testbed, _: &Turn<'_>| {
        testbed.set("notify=park")?;
        testbed.spread(clients, true)?;
        Ok(Run::of(testbed.together(clients, |_| Task::Inline { op: OP.to_owned(), size, ns })?))
    };
    let lane = move |testbed: &mut Testbed, _: &Turn<'_>| {
        testbed.spread(clients, false)?;
        testbed.set("notify.service=spin")?;
        testbed.set(&format!("notify.client={policy}"))?;
        testbed.closed(clients, (OP, size), 1, ns)
    };
    let lane = Variant::new("sidecore", lane)
        .with(column::NOTIFY, policy.to_string())
        .with(column::PINNED, testbed.pinning.describe(clients))
        .against(By::Rate, "inline");
    let case =
        Case::new("ocf").with(column::OP, OP).with(column::SIZE, size).with(column::CLIENTS, clients).payload(true);
    let case = case.crowded(of_crowd(&testbed.pinning, clients));
    case.variant(Variant::new("inline", inline)).variant(lane)
}

/// A baseline shares the colour of its comparison.
fn by_size(rows: &[&Row]) -> Group {
    let baseline = rows.iter().find_map(|row| row.text(column::BASELINE));
    let baseline = baseline.filter(|name| rows.iter().any(|row| row.variant() == *name));
    let dashed = baseline.map_or_else(String::new, |name| format!("; dashed: {name}"));
    let shown = [column::DEVICES, column::SIZE, column::LOAD, column::NOTIFY, column::VARIANT];
    let mut series = Series::of(rows, if baseline.is_some() { &shown } else { &shown[..3] });
    let figures = panels(rows, column::DEVICES, &format!("Payload by message size{dashed}"), |rows| {
        series.line_plot(LARGE, rows, along::SIZE, ("payload", Scale::Linear, column::MBIT_PER_S))
    });
    Group { legend: series.names, figures }
}
