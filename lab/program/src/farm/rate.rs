//! `rate`: small events without work through one node. Measures the farm's cost against bare `JetStream`: events a
//! second, and time from publishing to a worker.

use super::columns::{self, OPS_PER_S};
use super::contest::{Entry, Figure, Goal, Measured, compared, measure as contest, row};
use super::error::Unmeasured;
use super::feeding::Target;
use super::found::rate;
use super::load::{Dice, filled};
use super::pull::{self, Taken};
use super::results;
use super::rows::percentiles;
use super::running::{FARM, Running, Variant, pull_node};
use super::stand::{Stand, until};
use super::watch::{Watcher, locked};
use crate::farm::error::FarmError;
use crate::farm::roles;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt;
use sidecore_report::{Row, column};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::timeout;

const SIZE: usize = 1024;
/// Messages in flight of a pulling node: enough for its full speed.
const IN_FLIGHT: usize = 512;
/// Events a second for the time to a worker: few enough that none waits for another.
const SELDOM: f64 = 500.0;
const RUN_TIMEOUT: Duration = Duration::from_secs(120);
/// A unit of work; these events have none.
const UNIT: Duration = Duration::from_micros(1);
/// The farm with and without results; nodes that pull, store and acknowledge; nodes that pull and acknowledge only.
const THROUGH_THE_FARM: Variant = Variant::Farm("tokens");
const THROUGH_UNSTORED: Variant = Variant::Unstored("tokens");
const PULL_AND_STORE: Variant = Variant::Pull(IN_FLIGHT);
const PULL: Variant = Variant::Bare(IN_FLIGHT);

pub(crate) async fn measure(stand: &Stand) -> Result<Measured, FarmError> {
    let repeats = stand.pick(1, 5);
    let variants = [THROUGH_UNSTORED, PULL, THROUGH_THE_FARM, PULL_AND_STORE];
    let rates = contest(stand, "rate", &variants, repeats, async |variant, _| through(stand, variant).await).await?;
    let ways = contest(stand, "way", &[THROUGH_THE_FARM, PULL], repeats, async |variant, seed| {
        way(stand, variant, seed).await
    })
    .await?;
    let rates = rows(stand, "rate", &rates, OPS_PER_S, (column::AT_LEAST, 0.7));
    let ways = rows(stand, "way", &ways, columns::QUEUE_P50, (column::AT_MOST, 1.5));
    Ok(([rates, ways].concat(), None))
}

/// Pairs of a farm's row and its baseline: both store results, or neither does.
fn rows(stand: &Stand, scenario: &str, entries: &[Entry], figure: Figure, reach: Goal) -> Vec<Row> {
    let row = |entry, bare| {
        let row = row(stand, scenario, entry, figure).with(column::DEVICES, "1 node").with(columns::SIZE, SIZE);
        compared(row, entry, bare, figure, reach)
    };
    entries.chunks_exact(2).flat_map(|pair| [row(&pair[0], &pair[1]), row(&pair[1], &pair[1])]).collect()
}

async fn through(stand: &Stand, variant: Variant) -> Result<Row, FarmError> {
    let count = stand.pick(20_000, 100_000);
    let mut running = Running::without_nodes(stand, variant, &[]).await?;
    running.target.all_at_once((0..count).map(|_| (0, filled(0, SIZE)))).await?;
    running.begin();
    let found = match variant {
        Variant::Farm(_) => through_the_farm(stand, &mut running, count).await?,
        Variant::Unstored(_) => drained(stand, &mut running, count).await?,
        Variant::Pull(in_flight) | Variant::Bare(in_flight) => {
            let stores = matches!(variant, Variant::Pull(_));
            pulled(stand, &mut running, in_flight, count, stores).await?
        }
    };
    let found = found.and(&running.cpu(count));
    running.end().await;
    Ok(found)
}

async fn through_the_farm(stand: &Stand, running: &mut Running<'_>, count: usize) -> Result<Row, FarmError> {
    running.nodes.push(roles::node(stand, FARM, 0, UNIT)?);
    running.finish(count, RUN_TIMEOUT).await?;
    let stored = results::all(&stand.js, &running.results).await?;
    if stored.len() < count {
        return Err(Unmeasured::Few { came: stored.len(), count, seconds: RUN_TIMEOUT.as_secs() }.into());
    }
    Ok(Row::default().with(OPS_PER_S, rate(&stored)))
}

