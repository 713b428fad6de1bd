//! The lane by itself: a no-op against a bare ping-pong of one word, and many in flight against a bare echo of slots.

use super::crew::{BenchError, Crew, Plan};
use super::series::{median, ratio, spread, with_stages};
use super::task::{Measured, Task};
use super::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::Row;
use sidecore::bare::Exchange;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;

/// In flight when pipelined.
const DEPTH: u32 = 128;
/// Lanes at rest beside a busy one.
const IDLE_LANES: usize = 1000;

fn repeats(settings: &Settings) -> usize {
    if settings.quick { 5 } else { 15 }
}

fn duration(settings: &Settings) -> u64 {
    if settings.quick { 50_000_000 } else { 200_000_000 }
}

pub(super) fn steps(settings: &Settings) -> usize {
    repeats(settings)
}

/// What was measured in turn, in operations a second.
#[derive(Default)]
struct Rates {
    ping_pong: Vec<f64>,
    round_trip: Vec<f64>,
    echo: Vec<f64>,
    pipelined: Vec<f64>,
    beside_idle: Vec<f64>,
    latencies: Vec<Measured>,
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let notify = NotifyConfig::all(Notify::Spin);
    let plan = Plan { notify, sample_every: 1009, ..Plan::inline(1) };
    if plan.pinning.clients.is_empty() {
        let why = "lane: both sides must spin, which takes two cores".to_owned();
        return Ok(Outcome { left_out: vec![why], ..Outcome::default() });
    }
    let mut crew = Crew::start(&plan)?;
    let mut rates = Rates::default();
    for _ in 0..repeats(settings) {
        progress.begin("ping-pong, no-op, echo, pipelined");
        one_repeat(&mut crew, duration(settings), &mut rates)?;
        progress.advance();
    }
    let pinned = crew.pinning.describe(1);
    let row = |variant: &str, rates: &[f64]| Row {
        op: Some("noop".to_owned()),
        clients: Some(1),
        ops_per_s: Some(median(rates)),
        pinned: Some(pinned.clone()),
        repeats: Some(rates.len() as u32),
        spread: Some(spread(rates)),
        ..Row::new("lane", variant)
    };
    // Of a round trip the time counts: how many times as long as the bare one it takes.
    let slowdown = ratio(&rates.ping_pong, &rates.round_trip);
    let rows = vec![
        row("ping-pong", &rates.ping_pong),
        Row {
            notify: Some("spin".to_owned()),
            ratio: slowdown,
            baseline: Some("ping-pong".to_owned()),
            ..with_stages(row("round-trip", &rates.round_trip), &rates.latencies)
        },
        row("echo", &rates.echo),
        Row {
            notify: Some("spin".to_owned()),
            ratio: ratio(&rates.pipelined, &rates.echo),
            baseline: Some("echo".to_owned()),
            ..row("pipelined", &rates.pipelined)
        },
        Row {
            notify: Some("spin".to_owned()),
            ratio: ratio(&rates.beside_idle, &rates.pipelined),
            baseline: Some("pipelined".to_owned()),
            ..row("beside 1000 idle lanes", &rates.beside_idle)
        },
    ];
    let notes = vec![
        "lane: the ratio of round-trip is its time over that of a bare ping-pong of one word; the ratio of pipelined is \
         its rate over that of a bare echo of the same slots."
            .to_owned(),
    ];
    Ok(Outcome { rows, notes, ..Outcome::default() })
}

fn one_repeat(crew: &mut Crew, ns: u64, rates: &mut Rates) -> Result<(), BenchError> {
    let closed = |depth| move |_, start| Task::Closed { op: "noop".to_owned(), size: 0, depth, start, ns };
    // The bare exchanges need the sidecore's core: it sleeps meanwhile.
    crew.set("notify.service=park")?;
    rates.ping_pong.push(crew.exchange(Exchange::PingPong, 1, ns)?.per_s());
    rates.echo.push(crew.exchange(Exchange::Echo { size: 0 }, DEPTH, ns)?.per_s());
    crew.set("notify.service=spin")?;
    let round_trip = crew.together(1, closed(1))?;
    rates.round_trip.push(round_trip[0].per_s());
    rates.latencies.extend(round_trip);
    rates.pipelined.push(crew.together(1, closed(DEPTH))?[0].per_s());
    let idle = crew.idle_lanes(IDLE_LANES)?;
    rates.beside_idle.push(crew.together(1, closed(DEPTH))?[0].per_s());
    drop(idle);
    Ok(())
}
