//! `farm progress`: how much of a batch is done. A batch is what one feeder has fed, under the feeder's name.
//!
//! The servers count: an event leaves the queue when its result or its dead letter is stored, and its subject names its
//! batch. So the numbers hold over new starts of dispatchers, and nothing keeps them but the queue. How many there were
//! in all is in the feeder's place.

use crate::args;
use crate::connect::{self, Role};
use crate::dispatch::Pace;
use crate::error::FarmError;
use crate::feed;
use crate::outcome;
use crate::streams::{self, Streams, names};
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{self, Context};
use futures_util::TryStreamExt;
use serde::Serialize;
use sidecore_core::time::Nanos;
use sidecore_nodes::pending::Priority;
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::{self, tell};
use sidecore_terminal::units::{amount, time};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Serialize)]
struct Progress {
    batch: String,
    /// Events fed so far. `None`: the feeder keeps no place, such as one that listens.
    fed: Option<u64>,
    /// In the queue or with a node.
    left: u64,
    done: Option<u64>,
    /// Among those that are done.
    dead: u64,
    per_second: f64,
    left_s: Option<f64>,
}

/// Prints how far a batch is, after one second or, with `--wait`, when nothing of it is left.
pub(crate) async fn run(args: args::Progress) -> Result<u8, FarmError> {
    let client = connect::connect(&args.farm, Role::Operator).await?;
    let batch = Batch::of(&args, jetstream::new(client)).await?;
    let (begun, mut pace) = (Instant::now(), Pace::default());
    let mut progress = batch.look(begun, &mut pace).await?;
    progress.dead = batch.dead().await?;
    if progress.fed.is_none() && progress.left == 0 && progress.dead == 0 {
        tell(format_args!("no event of {} is in the farm, and no feeder of that name keeps a place there", args.batch));
        return Ok(REFUSED);
    }
    let wait = args.wait.unwrap_or(EVERY);
    while progress.left > 0 && begun.elapsed() < wait {
        sleep(EVERY.min(wait.saturating_sub(begun.elapsed()))).await;
        progress = batch.look(begun, &mut pace).await?;
        show(&progress, args.wait.is_some());
    }
    progress.dead = batch.dead().await?;
    clear();
    let line = if args.json {
        serde_json::to_string(&progress).map_err(|error| FarmError::output(format!("cannot write JSON: {error}")))?
    } else {
        shown(&progress)
    };
    output::print(&(line + "\n")).map_err(FarmError::output)?;
    let failed = args.wait.is_some() && (progress.left > 0 || progress.dead > 0);
    Ok(if failed { REFUSED } else { 0 })
}

struct Batch {
    context: Context,
    streams: Streams,
    farm: String,
    name: String,
    namespace: Option<String>,
}

impl Batch {
    async fn of(args: &args::Progress, context: Context) -> Result<Self, FarmError> {
        let streams = streams::existing(&context, &args.farm.farm).await?;
        let (farm, name) = (args.farm.farm.clone(), args.batch.clone());
        Ok(Self { context, streams, farm, name, namespace: args.namespace.clone() })
    }

