//! The baseline: `JetStream` pull consumers without a farm. A node has a fixed number of messages in flight, does the
//! same work one by one, stores each result under the event's id, and acknowledges.

use super::error::Unmeasured;
use super::load;
use crate::args::farm::Pull;
use crate::farm::error::FarmError;
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::{Config as Consuming, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy};
use async_nats::jetstream::{Context, Message};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use sidecore_farm::sleep;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) const EVENTS: &str = "pull-events";
pub(crate) const RESULTS: &str = "pull-results";
pub(crate) const EVENT: &str = "pull.events.any";
pub(crate) const DONE: &str = "pull.done";
const CONSUMER: &str = "pull";
/// Longest time until an acknowledgement: no node of this baseline is killed.
const ACK_WAIT: Duration = Duration::from_secs(60);
/// More than all nodes have in flight.
const MAX_UNACKNOWLEDGED: i64 = 65_536;
const STANDS: Duration = Duration::from_secs(30);
const BEAT: Duration = Duration::from_secs(5);
const MAX_BYTES: i64 = 1 << 30;

/// Times of a node's first and last message, ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

pub(crate) async fn set_up(js: &Context) -> Result<(), FarmError> {
    const WRONG: &str = "cannot set up pull consumers";
    take_down(js).await;
    let made = |name: &str, subject: &str, retention| Config {
        name: name.into(),
        subjects: vec![subject.into()],
        retention,
        discard: DiscardPolicy::New,
        max_bytes: MAX_BYTES,
        ..Config::default()
    };
    let events = made(EVENTS, "pull.events.*", RetentionPolicy::WorkQueue);
    let events = js.create_stream(events).await.map_err(FarmError::nats(WRONG))?;
    let results = made(RESULTS, "pull.results.*", RetentionPolicy::Limits);
    js.create_stream(results).await.map_err(FarmError::nats(WRONG))?;
    let consumer = Consuming {
        durable_name: Some(CONSUMER.into()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: MAX_UNACKNOWLEDGED,
        ..Consuming::default()
    };
    events.create_consumer(consumer).await.map_err(FarmError::nats(WRONG))?;
    Ok(())
}

pub(crate) async fn take_down(js: &Context) {
    for name in [EVENTS, RESULTS] {
        // A stream that does not exist needs no removal.
        let _ = js.delete_stream(name).await;
    }
}

pub(crate) async fn consumer(js: &Context) -> Result<PullConsumer, FarmError> {
    js.get_consumer_from_stream(CONSUMER, EVENTS).await.map_err(FarmError::nats("no pull consumer"))
}

pub(crate) async fn messages(consumer: &PullConsumer, in_flight: usize) -> Result<Messages, FarmError> {
    let messages = consumer.stream().max_messages_per_batch(in_flight).expires(STANDS).heartbeat(BEAT).messages().await;
    messages.map_err(FarmError::nats("cannot ask for messages"))
}

pub(crate) fn id(message: &Message) -> &str {
    message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")).map_or("none", |id| id.as_str())
}

pub(crate) async fn work(args: &Pull) -> Result<u8, FarmError> {
    const WRONG: &str = "pull consumer";
    let client = async_nats::connect(&args.server).await.map_err(FarmError::nats(WRONG))?;
    let node = Node {
        js: async_nats::jetstream::new(client.clone()),
        turn: Arc::new(Semaphore::new(1)),
        unit: args.sleep,
        stores: !args.no_results,
    };
    let consumer: PullConsumer =
        node.js.get_consumer_from_stream(CONSUMER, EVENTS).await.map_err(FarmError::nats(WRONG))?;
    if let Some(count) = args.count {
        let taken = node.take(&consumer, args.in_flight, count).await?;
        let taken = serde_json::to_vec(&taken).map_err(FarmError::nats(WRONG))?;
        client.publish(DONE, taken.into()).await.map_err(FarmError::nats(WRONG))?;
        client.flush().await.map_err(FarmError::nats(WRONG))?;
        return Ok(0);
    }
    let mut places = JoinSet::new();
    for _ in 0..args.in_flight {
        let (node, consumer) = (node.clone(), consumer.clone());
        places.spawn(async move { node.one_after_the_other(&consumer).await });
    }
    if let Some(ended) = places.join_next().await {
        ended.map_err(FarmError::nats(WRONG))??;
    }
    Ok(0)
}

#[derive(Clone)]
struct Node {
    js: Context,
    /// Work is done one by one, independent of the number in flight.
    turn: Arc<Semaphore>,
    unit: Duration,
    stores: bool,
}

impl Node {
    /// One slot: requests a message, does it, acknowledges, and repeats. A node with N slots never has more than N
    /// messages.
    async fn one_after_the_other(&self, consumer: &PullConsumer) -> Result<(), FarmError> {
        loop {
            let batch = consumer.batch().max_messages(1).expires(STANDS).messages().await;
            let mut batch = batch.map_err(FarmError::nats("cannot ask for a message"))?;
            while let Some(message) = batch.next().await {
                self.finish(message.map_err(FarmError::nats("cannot take a message"))?).await?;
            }
        }
    }

    async fn take(&self, consumer: &PullConsumer, in_flight: usize, count: u64) -> Result<Taken, FarmError> {
        let mut messages = messages(consumer, in_flight).await?;
        let mut taken = Taken { first_ns: 0, last_ns: 0 };
        let mut going = JoinSet::new();
        for number in 0..count {
            let message = messages.next().await.ok_or(Unmeasured::MessagesEnded)?;
            let message = message.map_err(FarmError::nats("cannot take a message"))?;
            if number == 0 {
                taken.first_ns = now_ns();
            }
            if self.stores {
                let node = self.clone();
                going.spawn(async move { node.finish(message).await });
            } else {
                message.ack().await.map_err(FarmError::nats("cannot acknowledge"))?;
            }
            while going.len() >= in_flight
                && let Some(ended) = going.join_next().await
            {
                ended??;
            }
        }
        while let Some(ended) = going.join_next().await {
            ended??;
        }
        Ok(Taken { last_ns: now_ns(), ..taken })
    }

    async fn finish(&self, message: Message) -> Result<(), FarmError> {
        let units = load::units(&message.payload).unwrap_or(0);
        if units > 0 {
            let _turn = self.turn.acquire().await.map_err(Unmeasured::from)?;
            sleep(self.unit * units).await.map_err(FarmError::system("cannot sleep"))?;
        }
        if self.stores {
            self.store(&message).await?;
        }
        message.ack().await.map_err(FarmError::nats("cannot acknowledge"))
    }

    async fn store(&self, message: &Message) -> Result<(), FarmError> {
        const WRONG: &str = "cannot store a result";
        let id = id(message);
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id);
        let subject = format!("pull.results.{id}");
        let sent = self.js.publish_with_headers(subject, headers, "done".into()).await;
        sent.map_err(FarmError::nats(WRONG))?.await.map_err(FarmError::nats(WRONG))?;
        Ok(())
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
