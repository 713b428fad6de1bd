//! The lane alone: a no-op compared with a bare ping-pong of one word, and pipelined no-ops compared with a bare echo
//! of slots.

use super::error::BenchError;
use super::experiment::{By, Case, Run, Turn, Variant, measure_all};
use super::scenario::{Scenario, Settings};
use super::testbed::{Plan, Testbed};
use crate::report::figures::{LARGE, Series, along, figure, ratios};
use crate::report::{Group, Outcome, Row, column, grouped, most, section};
use sidecore::bare::Exchange;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;
use sidecore_measure::progress::Progress;
use std::path::Path;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "lane",
    "The lane against a bare ping-pong and a bare echo",
    measure,
    &[section(
        "lane",
        "Lane: queues in shared memory",
        "Messages between two processes without any work on them: what the path itself costs.",
    )
    .plots(|rows| vec![exchanges(rows), ratios(rows)])
    .headline(|_, rows| most(rows, column::OPS_PER_S, "messages a second through a lane"))],
)
.by_default();

const DEPTH: u32 = 128;
const IDLE_LANES: usize = 1000;

/// Number of repeats, and duration of each, ns.
const REPEATS: (usize, u64) = (15, 200_000_000);
const QUICK_REPEATS: (usize, u64) = (5, 50_000_000);

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    if let Some(socket) = &settings.socket {
        return beside(socket, settings, progress);
    }
    let notify = NotifyConfig::all(Notify::Spin);
    let plan = Plan { notify, sample_every: 1009, ..Plan::inline(1) };
    if plan.pinning.clients.is_empty() {
        return Ok(Outcome::left_out("lane: both sides must spin, which takes two cores"));
    }
    let mut testbed = Testbed::start(&plan)?;
    let (repeats, ns) = settings.pick(QUICK_REPEATS, REPEATS);
    let bare =
        |exchange, depth| move |testbed: &mut Testbed, _: &Turn<'_>| testbed.beside_sleeping(exchange, depth, ns);
    let lane = |depth| move |testbed: &mut Testbed, _: &Turn<'_>| testbed.closed(1, ("noop", 0), depth, ns);
    let beside_idle = move |testbed: &mut Testbed, _: &Turn<'_>| -> Result<Run, BenchError> {
        let _idle = testbed.idle_lanes(IDLE_LANES)?;
        testbed.closed(1, ("noop", 0), DEPTH, ns)
    };
    let spinning =
        |variant: Variant<'static, Testbed>, jobs| variant.with(column::NOTIFY, "spin").with(column::JOBS, jobs);
    let case = Case::new("lane")
        .with(column::OP, "noop")
        .with(column::CLIENTS, 1)
        .pinned(&testbed.pinning, 1)
        .variant(Variant::new("ping-pong", bare(Exchange::PingPong, 1)).with(column::JOBS, 1))
        // For a round trip the ratio is of times: the lane's divided by the bare one's.
        .variant(spinning(Variant::new("round-trip", lane(1)), 1).against(By::Time, "ping-pong"))
        .variant(Variant::new("echo", bare(Exchange::Echo { size: 0 }, DEPTH)).with(column::JOBS, DEPTH))
        .variant(spinning(Variant::new("pipelined", lane(DEPTH)), DEPTH).against(By::Rate, "echo"))
        .variant(spinning(Variant::new("beside 1000 idle lanes", beside_idle), DEPTH).against(By::Rate, "pipelined"));
    let outcome = measure_all(&mut testbed, vec![case], repeats, progress)?;
    Ok(outcome.noted(
        "lane: the ratio of round-trip is its time over that of a bare ping-pong of one word; the ratio of pipelined is \
         its rate over that of a bare echo of the same slots.",
    ))
}

fn beside(socket: &Path, settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut testbed = Testbed::beside(socket, 1)?;
    let (repeats, ns) = settings.pick(QUICK_REPEATS, REPEATS);
    let variant = |name, depth| {
        let run = move |testbed: &mut Testbed, _: &Turn<'_>| testbed.closed(1, ("noop", 0), depth, ns);
        Variant::new(name, run).with(column::JOBS, depth)
    };
    let case = Case::new("lane").with(column::OP, "noop").with(column::CLIENTS, 1).pinned(&testbed.pinning, 1);
    let case = case.variant(variant("round-trip", 1)).variant(variant("pipelined", DEPTH));
    let outcome = measure_all(&mut testbed, vec![case], repeats, progress)?;
    Ok(outcome.noted(
        "lane: the service ran already and waits as it is set; bare exchanges would take its core, so there is no baseline.",
    ))
}

fn exchanges(rows: &[&Row]) -> Group {
    let figures = grouped(rows, |row| row.number(column::JOBS)).into_iter().map(|(jobs, rows)| {
        let title = match jobs {
            Some(1.0) => "Round trips a second, one after the other".to_owned(),
            Some(jobs) => format!("Messages a second, {jobs} in flight"),
            None => "Operations a second".to_owned(),
        };
        figure(&title, Series::of(&rows, &[column::JOBS]).bar_plot(LARGE.0, &rows, along::RATE, None))
    });
    Group { legend: Vec::new(), figures: figures.collect() }
}
