//! The baseline: `JetStream` pull consumers without a farm. A node has a fixed number of messages in flight, does the
//! same work one by one, stores each result under the event's id, and acknowledges.

use super::load;
use crate::args::bench::Pull;
use crate::work::sleep::sleep;
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::pull::{Config as Consuming, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy};
use async_nats::jetstream::{Context, Message};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The streams, and the subject of events.
pub(crate) const EVENTS: &str = "pull-events";
pub(crate) const RESULTS: &str = "pull-results";
pub(crate) const EVENT: &str = "pull.events.any";
/// Subject for a node's report of its first and last message.
pub(crate) const DONE: &str = "pull.done";
const CONSUMER: &str = "pull";
/// Longest time until an acknowledgement: no node of this baseline is killed.
const ACK_WAIT: Duration = Duration::from_secs(60);
/// More than all nodes have in flight.
const MAX_UNACKNOWLEDGED: i64 = 65_536;
/// Lifetime of one request for a message.
const STANDS: Duration = Duration::from_secs(30);
/// Interval of the server's heartbeats while no message comes.
const BEAT: Duration = Duration::from_secs(5);
/// Limit of each stream.
const MAX_BYTES: i64 = 1 << 30;

/// Times of a node's first and last message, ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

/// Creates the streams anew, empty.
///
/// # Errors
/// The server refuses.
pub(crate) async fn set_up(js: &Context) -> Result<(), String> {
    take_down(js).await;
    let made = |name: &str, subject: &str, retention| Config {
        name: name.into(),
        subjects: vec![subject.into()],
        retention,
        discard: DiscardPolicy::New,
        max_bytes: MAX_BYTES,
        ..Config::default()
    };
    let wrong = |error: &dyn std::fmt::Display| format!("cannot set up pull consumers: {error}");
    let events = made(EVENTS, "pull.events.*", RetentionPolicy::WorkQueue);
    let events = js.create_stream(events).await.map_err(|error| wrong(&error))?;
    let results = made(RESULTS, "pull.results.*", RetentionPolicy::Limits);
    js.create_stream(results).await.map_err(|error| wrong(&error))?;
    let consumer = Consuming {
        durable_name: Some(CONSUMER.into()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: MAX_UNACKNOWLEDGED,
        ..Consuming::default()
    };
    events.create_consumer(consumer).await.map_err(|error| wrong(&error))?;
    Ok(())
}

pub(crate) async fn take_down(js: &Context) {
    for name in [EVENTS, RESULTS] {
        // A stream that does not exist needs no removal.
        let _ = js.delete_stream(name).await;
    }
}

/// The consumer that all nodes share.
///
/// # Errors
/// It does not exist.
pub(crate) async fn consumer(js: &Context) -> Result<PullConsumer, String> {
    js.get_consumer_from_stream(CONSUMER, EVENTS).await.map_err(|error| format!("no pull consumer: {error}"))
}

/// The consumer's messages, requested in batches of `in_flight`.
///
/// # Errors
/// The request fails.
pub(crate) async fn messages(consumer: &PullConsumer, in_flight: usize) -> Result<Messages, String> {
    let messages = consumer.stream().max_messages_per_batch(in_flight).expires(STANDS).heartbeat(BEAT).messages().await;
    messages.map_err(|error| format!("cannot ask for messages: {error}"))
}

pub(crate) fn id(message: &Message) -> &str {
    message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")).map_or("none", |id| id.as_str())
}

/// Runs a node. Returns once it has taken the number of messages it was given, else only on failure.
///
/// # Errors
/// The server is gone.
pub(crate) async fn work(args: &Pull) -> Result<u8, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("pull consumer: {error}");
    let client = async_nats::connect(&args.server).await.map_err(|error| wrong(&error))?;
    let node = Node {
        js: async_nats::jetstream::new(client.clone()),
        turn: Arc::new(Semaphore::new(1)),
        unit: args.sleep,
        stores: !args.no_results,
    };
    let consumer: PullConsumer =
        node.js.get_consumer_from_stream(CONSUMER, EVENTS).await.map_err(|error| wrong(&error))?;
    if let Some(count) = args.count {
        let taken = node.take(&consumer, args.in_flight, count).await?;
        let taken = serde_json::to_vec(&taken).map_err(|error| wrong(&error))?;
        client.publish(DONE, taken.into()).await.map_err(|error| wrong(&error))?;
        client.flush().await.map_err(|error| wrong(&error))?;
        return Ok(0);
    }
    let mut places = JoinSet::new();
    for _ in 0..args.in_flight {
        let (node, consumer) = (node.clone(), consumer.clone());
        places.spawn(async move { node.one_after_the_other(&consumer).await });
    }
    match places.join_next().await {
        Some(Ok(Err(error))) => Err(error),
        Some(Err(error)) => Err(wrong(&error)),
        Some(Ok(Ok(()))) | None => Ok(0),
    }
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
    async fn one_after_the_other(&self, consumer: &PullConsumer) -> Result<(), String> {
        loop {
            let batch = consumer.batch().max_messages(1).expires(STANDS).messages().await;
            let mut batch = batch.map_err(|error| format!("cannot ask for a message: {error}"))?;
            while let Some(message) = batch.next().await {
                self.finish(message.map_err(|error| format!("cannot take a message: {error}"))?).await?;
            }
        }
    }

    async fn take(&self, consumer: &PullConsumer, in_flight: usize, count: u64) -> Result<Taken, String> {
        let messages =
            consumer.stream().max_messages_per_batch(in_flight).expires(STANDS).heartbeat(BEAT).messages().await;
        let mut messages: Messages = messages.map_err(|error| format!("cannot ask for messages: {error}"))?;
        let mut taken = Taken { first_ns: 0, last_ns: 0 };
        let mut going = JoinSet::new();
        for number in 0..count {
            let message = messages.next().await.ok_or("the messages ended")?;
            let message = message.map_err(|error| format!("cannot take a message: {error}"))?;
            if number == 0 {
                taken.first_ns = now_ns();
            }
            if self.stores {
                let node = self.clone();
                going.spawn(async move { node.finish(message).await });
            } else {
                message.ack().await.map_err(|error| format!("cannot acknowledge: {error}"))?;
            }
            while going.len() >= in_flight {
                ended(going.join_next().await)?;
            }
        }
        while !going.is_empty() {
            ended(going.join_next().await)?;
        }
        Ok(Taken { last_ns: now_ns(), ..taken })
    }

    /// Does the work, stores the result, and only then acknowledges.
    async fn finish(&self, message: Message) -> Result<(), String> {
        let units = load::units(&message.payload).unwrap_or(0);
        if units > 0 {
            let _turn = self.turn.acquire().await.map_err(|error| error.to_string())?;
            sleep(self.unit * units).await.map_err(|error| format!("cannot sleep: {error}"))?;
        }
        if self.stores {
            self.store(&message).await?;
        }
        message.ack().await.map_err(|error| format!("cannot acknowledge: {error}"))
    }

    async fn store(&self, message: &Message) -> Result<(), String> {
        let id =
            message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")).map_or("none", |id| id.as_str());
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id);
        let wrong = |error: &dyn std::fmt::Display| format!("cannot store a result: {error}");
        let subject = format!("pull.results.{id}");
        let sent = self.js.publish_with_headers(subject, headers, "done".into()).await;
        sent.map_err(|error| wrong(&error))?.await.map_err(|error| wrong(&error))?;
        Ok(())
    }
}

fn ended(task: Option<Result<Result<(), String>, tokio::task::JoinError>>) -> Result<(), String> {
    task.unwrap_or(Ok(Ok(()))).unwrap_or_else(|error| Err(error.to_string()))
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
