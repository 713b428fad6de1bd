//! `farm prune`: removes what every taker has, takers, and dead letters. `farm delete`: removes the farm.

use crate::args;
use crate::connect::{self, denied};
use crate::dead;
use crate::error::{Cause, FarmError};
use crate::large::{self, Contents, LargeError, Store};
use crate::status::Status;
use crate::streams::{self, names};
use async_nats::jetstream::stream::{DeleteMessageError, DeleteMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context, ErrorCode};
use futures_util::{StreamExt, TryStreamExt, stream};
use sidecore_terminal::output::{print, tell};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::timeout;

/// An active dispatcher publishes its state four times in this time.
const DISPATCHER_WAIT: Duration = Duration::from_secs(1);

/// First version that can purge older results without a loss. Earlier ones then forget the results that a taker has
/// received and not acknowledged, and never deliver them again (nats-server, commit 6c9a9fb4).
const PURGES_SAFELY: (i64, i64, i64) = (2, 9, 15);
/// Deletions in flight, where results are deleted one by one instead.
const MAX_DELETIONS: usize = 64;

/// Who takes results, and up to which number.
#[derive(Debug)]
pub(crate) struct Taker {
    name: String,
    floor: u64,
    left: u64,
}

/// What was removed, and what stays because of whom.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    removed: u64,
    /// The number up to which every taker has the results.
    pub(crate) floor: u64,
    takers: Vec<Taker>,
}

/// Removes the results that every taker has acknowledged. Without a taker nothing is removed.
pub(crate) async fn remove_taken(js: &Context, results: &Stream<()>) -> Result<Pruned, FarmError> {
    let takers = takers(results).await?;
    let Some(floor) = takers.iter().map(|taker| taker.floor).min().filter(|floor| *floor > 0) else {
        return Ok(Pruned { takers, ..Pruned::default() });
    };
    let (major, minor, patch) = PURGES_SAFELY;
    let purges = js.client().is_server_compatible(major, minor, patch);
    let removed = tokio::select! {
        removed = remove_to(results, floor, purges) => removed.map_err(FarmError::nats("cannot remove taken results"))?,
        said = denied() => return Err(FarmError::denied("remove taken results", said)),
    };
    Ok(Pruned { removed, floor, takers })
}

/// Removes the results up to the number `floor`. Returns how many.
async fn remove_to(results: &Stream<()>, floor: u64, purges: bool) -> Result<u64, Cause> {
    if purges {
        return Ok(results.purge().sequence(floor + 1).await?.purged);
    }
    let first = results.get_info().await?.state.first_sequence;
    let delete = async |number| match results.delete_message(number).await {
        Ok(_) => Ok(1),
        Err(error) if is_gone(&error) => Ok(0),
        Err(error) => Err(Cause::from(error)),
    };
    let deleted = stream::iter(first..=floor).map(delete).buffer_unordered(MAX_DELETIONS);
    deleted.try_fold(0, async |sum, one| Ok(sum + one)).await
}

/// Whether another taker has removed the result meanwhile.
fn is_gone(error: &DeleteMessageError) -> bool {
    let gone = [ErrorCode::SEQUENCE_NOT_FOUND, ErrorCode::STREAM_MESSAGE_DELETE_FAILED];
    matches!(error.kind(), DeleteMessageErrorKind::JetStream(error) if gone.contains(&error.error_code()))
}

async fn takers(results: &Stream<()>) -> Result<Vec<Taker>, FarmError> {
    let listed = results.consumers().map_ok(|info| Taker {
        name: info.name,
        floor: info.ack_floor.stream_sequence,
        left: info.num_pending + info.num_ack_pending as u64,
    });
    tokio::select! {
        listed = listed.try_collect() => listed.map_err(FarmError::nats("cannot list the takers")),
        said = denied() => Err(FarmError::denied("list the takers", said)),
    }
}

