//! The lane by itself: a no-op against a bare ping-pong of one word, and many in flight against a bare echo of slots.

use super::crew::{Crew, Plan};
use super::experiment::{By, Case, Run, Turn, Variant, measure_all};
use super::{BenchError, Outcome, Settings};
use crate::progress::Progress;
use crate::report::Key;
use sidecore::bare::Exchange;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;

/// In flight when pipelined.
const DEPTH: u32 = 128;
/// Lanes at rest beside a busy one.
const IDLE_LANES: usize = 1000;

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let notify = NotifyConfig::all(Notify::Spin);
    let plan = Plan { notify, sample_every: 1009, ..Plan::inline(1) };
    if plan.pinning.clients.is_empty() {
        return Ok(Outcome::left_out("lane: both sides must spin, which takes two cores"));
    }
    let mut crew = Crew::start(&plan)?;
    let (repeats, ns) = settings.pick((5, 50_000_000), (15, 200_000_000));
    let bare = |exchange, depth| move |crew: &mut Crew, _: &Turn<'_>| crew.beside_sleeping(exchange, depth, ns);
    let lane = |depth| move |crew: &mut Crew, _: &Turn<'_>| crew.closed(1, ("noop", 0), depth, ns);
    let beside_idle = move |crew: &mut Crew, _: &Turn<'_>| -> Result<Run, BenchError> {
        let _idle = crew.idle_lanes(IDLE_LANES)?;
        crew.closed(1, ("noop", 0), DEPTH, ns)
    };
    let spinning = |variant: Variant<'static, Crew>| variant.with(Key::Notify, "spin");
    let case = Case::new("lane")
        .with(Key::Op, "noop")
        .with(Key::Clients, 1)
        .with(Key::Pinned, crew.pinning.describe(1))
        .variant(Variant::new("ping-pong", bare(Exchange::PingPong, 1)))
        // Of a round trip the time counts: how many times as long as the bare one it takes.
        .variant(spinning(Variant::new("round-trip", lane(1))).against(By::Time, "ping-pong"))
        .variant(Variant::new("echo", bare(Exchange::Echo { size: 0 }, DEPTH)))
        .variant(spinning(Variant::new("pipelined", lane(DEPTH))).against(By::Rate, "echo"))
        .variant(spinning(Variant::new("beside 1000 idle lanes", beside_idle)).against(By::Rate, "pipelined"));
    let outcome = measure_all(&mut crew, vec![case], repeats, progress)?;
    Ok(outcome.noted(
        "lane: the ratio of round-trip is its time over that of a bare ping-pong of one word; the ratio of pipelined is \
         its rate over that of a bare echo of the same slots.",
    ))
}
