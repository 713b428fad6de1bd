//! A farm at work while its processes are killed with `kill -9` and restarted. Afterwards each fed id is looked up
//! among the committed ones.

mod due;
mod targets;

use super::columns::{self, count};
use super::feeding::Fed;
use super::ledger::Verdict;
use super::results::{self, Stored};
use super::rows::percentiles;
use super::share::devices;
use super::stand::Stand;
use super::watch::Watcher;
use super::{found, script::Script};
use crate::args::farm::Victim;
use crate::farm::error::FarmError;
use due::Dues;
use sidecore_report::{Row, Times, column};
use sidecore_terminal::output::tell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use targets::{CrashTargets, Who};
use tokio::time::sleep;

const FARM: &str = "drill";
const FEEDER: &str = "feeder";
/// Load after the first events, as a part of the nodes' capacity.
const LOAD: f64 = 0.8;
/// Longest time without a commit at the end. Events that still wait then are written off.
const STUCK: Duration = Duration::from_secs(20);
const TELL: Duration = Duration::from_secs(1);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Part of the burst that the nodes' share is measured over.
const SHARE_FROM: f64 = 0.2;
const SHARE_TO: f64 = 0.8;

#[derive(Clone, Debug)]
pub(crate) struct CrashTest {
    pub(crate) unit: Duration,
    /// Work of the first events, as time of all nodes. No process is killed in that time.
    pub(crate) burst: Duration,
    /// Duration of further events while processes are killed.
    pub(crate) lasting: Duration,
    pub(crate) kills: Vec<(Victim, Duration)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Drilled {
    pub(crate) verdict: Verdict,
    pub(crate) share: Option<f64>,
    pub(crate) total: Option<Times>,
    pub(crate) gaps: Vec<Duration>,
    pub(crate) stops: Vec<Duration>,
    pub(crate) redone: u64,
    pub(crate) late: u64,
    pub(crate) kills: Vec<(Victim, u64)>,
    pub(crate) took: Duration,
    pub(crate) left: Vec<String>,
}

impl Drilled {
    pub(crate) fn killed(&self) -> u64 {
        self.kills.iter().map(|(_, times)| times).sum()
    }

    pub(crate) fn kills_in_words(&self) -> String {
        let kind = |(victim, times): &(Victim, u64)| {
            let name = match victim {
                Victim::Node => "node",
                Victim::Feeder => "feeder",
                Victim::Dispatcher => "dispatcher",
                Victim::Server => "server",
            };
            format!("{name} {times} x")
        };
        self.kills.iter().map(kind).collect::<Vec<_>>().join(", ")
    }
}

pub(crate) async fn run(stand: &mut Stand, drill: &CrashTest) -> Result<Drilled, FarmError> {
    let watcher = Watcher::new(&stand.client, FARM).await?;
    let script = Arc::new(Script::new(stand.seed, drill.unit, drill.burst, drill.lasting, LOAD));
    let standby = drill.kills.iter().any(|(victim, _)| *victim == Victim::Dispatcher);
    let seed = stand.seed;
    let targets = CrashTargets::start(stand, drill.unit, standby, &watcher).await?;
    let (begun, start) = (Instant::now(), SystemTime::now());
    let dues = Dues::new(&drill.kills, begun + drill.burst + drill.burst / 4, !seed);
    let mut scene = Scene { targets, script, watcher, dues, begun, start };
    scene.play(drill).await?;
    let took = scene.begun.elapsed();
    let stored = results::all(scene.targets.js(), &stream("results")).await?;
    let dead = results::all(scene.targets.js(), &stream("dead")).await?;
    let reason = dead.iter().find_map(|dead| Some(format!("{} was given up: {}", dead.id, dead.reason.as_ref()?)));
    let left = results::left(scene.targets.js(), &stream("events")).await;
    let left = left.into_iter().chain(reason).collect();
    Ok(Drilled { took, left, ..scene.told(drill, &stored, &dead) })
}

pub(crate) fn row(stand: &Stand, scenario: &str, done: &Drilled) -> Row {
    let verdict = &done.verdict;
    Row::new(scenario, &done.kills_in_words())
        .with(column::BALANCE, "tokens")
        .with(column::DEVICES, devices())
        .with(columns::OPS_PER_S, verdict.committed as f64 / done.took.as_secs_f64())
        .with(columns::SHARE, done.share)
        .with_times(columns::TOTAL, done.total)
        .with_times(columns::GAP, percentiles(done.gaps.clone()))
        .with_times(columns::STOP, percentiles(done.stops.clone()))
        .with(columns::KILLS, done.killed())
        .with(columns::FED, verdict.fed)
        .with(columns::COMMITTED, verdict.committed)
        .with(columns::LOST, verdict.lost.len())
        .with(columns::TWICE, verdict.twice.len())
        .with(columns::DEAD, verdict.dead.len())
        .with(columns::REDONE, done.redone)
        .with(columns::LATE, done.late)
        .with(column::REPEATS, 1)
        .with(column::SEED, stand.seed)
        .with(column::LIBRARY, stand.engine())
}

struct Scene<'a> {
    targets: CrashTargets<'a>,
    script: Arc<Script>,
    watcher: Watcher,
    dues: Dues,
    begun: Instant,
    start: SystemTime,
}