pub(crate) async fn prune(args: args::Prune) -> Result<u8, FarmError> {
    let client = connect::connect(&args.farm, connect::Role::Operator).await?;
    let js = jetstream::new(client);
    let streams = streams::existing(&js, &args.farm.farm).await?;
    for name in &args.forget {
        let gone = streams.results.delete_consumer(name).await;
        gone.map_err(FarmError::nats(format!("cannot forget the taker {name}")))?;
        tell(format_args!("forgot the taker {name}; if it takes again, it begins with the results that are left"));
    }
    remove_taken_objects(&js, &args.farm.farm, &streams.results).await?;
    let Pruned { removed, takers, .. } = remove_taken(&js, &streams.results).await?;
    let mut text = format!("taken results removed: {removed}\n");
    for Taker { name, left, .. } in &takers {
        let _ = match left {
            0 => writeln!(text, "{name} has taken all"),
            left => writeln!(
                text,
                "{name} has not taken {left}: `sidecore farm results --name {name}` takes them, `sidecore farm prune --forget {name}` gives them up"
            ),
        };
    }
    if takers.is_empty() {
        text += "nobody has taken results: `sidecore farm results` does\n";
    }
    if args.dead {
        remove_dead_objects(js, &args.farm.farm, &streams.dead).await?;
        let purged = streams.dead.purge().await.map_err(FarmError::nats("cannot remove dead letters"))?;
        let _ = writeln!(text, "dead letters removed: {}", purged.purged);
    }
    print(&text).map_err(FarmError::output)?;
    Ok(0)
}

/// Removes what large events of dead letters hold in their store. The event of a letter on its way may be in the queue.
async fn remove_dead_objects(js: Context, farm: &str, dead: &Stream<()>) -> Result<(), FarmError> {
    let store = Store::new(js, farm, Contents::Events);
    remove_objects(&store, dead, &names::dead(farm, "*"), u64::MAX).await
}

/// Removes what results that every taker has hold in their store. A taker does so for those that it has taken itself.
async fn remove_taken_objects(js: &Context, farm: &str, results: &Stream<()>) -> Result<(), FarmError> {
    let floor = takers(results).await?.iter().map(|taker| taker.floor).min().unwrap_or_default();
    let store = Store::new(js.clone(), farm, Contents::Results);
    remove_objects(&store, results, &names::result(farm, "*"), floor).await
}

/// Removes the objects of a stream's messages up to the number `last`.
async fn remove_objects(store: &Store, of: &Stream<()>, subject: &str, last: u64) -> Result<(), FarmError> {
    if !store.is_there().await? {
        return Ok(());
    }
    let mut next = 1;
    while let Some(message) = dead::from(of, subject, next).await?.filter(|message| message.sequence <= last) {
        next = message.sequence + 1;
        if dead::is_on_its_way(&message) {
            continue;
        }
        match store.remove(&large::payload_of(Some(&message.headers), message.payload)).await {
            // Of the latter there is none, or not this one.
            Ok(()) | Err(LargeError::NoReference | LargeError::Spoilt(_)) => {}
            Err(error) => tell(format_args!("an object stays until its age ends it: {error}")),
        }
    }
    Ok(())
}

pub(crate) async fn delete(args: args::Delete) -> Result<u8, FarmError> {
    let client = connect::connect(&args.farm, connect::Role::Operator).await?;
    let farm = &args.farm.farm;
    let shown = client.subscribe(format!("farm.{farm}.status")).await;
    let mut shown = shown.map_err(FarmError::nats("cannot ask for a dispatcher"))?;
    let js = jetstream::new(client);
    if let Ok(Some(message)) = timeout(DISPATCHER_WAIT, shown.next()).await
        && serde_json::from_slice::<Status>(&message.payload).is_ok_and(|status| status.active)
    {
        return Err(FarmError::Dispatched(farm.clone()));
    }
    let mut counts = Vec::new();
    let stores = names::stores(farm).map(|store| names::stream_of(&store));
    for name in names::streams(farm).into_iter().chain(stores) {
        if let Ok(mut stream) = js.get_stream(&name).await {
            let info = stream.info().await.map_err(FarmError::nats(format!("cannot look at {name}")))?;
            counts.push((name, info.state.messages));
        }
    }
    if counts.is_empty() {
        return Err(streams::error::StreamError::NoFarm(farm.clone()).into());
    }
    if !args.yes {
        return Err(FarmError::NotConfirmed(
            counts.iter().map(|(name, messages)| format!("{messages} in {name}")).collect::<Vec<_>>().join(", "),
        ));
    }
    for (name, messages) in counts {
        js.delete_stream(&name).await.map_err(FarmError::nats(format!("cannot delete {name}")))?;
        tell(format_args!("deleted {name}, messages in it: {messages}"));
    }
    Ok(0)
}
