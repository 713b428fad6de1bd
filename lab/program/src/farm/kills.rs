//! `kills`: one node is killed each second, and each other kind that is named each minute.

use super::columns;
use super::contest::Measured;
use super::drill::{self, CrashTest};
use super::share::UNIT;
use super::stand::Stand;
use crate::args::farm::{Bench, Victim};
use crate::farm::error::FarmError;
use sidecore_report::column;
use sidecore_terminal::output::tell;
use std::time::Duration;

const BURST: Duration = Duration::from_secs(2);
/// Limit of the gap after a node's kill, us.
const GAP: f64 = 100_000.0;

pub(crate) async fn measure(stand: &mut Stand, args: &Bench) -> Result<Measured, FarmError> {
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
    let ratio = row.number(columns::GAP_P99).map(|p99| p99 / GAP);
    let row = row.with(columns::RATIO, ratio).with(column::BASELINE, "100 ms").with(column::AT_MOST, 1.0);
    Ok((vec![row], None))
}