impl Scene<'_> {
    async fn play(&mut self, drill: &CrashTest) -> Result<(), FarmError> {
        self.targets.feed(self.script.clone(), self.begun)?;
        let end = self.begun + self.script.end();
        let mut told = Instant::now();
        while Instant::now() < end {
            self.targets.rise().await?;
            self.targets.look()?;
            while let Some(who) = self.dues.next(Instant::now()) {
                self.strike(who);
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.tell(drill).await;
            }
            sleep(CHECK_INTERVAL).await;
        }
        self.drain().await
    }

    fn strike(&mut self, who: Who) {
        let now = SystemTime::now();
        if !self.targets.kill(who) {
            return;
        }
        self.dues.killed(who);
        match who {
            Who::Node(number) => self.watcher.seen().killed(&super::roles::node_name(number), now),
            Who::Dispatcher(_) | Who::Server => self.watcher.seen().stopped(now),
            Who::Feeder => {}
        }
    }

    async fn tell(&self, drill: &CrashTest) {
        let done = results::count(self.targets.js(), &stream("results")).await;
        let done = done.map_or_else(|_| "unknown".to_owned(), count);
        let (of, killed) =
            (count(self.script.events().len() as u64), self.dues.times().iter().map(|(_, times)| times).sum::<u64>());
        let phase = if self.begun.elapsed() < drill.burst { "all nodes busy" } else { "kill -9" };
        tell(format_args!(
            "{:2} s, {phase}: {done} of {of} events committed, {killed} kills",
            self.begun.elapsed().as_secs()
        ));
    }

    /// Waits until the feeder has fed everything and the queue is empty, or until nothing happens any more. The sum of
    /// results and dead letters alone is no proof, because some events may have both.
    async fn drain(&mut self) -> Result<(), FarmError> {
        let all = self.script.events().len() as u64;
        let (mut before, mut since) = (0, Instant::now());
        while since.elapsed() < STUCK {
            self.targets.rise().await?;
            self.targets.look()?;
            // A restarted server may not answer yet.
            let results = results::count(self.targets.js(), &stream("results")).await.unwrap_or(before);
            let dead = results::count(self.targets.js(), &stream("dead")).await.unwrap_or(0);
            let left = results::count(self.targets.js(), &stream("events")).await.unwrap_or(1);
            if results + dead >= all && left == 0 && self.targets.has_fed_all() {
                return Ok(());
            }
            if results > before {
                (before, since) = (results, Instant::now());
            }
            sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }

    fn told(&self, drill: &CrashTest, stored: &[Stored], dead: &[Stored]) -> Drilled {
        let fed = self.fed();
        // Sleeping work returns the event's id as its result.
        let committed = stored.iter().map(|stored| (stored.id.as_str(), stored.body == stored.id.as_bytes()));
        let ids = fed.iter().map(|event| event.id.clone());
        let verdict = Verdict::of(ids, committed, dead.iter().map(|dead| dead.id.as_str()));
        let seen = self.watcher.seen();
        let (from, to) = (drill.burst.mul_f64(SHARE_FROM), drill.burst.mul_f64(SHARE_TO));
        Drilled {
            verdict,
            share: found::share(&fed, stored, drill.unit, from, to),
            total: percentiles(found::total(&fed, stored, drill.burst)),
            gaps: seen.gaps(),
            stops: seen.stops(),
            redone: seen.redone(),
            late: seen.late(),
            kills: self.dues.times(),
            took: Duration::ZERO,
            left: Vec::new(),
        }
    }

    fn fed(&self) -> Vec<Fed> {
        let planned = self.script.events().iter().enumerate();
        let fed = planned.map(|(number, event)| {
            let at = self.start + event.due;
            Fed { id: format!("{FEEDER}-{number}"), units: event.units, at, sent: at }
        });
        fed.collect()
    }
}

fn stream(what: &str) -> String {
    format!("{FARM}-{what}")
}
