//! The work queue: one request for messages at a time, as large as there is room.

use super::known::{Origin, Place};
use crate::handout::Room;
use crate::streams::{Streams, names};
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{Client, HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use serde::Serialize;
use sidecore_core::time::Nanos;
use std::time::Duration;

/// The server takes a message back that is not acknowledged for so long. Whoever becomes active takes all of them at once.
const ACK_WAIT: Duration = Duration::from_secs(24 * 3_600);
/// How long a request for messages waits for them at the server, and how often the server says that it has it.
const EXPIRES: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_millis(500);
/// A request of which nothing was heard for so long is lost.
const SILENCE: Nanos = 2_000_000_000;
/// Requests that are lost one after the other until the consumer is taken for gone.
const MOST_LOST: u32 = 2;
/// After one that ended otherwise than by messages or time.
const PAUSE: Nanos = 50_000_000;
/// Largest request.
const MOST: usize = 8192;

/// What a message of the queue's inbox is.
pub(super) enum Taken {
    Event(Message, Place),
    /// Of the queue itself; it is dealt with.
    Said,
    /// There is no such consumer any more: another dispatcher took the queue, or somebody removed it.
    Gone,
}

pub(super) struct Queue {
    client: Client,
    ask: String,
    inbox: String,
    /// Number of the request, messages that it may still bring, and when it was heard of.
    request: u64,
    left: usize,
    heard: Nanos,
    lost: u32,
    /// No request before.
    not_before: Nanos,
}

#[derive(Serialize)]
struct Request {
    batch: usize,
    max_bytes: usize,
    expires: u128,
    idle_heartbeat: u128,
}

impl Queue {
    pub(super) fn new(client: &Client, farm: &str) -> Self {
        let [events, ..] = names::streams(farm);
        Self {
            client: client.clone(),
            ask: format!("$JS.API.CONSUMER.MSG.NEXT.{events}.{}", consumer(farm)),
            inbox: String::new(),
            request: 0,
            left: 0,
            heard: 0,
            lost: 0,
            not_before: 0,
        }
    }

    /// Makes the consumer anew: all that is not acknowledged comes again, and whoever had it before has it no more.
    pub(super) async fn begin(
        &mut self,
        context: &Context,
        farm: &str,
        streams: &Streams,
    ) -> Result<Subscriber, String> {
        let [events, ..] = names::streams(farm);
        let name = consumer(farm);
        match context.delete_consumer_from_stream(&name, &events).await {
            Ok(_) => {}
            Err(error) if is_none(&error) => {}
            // What it handed out before would never come again.
            Err(error) => return Err(format!("cannot make the consumer of {events} anew: {error}")),
        }
        let config = pull::Config {
            durable_name: Some(name),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: -1,
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        let made = streams.events.create_consumer(config).await;
        let made = made.map_err(|error| format!("cannot take events from {events}: {error}"))?;
        let waits = made.cached_info().num_ack_pending;
        if waits > 0 {
            return Err(format!(
                "the consumer of {events} is not a new one: {waits} of its messages are with somebody"
            ));
        }
        self.inbox = self.client.new_inbox();
        (self.left, self.lost, self.not_before) = (0, 0, 0);
        let inbox = self.client.subscribe(format!("{}.*", self.inbox)).await;
        inbox.map_err(|error| format!("cannot receive events: {error}"))
    }

    /// Asks for messages, where none are under way and there is room for some.
    pub(super) async fn ask(&mut self, now: Nanos, room: Room, least: usize) {
        if self.left > 0
            || now < self.not_before
            || room.events < least.max(1)
            || room.bytes < self.client.max_payload()
        {
            return;
        }
        self.request += 1;
        self.left = room.events.min(MOST);
        self.heard = now;
        let request = Request {
            batch: self.left,
            max_bytes: room.bytes,
            expires: EXPIRES.as_nanos(),
            idle_heartbeat: HEARTBEAT.as_nanos(),
        };
        let reply = format!("{}.{}", self.inbox, self.request);
        let body = serde_json::to_vec(&request).unwrap_or_default();
        // Where it does not arrive, nothing is heard of it.
        let _ = self.client.publish_with_reply(self.ask.clone(), reply, body.into()).await;
    }

    /// A message of the inbox.
    pub(super) fn take(&mut self, now: Nanos, message: Message) -> Taken {
        self.heard = now;
        if let Some(status) = message.status {
            return self.told(now, status, &message);
        }
        let Some(place) = message.reply.as_ref().and_then(|reply| Place::of(reply)) else { return Taken::Said };
        self.left = self.left.saturating_sub(1);
        self.lost = 0;
        Taken::Event(message, place)
    }

    /// Whether the queue has been silent for too long.
    pub(super) fn is_gone(&mut self, now: Nanos) -> bool {
        if self.left > 0 && now.saturating_sub(self.heard) > SILENCE {
            self.left = 0;
            self.lost += 1;
        }
        self.lost >= MOST_LOST
    }

    fn told(&mut self, now: Nanos, status: StatusCode, message: &Message) -> Taken {
        let request = message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
        if request != Some(self.request) || status == StatusCode::IDLE_HEARTBEAT {
            return Taken::Said;
        }
        self.left = 0;
        if status == StatusCode::NO_RESPONDERS || message.description.as_deref() == Some("Consumer Deleted") {
            return Taken::Gone;
        }
        if status != StatusCode::TIMEOUT {
            self.not_before = now + PAUSE;
        }
        Taken::Said
    }
}

/// Id, kind, body, and what is kept with an event.
pub(super) fn event(message: Message, place: Place) -> Option<(Box<str>, Subject, Bytes, Origin)> {
    let header = |headers: &HeaderMap, name| headers.get(name).map(|value| value.as_str().to_owned());
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| header(headers, names::ID));
    let id = id.filter(|id| crate::wire::is_token(id, crate::wire::ID));
    let fed = headers.and_then(|headers| headers.get(names::FED)?.as_str().parse().ok());
    let id = id.unwrap_or_else(|| format!("s-{}", place.number));
    let origin = Origin { place, acknowledge: message.reply?, fed: fed.unwrap_or_default() };
    Some((id.into(), message.subject, message.payload, origin))
}

fn consumer(farm: &str) -> String {
    format!("{farm}-dispatch")
}

/// Whether there is no such consumer.
fn is_none(error: &ConsumerError) -> bool {
    matches!(error.kind(), ConsumerErrorKind::JetStream(error) if error.error_code() == ErrorCode::CONSUMER_NOT_FOUND)
}
