//! `farm feed`: reads events, gives each an id, and stores them in the farm's work queue.
//!
//! A source reads events one by one, and waits while too many are read and not stored. An event keeps its id over all
//! attempts, so the servers store it once. After a lost connection everything unacknowledged is published again. A
//! feeder with a name stores its place in the farm: the end of the completed events.

mod directory;
pub(crate) mod error;
mod hold;
mod input;
mod listen;
mod outbox;
mod place;
mod pump;
mod source;
mod splitter;
mod summary;

use crate::args::{Durability, Feed};
use crate::connect;
use crate::error::FarmError;
use crate::ids::Ids;
use crate::large::{Contents, Store};
use crate::streams::{self, error::StreamError};
use async_nats::jetstream;
use place::Keeper;
pub(crate) use place::events_fed;
use pump::{Account, Pump};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

const QUEUE: usize = 16;
/// Most bytes that headers and the message to a node add to an event.
pub(crate) const HEADROOM: usize = 1_024;
const FAREWELL: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: Feed) -> Result<u8, FarmError> {
    let again = Arc::new(Notify::new());
    let connected = Arc::clone(&again);
    let heard = move |event: &async_nats::Event| {
        if matches!(event, async_nats::Event::Connected) {
            connected.notify_one();
        }
    };
    let client = connect::connect_and_hear(&args.farm, connect::Role::Feeder, heard).await?;
    let js = jetstream::new(client.clone());
    // A feeder with an account of its own reaches the subjects of its events and places, and no streams.
    let account = match streams::ensure(&js, &args.farm.farm, &args.durability).await {
        Ok(_) => {
            streams::warn_of_replicas(&js, &args.farm.farm).await?;
            let large = Store::new(js.clone(), &args.farm.farm, Contents::Events);
            Account::Farms(if large.is_there().await? { Some(Arc::new(large)) } else { None })
        }
        Err(denied @ StreamError::Denied(_)) if args.durability == Durability::default() => {
            Account::Own(place::namespace(&js, &args.farm.farm, denied).await?)
        }
        Err(error) => return Err(error.into()),
    };
    let limit = account.limit(&client);
    let ids = Ids::new(args.name.as_deref(), &client);
    let batch = ids.feeder().to_owned();
    let (give, take) = mpsc::channel(QUEUE);
    let source = source::open(&args, limit, ids).await?;
    let keeper = match (&args.name, source.place()) {
        (Some(name), Some(place)) => Some(Keeper::open(&js, &args.farm.farm, name, place?, account.is_farms()).await?),
        _ => None,
    };
    let source = source.go_on_from(keeper.as_ref().map(Keeper::place)).await?;
    let room = source.room();
    let mut pump = Pump::open(&args, client, &batch, keeper, again, take, account).await?;
    let code = pump.run(tokio::spawn(source.run(give))).await;
    drop(pump);
    if let Some(room) = room {
        // Clients receive their last line. A client that does not read is not waited for.
        drop(timeout(FAREWELL, room.acquire_many(args.connections.into())).await);
    }
    code
}
