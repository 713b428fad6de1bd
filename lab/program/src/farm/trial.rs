//! `sidecore farm try`: the farm's main job in one command, without any setup.

use crate::args::farm::{Try, Victim};
use crate::farm::columns::{count, time};
use crate::farm::drill::{self, CrashTest, Drilled};
use crate::farm::error::FarmError;
use crate::farm::error::Unmeasured;
use crate::farm::rows::{self, percentiles};
use crate::farm::stand::Stand;
use crate::farm::{UNIT, devices};
use comfy_table::Table;
use sidecore_report::Times;
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::{print, tell};
use std::time::Duration;

/// Runs the test and prints the table. The exit code shows whether each event was committed exactly once.
pub(crate) async fn run(args: &Try) -> Result<u8, FarmError> {
    let mut stand = Stand::new(&args.common, args.quick).await?;
    let drill = CrashTest {
        unit: UNIT,
        burst: stand.pick(Duration::from_secs(2), Duration::from_secs(5)),
        lasting: Duration::from_secs(args.seconds.unwrap_or(stand.pick(6, 20))),
        kills: args.kill.iter().map(|&victim| (victim, every(&stand, victim))).collect(),
    };
    let done = match drill::run(&mut stand, &drill).await {
        Ok(done) => done,
        Err(why) => return Err(Unmeasured::Failed { source: why.into(), logs: stand.server.keep() }.into()),
    };
    print(&format!("{}\n", table(&stand, &done))).map_err(FarmError::output)?;
    if let Some(file) = &args.common.json {
        rows::write(&[drill::row(&stand, "try", &done)], file)?;
    }
    if done.verdict.is_exactly_once() {
        return Ok(0);
    }
    for complaint in done.verdict.complaints().iter().chain(&done.left) {
        tell(complaint);
    }
    tell(format_args!("what all processes said is in {}", stand.server.keep().display()));
    Ok(REFUSED)
}

fn every(stand: &Stand, victim: Victim) -> Duration {
    match victim {
        Victim::Node => stand.pick(Duration::from_millis(500), Duration::from_secs(1)),
        Victim::Feeder | Victim::Dispatcher | Victim::Server => {
            stand.pick(Duration::from_secs(2), Duration::from_secs(5))
        }
    }
}

fn table(stand: &Stand, done: &Drilled) -> String {
    let verdict = &done.verdict;
    let times = |times: Option<Times>| {
        times.map_or("none".to_owned(), |times| format!("p50 {}, p99 {}", time(times.p50), time(times.p99)))
    };
    let number = |ids: &[String]| count(ids.len() as u64);
    let mut lines = vec![
        ("engine", stand.engine()),
        ("nodes", devices()),
        ("share of the sum of their rates", done.share.map_or("none".to_owned(), |share| format!("{share:.2}"))),
        ("killed with kill -9", done.kills_in_words()),
        ("events fed", count(verdict.fed)),
        ("committed", count(verdict.committed)),
        ("lost", number(&verdict.lost)),
        ("committed twice", number(&verdict.twice)),
        ("handed out again", count(done.redone)),
        ("late answers, dropped", count(done.late)),
        ("an event's time at 0.8 of the rate", times(done.total)),
        ("from a node's kill until others have all it had", times(percentiles(done.gaps.clone()))),
    ];
    if !done.stops.is_empty() {
        lines
            .push(("from a dispatcher's or server's kill until events go out", times(percentiles(done.stops.clone()))));
    }
    if !verdict.dead.is_empty() {
        lines.push(("given up", number(&verdict.dead)));
    }
    let mut table = Table::new();
    table.load_style(rows::STYLE);
    for (what, is) in lines {
        table.add_row([what, &is]);
    }
    table.trim_fmt()
}
