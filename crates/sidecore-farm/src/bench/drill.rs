//! A farm at work while its processes are killed with `kill -9` and started again; then each id that was fed is looked for among
//! what was committed.

mod cast;
mod due;

use super::feeding::Fed;
use super::ledger::Verdict;
use super::results::{self, Stored};
use super::rows::{Times, count};
use super::stand::Stand;
use super::watch::Watcher;
use super::{found, script::Script};
use crate::args::bench::Victim;
use cast::{Cast, Who};
use due::Dues;
use sidecore_terminal::output::tell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::time::sleep;

/// The farm, and the feeder's name in ids.
const FARM: &str = "drill";
const FEEDER: &str = "feeder";
/// Of what the nodes can do, once the first events are done.
const LOAD: f64 = 0.8;
/// What still waits at the end is given up when nothing is committed for so long.
const STUCK: Duration = Duration::from_secs(20);
/// How often people are told how far it is, and how often that is looked at.
const TELL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);
/// The part of the burst in which the nodes' share is taken.
const SHARE_FROM: f64 = 0.2;
const SHARE_TO: f64 = 0.8;

/// What is done to a farm.
#[derive(Clone, Debug)]
pub(crate) struct Drill {
    pub(crate) unit: Duration,
    /// The nodes need so long for what comes at once, before anybody is killed.
    pub(crate) burst: Duration,
    /// How long events come while processes are killed.
    pub(crate) lasting: Duration,
    /// Who is killed, and how often.
    pub(crate) kills: Vec<(Victim, Duration)>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Drilled {
    pub(crate) verdict: Verdict,
    pub(crate) share: Option<f64>,
    /// Of events that came while processes were killed.
    pub(crate) total: Option<Times>,
    pub(crate) gaps: Vec<Duration>,
    /// From the kill of a dispatcher or of the server until events were handed out.
    pub(crate) stops: Vec<Duration>,
    pub(crate) redone: u64,
    pub(crate) late: u64,
    pub(crate) kills: Vec<(Victim, u64)>,
    pub(crate) took: Duration,
    /// What is left in the work queue, and why something was given up, in words.
    pub(crate) left: Vec<String>,
}

impl Drilled {
    /// How often somebody was killed.
    pub(crate) fn killed(&self) -> u64 {
        self.kills.iter().map(|(_, times)| times).sum()
    }
}

/// Does it.
///
/// # Errors
/// The farm cannot be started, or one of its processes ended by itself.
pub(crate) async fn run(stand: &mut Stand, drill: &Drill) -> Result<Drilled, String> {
    let watcher = Watcher::new(&stand.client, FARM).await?;
    let script = Arc::new(Script::new(stand.seed, drill.unit, drill.burst, drill.lasting, LOAD));
    let standby = drill.kills.iter().any(|(victim, _)| *victim == Victim::Dispatcher);
    let seed = stand.seed;
    let cast = Cast::start(stand, drill.unit, standby, &watcher).await?;
    let (begun, start) = (Instant::now(), SystemTime::now());
    let dues = Dues::new(&drill.kills, begun + drill.burst + drill.burst / 4, !seed);
    let mut scene = Scene { cast, script, watcher, dues, begun, start };
    scene.play(drill).await?;
    let took = scene.begun.elapsed();
    let stored = results::all(scene.cast.js(), &stream("results")).await?;
    let dead = results::all(scene.cast.js(), &stream("dead")).await?;
    let reason = dead.iter().find_map(|dead| Some(format!("{} was given up: {}", dead.id, dead.reason.as_ref()?)));
    let left = results::left(scene.cast.js(), &stream("events")).await;
    let left = left.into_iter().chain(reason).collect();
    Ok(Drilled { took, left, ..scene.told(drill, &stored, &dead) })
}

/// A farm that is fed.
struct Scene<'a> {
    cast: Cast<'a>,
    script: Arc<Script>,
    watcher: Watcher,
    dues: Dues,
    begun: Instant,
    start: SystemTime,
}

impl Scene<'_> {
    /// Kills and starts again until all events have come, then waits for what is left.
    async fn play(&mut self, drill: &Drill) -> Result<(), String> {
        self.cast.feed(self.script.clone(), self.begun)?;
        let end = self.begun + self.script.end();
        let mut told = Instant::now();
        while Instant::now() < end {
            self.cast.rise().await?;
            self.cast.look()?;
            while let Some(who) = self.dues.next(Instant::now()) {
                self.strike(who);
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                self.tell(drill).await;
            }
            sleep(LOOK).await;
        }
        self.drain().await
    }

    /// Kills one that is there.
    fn strike(&mut self, who: Who) {
        let now = SystemTime::now();
        if !self.cast.kill(who) {
            return;
        }
        self.dues.killed(who);
        match who {
            Who::Node(number) => self.watcher.seen().killed(&super::roles::node_name(number), now),
            Who::Dispatcher(_) | Who::Server => self.watcher.seen().stopped(now),
            Who::Feeder => {}
        }
    }

    async fn tell(&self, drill: &Drill) {
        let done = results::count(self.cast.js(), &stream("results")).await;
        let done = done.map_or_else(|_| "unknown".to_owned(), count);
        let (of, killed) =
            (count(self.script.events().len() as u64), self.dues.times().iter().map(|(_, times)| times).sum::<u64>());
        let phase = if self.begun.elapsed() < drill.burst { "all nodes busy" } else { "kill -9" };
        tell(format_args!(
            "{:2} s, {phase}: {done} of {of} events committed, {killed} kills",
            self.begun.elapsed().as_secs()
        ));
    }

    /// Waits until the feeder has fed all and nothing is left to do, or until nothing happens any more. Some events may have both a
    /// result and a dead letter, so that their sum alone tells too little.
    async fn drain(&mut self) -> Result<(), String> {
        let all = self.script.events().len() as u64;
        let (mut before, mut since) = (0, Instant::now());
        while since.elapsed() < STUCK {
            self.cast.rise().await?;
            self.cast.look()?;
            // A server that has just been started may not answer yet.
            let results = results::count(self.cast.js(), &stream("results")).await.unwrap_or(before);
            let dead = results::count(self.cast.js(), &stream("dead")).await.unwrap_or(0);
            let left = results::count(self.cast.js(), &stream("events")).await.unwrap_or(1);
            if results + dead >= all && left == 0 && self.cast.has_fed_all() {
                return Ok(());
            }
            if results > before {
                (before, since) = (results, Instant::now());
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    fn told(&self, drill: &Drill, stored: &[Stored], dead: &[Stored]) -> Drilled {
        let fed = self.fed();
        // Work that sleeps answers with the event's id.
        let committed = stored.iter().map(|stored| (stored.id.as_str(), stored.body == stored.id.as_bytes()));
        let ids = fed.iter().map(|event| event.id.clone());
        let verdict = Verdict::of(ids, committed, dead.iter().map(|dead| dead.id.as_str()));
        let seen = self.watcher.seen();
        let (from, to) = (drill.burst.mul_f64(SHARE_FROM), drill.burst.mul_f64(SHARE_TO));
        Drilled {
            verdict,
            share: found::share(&fed, stored, drill.unit, from, to),
            total: Times::of(found::total(&fed, stored, drill.burst)),
            gaps: seen.gaps(),
            stops: seen.stops(),
            redone: seen.redone(),
            late: seen.late(),
            kills: self.dues.times(),
            took: Duration::ZERO,
            left: Vec::new(),
        }
    }

    /// All events of the script, by the ids that a feeder gives the lines of its input.
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