/// Speed of emptying the queue after its first tenth: acknowledged events are removed.
async fn drained(stand: &Stand, running: &mut Running<'_>, count: usize) -> Result<Row, FarmError> {
    running.nodes.push(roles::node(stand, FARM, 0, UNIT)?);
    let (from, left) = (count as u64 * 9 / 10, async || results::count(&stand.js, &running.events).await);
    until("events to be done", RUN_TIMEOUT, async || Ok(left().await? <= from)).await?;
    let (begun, rest) = (Instant::now(), left().await?);
    until("all events to be done", RUN_TIMEOUT, async || Ok(left().await? == 0)).await?;
    Ok(Row::default().with(OPS_PER_S, rest as f64 / begun.elapsed().as_secs_f64()))
}

/// The node itself reports its first and last event: without results no other process knows them.
async fn pulled(
    stand: &Stand,
    running: &mut Running<'_>,
    in_flight: usize,
    count: usize,
    stores: bool,
) -> Result<Row, FarmError> {
    const SILENT: &str = "the node that pulls did not say how fast it was";
    let mut done = stand.client.subscribe(pull::DONE).await.map_err(FarmError::nats(SILENT))?;
    let mut further = vec!["--count".to_owned(), count.to_string()];
    further.extend((!stores).then(|| "--no-results".to_owned()));
    running.nodes.push(pull_node(stand, 0, in_flight, UNIT, &further)?);
    let said = timeout(RUN_TIMEOUT, done.next()).await.map_err(FarmError::nats(SILENT))?;
    let said = said.ok_or("nothing").map_err(FarmError::nats(SILENT))?;
    let taken: Taken = serde_json::from_slice(&said.payload).map_err(FarmError::nats(SILENT))?;
    let seconds = taken.last_ns.saturating_sub(taken.first_ns) as f64 / 1e9;
    Ok(Row::default().with(OPS_PER_S, (seconds > 0.0).then(|| (count - 1) as f64 / seconds)))
}

/// Time from publishing until a worker has the event. This process publishes; it also receives the messages to the
/// farm's node, or pulls itself.
async fn way(stand: &Stand, variant: Variant, seed: u64) -> Result<Row, FarmError> {
    let lasting = stand.pick(Duration::from_secs(2), Duration::from_secs(10));
    let running = Running::without_nodes(stand, variant, &[]).await?;
    let times = match variant {
        Variant::Farm(_) | Variant::Unstored(_) => way_through_the_farm(stand, &running.target, seed, lasting).await,
        Variant::Pull(_) | Variant::Bare(_) => way_of_a_pull(stand, &running.target, seed, lasting).await,
    };
    running.end().await;
    Ok(Row::default().with_times(columns::QUEUE, percentiles(times?)))
}

async fn way_through_the_farm(
    stand: &Stand,
    target: &Target,
    seed: u64,
    lasting: Duration,
) -> Result<Vec<Duration>, FarmError> {
    let watcher = Watcher::new(&stand.client, FARM).await?;
    let _node = roles::node(stand, FARM, 0, UNIT)?;
    until("the node to join", RUN_TIMEOUT, async || Ok(watcher.seen().welcomed() == 1)).await?;
    let events = target.poisson(&mut Dice::new(seed), SELDOM, lasting, |_| filled(0, SIZE)).await?;
    let all = || events.iter().all(|event| watcher.seen().first(&event.id).is_some());
    until("all events at the node", RUN_TIMEOUT, async || Ok(all())).await?;
    let watch = watcher.seen();
    Ok(events.iter().filter_map(|event| watch.first(&event.id)?.duration_since(event.sent).ok()).collect())
}

async fn way_of_a_pull(
    stand: &Stand,
    target: &Target,
    seed: u64,
    lasting: Duration,
) -> Result<Vec<Duration>, FarmError> {
    let consumer: PullConsumer = pull::consumer(&stand.js).await?;
    let mut messages = pull::messages(&consumer, IN_FLIGHT).await?;
    let arrivals: Arc<Mutex<HashMap<String, SystemTime>>> = Arc::default();
    let noted = arrivals.clone();
    let listening = tokio::spawn(async move {
        while let Some(Ok(message)) = messages.next().await {
            let now = SystemTime::now();
            let id = pull::id(&message).to_owned();
            locked(&noted).insert(id, now);
            if message.ack().await.is_err() {
                return;
            }
        }
    });
    let events = target.poisson(&mut Dice::new(seed), SELDOM, lasting, |_| filled(0, SIZE)).await?;
    until("all messages", RUN_TIMEOUT, async || Ok(locked(&arrivals).len() >= events.len())).await?;
    listening.abort();
    let at = locked(&arrivals);
    Ok(events.iter().filter_map(|event| at.get(&event.id)?.duration_since(event.sent).ok()).collect())
}
