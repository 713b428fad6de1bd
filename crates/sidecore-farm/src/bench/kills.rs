//! `kills`: one node is killed each second, and each other kind that is named each minute.

use super::drill::{self, CrashTest};
use super::rows::{Goal, Row};
use super::share::UNIT;
use super::stand::Stand;
use crate::args::bench::{Bench, Victim};
use crate::error::FarmError;
use sidecore_terminal::output::tell;
use std::time::Duration;

const BURST: Duration = Duration::from_secs(2);
/// Limit of the gap after a node's kill, us.
const GAP: f64 = 100_000.0;

pub(crate) async fn measure(stand: &mut Stand, args: &Bench) -> Result<Vec<Row>, FarmError> {
    let second = Duration::from_secs(1);
    let seldom = stand.pick(second * 3, second * 60);
    let others = [
        (args.also.feeder, Victim::Feeder),
        (args.also.dispatcher, Victim::Dispatcher),
        (args.also.server, Victim::Server),
    ];
    let others = others.into_iter().filter(|(wanted, _)| *wanted).map(|(_, victim)| (victim, seldom));
    let drill = CrashTest {
        unit: UNIT,
        burst: BURST,
        lasting: Duration::from_secs(args.seconds.unwrap_or(stand.pick(10, 600))),
        kills: [(Victim::Node, second)].into_iter().chain(others).collect(),
    };
    let done = drill::run(stand, &drill).await?;
    for complaint in done.verdict.complaints().iter().chain(&done.left) {
        tell(complaint);
    }
    let row = drill::row(stand, "kills", &done);
    let ratio = row.gap_us.map(|gap| gap.p99 / GAP);
    Ok(vec![Row { ratio, baseline: Some("100 ms".into()), reach: Some(Goal::AtMost(1.0)), ..row }])
}