    /// The batch's name in ids, and in the subject of its feeder's place.
    fn joined(&self, with: char) -> String {
        self.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}{with}")) + &self.name
    }

    async fn look(&self, begun: Instant, pace: &mut Pace) -> Result<Progress, FarmError> {
        let subject = names::place(&self.farm, &self.joined('.'));
        // The place first: what is fed after this look is not missing from the queue.
        let fed = feed::events_fed(&self.context, &self.farm, &subject).await?;
        let mut left = 0;
        for priority in Priority::ALL {
            let all = names::fed(&self.farm, priority, self.namespace.as_deref(), &self.name, "*");
            left += counts(&self.streams.events, &all).await?.into_iter().map(|(_, count)| count).sum::<u64>();
        }
        let done = fed.map(|fed| fed.saturating_sub(left));
        // Where it is not known how many are done, differences still say how quickly.
        let now = begun.elapsed().as_nanos() as Nanos;
        let per_second = pace.observe(now, done.unwrap_or(u64::MAX - left));
        let left_s = (per_second > 0.0).then(|| left as f64 / per_second);
        Ok(Progress { batch: self.joined('-'), fed, left, done, dead: 0, per_second, left_s })
    }

    /// Dead letters of this batch. An id begins with its feeder's name, and `a-1-7` may be of the feeder `a` or of `a-1`:
    /// the letter itself says it.
    async fn dead(&self) -> Result<u64, FarmError> {
        let (before, prefix) = (names::dead(&self.farm, ""), self.joined('-') + "-");
        let letters = counts(&self.streams.dead, &names::dead(&self.farm, "*")).await?;
        let may_be = |subject: &str| subject.strip_prefix(&before).is_some_and(|id| id.starts_with(&prefix));
        let mut dead = 0;
        for (subject, _) in letters.into_iter().filter(|(subject, _)| may_be(subject)) {
            // It may have been removed since.
            let Some(letter) = outcome::last(&self.streams.dead, subject).await? else { continue };
            let is_of_batch = letter.headers.get(names::BATCH).is_some_and(|batch| batch.as_str() == self.joined('.'));
            dead += u64::from(is_of_batch);
        }
        Ok(dead)
    }
}

/// Subjects of a stream, and how many messages each has there.
async fn counts(stream: &Stream<()>, filter: &str) -> Result<Vec<(String, u64)>, FarmError> {
    const CANNOT: &str = "cannot count events";
    let asked = async {
        let subjects = stream.info_with_subjects(filter).await.map_err(FarmError::nats(CANNOT))?;
        subjects.try_collect::<Vec<(String, usize)>>().await.map_err(FarmError::nats(CANNOT))
    };
    let found = tokio::select! {
        found = asked => found?,
        said = connect::denied() => return Err(FarmError::denied("count events", said)),
    };
    Ok(found.into_iter().map(|(subject, count)| (subject, count as u64)).collect())
}

fn shown(progress: &Progress) -> String {
    let Progress { batch, fed, left, done, dead, per_second, left_s } = progress;
    let done = match (done, fed) {
        (Some(done), Some(fed)) => format!("{done} of {fed} events done, "),
        _ => String::new(),
    };
    let dead = if *dead > 0 { format!(", dead letters: {dead}") } else { String::new() };
    let pace = match left_s.filter(|_| *left > 0) {
        Some(left_s) => format!(", {}/s, done in {}", amount(*per_second), time(left_s * 1e9)),
        None => String::new(),
    };
    format!("{batch}: {done}{left} left{dead}{pace}")
}

fn show(progress: &Progress, waits: bool) {
    if waits && io::stderr().is_terminal() {
        // A failure to show progress does not matter.
        drop(write!(io::stderr().lock(), "\r{}\x1b[K", shown(progress)));
    }
}

fn clear() {
    if io::stderr().is_terminal() {
        drop(write!(io::stderr().lock(), "\r\x1b[K"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_shown_with_what_is_known_of_it() {
        let mut progress = Progress {
            batch: "files".into(),
            fed: Some(2_000),
            left: 750,
            done: Some(1_250),
            per_second: 41.0,
            left_s: Some(18.3),
            ..Progress::default()
        };
        assert_eq!(shown(&progress), "files: 1250 of 2000 events done, 750 left, 41/s, done in 18s");
        (progress.left, progress.done, progress.dead) = (0, Some(2_000), 3);
        assert_eq!(shown(&progress), "files: 2000 of 2000 events done, 0 left, dead letters: 3");
        (progress.fed, progress.done, progress.left, progress.left_s) = (None, None, 5, None);
        assert_eq!(shown(&progress), "files: 5 left, dead letters: 3");
    }
}
