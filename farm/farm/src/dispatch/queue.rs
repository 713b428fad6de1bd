//! The work queue through one term's consumers, one for each priority: one request at a time to each, as large as the
//! free room.
//!
//! On each takeover a dispatcher makes consumers of a new name, and deletes consumers of earlier terms. A late request
//! of an earlier term names a deleted consumer, and takes nothing.

use super::known::{Origin, StreamPosition};
use super::outbox::Outbox;
use crate::assign::Room;
use crate::error::{Cause, FarmError};
use crate::large;
use crate::streams::Streams;
use crate::streams::names::{self, EventSubject, all_of};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};
use async_nats::{Client, HeaderMap, Message, StatusCode, Subject, Subscriber};
use bytes::Bytes;
use futures_util::TryStreamExt;
use serde::Serialize;
use sidecore_assign::Payload;
use sidecore_core::time::Nanos;
use sidecore_nodes::pending::Priority;
use std::time::Duration;

/// The server redelivers a message without acknowledgement or progress report after this time.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Interval of progress reports for a held message, ns.
pub(super) const PROGRESS: Nanos = 10_000_000_000;
const IN_PROGRESS: &[u8] = b"+WPI";
const GIVEN_BACK: &[u8] = b"-NAK";
/// Redeliver later, for lack of room: delay in ns.
const LATER: &[u8] = br#"-NAK {"delay": 100000000}"#;
/// Lifetime of a request at the server, and interval of its heartbeats.
const EXPIRES: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_millis(500);
/// A request without message or heartbeat for this time is lost, ns.
const REQUEST_TIMEOUT: Nanos = 2_000_000_000;
/// Lost requests in a row after which the consumer is taken for gone.
const MAX_LOST: u32 = 2;
const PAUSE: Nanos = 50_000_000;
const MAX_BATCH: usize = 8192;
/// Attempts at making a consumer while other dispatchers make theirs.
const ROUNDS: u32 = 8;
/// What the servers answer if another consumer takes the same events.
const TAKEN: [ErrorCode; 2] = [ErrorCode::CONSUMER_WQ_MULTIPLE_UNFILTERED, ErrorCode::CONSUMER_WQ_CONSUMER_NOT_UNIQUE];
const NO_EVENTS: &str = "cannot take events";
const NOT_TAKEN_OVER: &str = "cannot take the queue over";
const OTHERS: &str = "the queue has a consumer that is no dispatcher's, or several dispatchers begin";
const UNLISTED: &str = "the servers refuse a consumer of the queue and list none: their logs say why";

pub(super) enum Taken {
    Event(Message, StreamPosition),
    Handled,
    /// A consumer does not exist any more: a later term took the queue over, or an operator removed it.
    Gone,
}

pub(super) struct Consumers {
    /// By priority.
    pub(super) names: [String; Priority::ALL.len()],
    pub(super) inbox: String,
    pub(super) messages: Subscriber,
}

#[derive(Debug)]
pub(super) enum NotTaken {
    /// This later term has the queue, or had it.
    Later(u64),
    Failed(Cause),
}

impl From<FarmError> for NotTaken {
    fn from(error: FarmError) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) struct Queue {
    events: String,
    inbox: String,
    /// Of the last request.
    number: u64,
    /// By priority.
    pulls: [Pull; Priority::ALL.len()],
}

/// Requests to one consumer.
#[derive(Default)]
struct Pull {
    ask: String,
    /// Number of the request, messages that it may still bring, and time of its last message or heartbeat.
    request: u64,
    left: usize,
    heard: Nanos,
    lost: u32,
    not_before: Nanos,
}

#[derive(Serialize)]
struct Request {
    batch: usize,
    max_bytes: usize,
    expires: u128,
    idle_heartbeat: u128,
}

/// Makes the consumers of this term, and deletes those of earlier terms: unacknowledged messages are redelivered.
///
/// `unique` differs between attempts. Only listed names are deleted, so a late deletion cannot reach a later consumer.
pub(super) async fn take_over(
    client: &Client,
    farm: &str,
    streams: &Streams,
    term: u64,
    unique: u64,
) -> Result<Consumers, NotTaken> {
    let names = Priority::ALL.map(|priority| name(farm, term, unique, priority));
    let inbox = client.new_inbox();
    let messages = client.subscribe(format!("{inbox}.*")).await;
    let messages = messages.map_err(FarmError::nats("cannot receive events"))?;
    let mut listed = 0;
    for _ in 0..ROUNDS {
        listed = listed.max(delete_earlier(farm, streams, term, &names).await?);
        if make(farm, streams, &names).await? {
            return Ok(Consumers { names, inbox, messages });
        }
    }
    let why = if listed == 0 { UNLISTED } else { OTHERS };
    Err(FarmError::nats(NO_EVENTS)(why).into())
}

/// `false`: a work queue has one consumer for an event, and another dispatcher's came in between.
async fn make(farm: &str, streams: &Streams, names: &[String]) -> Result<bool, FarmError> {
    for (priority, name) in Priority::ALL.into_iter().zip(names) {
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: all_of(farm, priority),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: -1,
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        match streams.events.create_consumer(config).await {
            Ok(_) => {}
            Err(error) if TAKEN.into_iter().any(|code| is(&error, code)) => return Ok(false),
            Err(error) => return Err(FarmError::nats(NO_EVENTS)(error)),
        }
    }
    Ok(true)
}

async fn delete_earlier(farm: &str, streams: &Streams, term: u64, own: &[String]) -> Result<usize, NotTaken> {
    let listed: Result<Vec<String>, _> = streams.events.consumer_names().try_collect().await;
    let listed = listed.map_err(FarmError::nats(NOT_TAKEN_OVER))?;
    let of_dispatchers = || listed.iter().filter_map(|name| Some((name, term_of(farm, name)?)));
    if let Some(later) = of_dispatchers().map(|(_, of)| of).filter(|of| *of > term).max() {
        return Err(NotTaken::Later(later));
    }
    for (earlier, _) in of_dispatchers().filter(|(name, _)| !own.contains(*name)) {
        match streams.events.delete_consumer(earlier).await {
            Ok(_) => {}
            Err(error) if is(&error, ErrorCode::CONSUMER_NOT_FOUND) => {}
            // Messages that the undeleted consumer has delivered would be redelivered late.
            Err(error) => return Err(FarmError::nats(NOT_TAKEN_OVER)(error).into()),
        }
    }
    Ok(listed.len())
}

impl Queue {
    pub(super) fn new(farm: &str) -> Self {
        let [events, ..] = names::streams(farm);
        Self { events, inbox: String::new(), number: 0, pulls: Default::default() }
    }

    pub(super) fn begin(&mut self, consumers: &[String; Priority::ALL.len()], inbox: String) {
        self.inbox = inbox;
        let Self { events, pulls, .. } = self;
        *pulls = consumers
            .each_ref()
            .map(|consumer| Pull { ask: format!("$JS.API.CONSUMER.MSG.NEXT.{events}.{consumer}"), ..Pull::default() });
    }

    pub(super) fn ask(
        &mut self,
        now: Nanos,
        priority: Priority,
        room: Room,
        least: usize,
        largest: usize,
        outbox: &Outbox,
    ) {
        let pull = &mut self.pulls[priority as usize];
        if pull.left > 0 || now < pull.not_before || room.events < least.max(1) || room.bytes < largest {
            return;
        }
        self.number += 1;
        (pull.request, pull.left, pull.heard) = (self.number, room.events.min(MAX_BATCH), now);
        let request = Request {
            batch: pull.left,
            max_bytes: room.bytes,
            expires: EXPIRES.as_nanos(),
            idle_heartbeat: HEARTBEAT.as_nanos(),
        };
        let reply = format!("{}.{}", self.inbox, self.number);
        let body = serde_json::to_vec(&request).unwrap_or_default();
        // A lost request shows by its silence.
        outbox.ask(pull.ask.clone().into(), reply.into(), None, body.into());
    }

    pub(super) fn take(&mut self, now: Nanos, message: Message) -> Taken {
        if let Some(status) = message.status {
            return self.told(now, status, &message);
        }
        let Some(position) = message.reply.as_ref().and_then(|reply| StreamPosition::of(reply)) else {
            return Taken::Handled;
        };
        let pull = &mut self.pulls[EventSubject::of(&message.subject).priority as usize];
        (pull.heard, pull.left, pull.lost) = (now, pull.left.saturating_sub(1), 0);
        Taken::Event(message, position)
    }

    pub(super) fn is_gone(&mut self, now: Nanos) -> bool {
        self.pulls.iter_mut().any(|pull| {
            if pull.left > 0 && now.saturating_sub(pull.heard) > REQUEST_TIMEOUT {
                pull.left = 0;
                pull.lost += 1;
            }
            pull.lost >= MAX_LOST
        })
    }

    fn told(&mut self, now: Nanos, status: StatusCode, message: &Message) -> Taken {
        let request = message.subject.rsplit('.').next().and_then(|number| number.parse().ok());
        let Some(pull) = self.pulls.iter_mut().find(|pull| Some(pull.request) == request) else {
            return Taken::Handled;
        };
        (pull.heard, pull.lost) = (now, 0);
        if status == StatusCode::IDLE_HEARTBEAT {
            return Taken::Handled;
        }
        pull.left = 0;
        if status == StatusCode::NO_RESPONDERS || message.description.as_deref() == Some("Consumer Deleted") {
            return Taken::Gone;
        }
        if status != StatusCode::TIMEOUT {
            pull.not_before = now + PAUSE;
        }
        Taken::Handled
    }
}

pub(super) fn report(outbox: &Outbox, message: &Origin) {
    outbox.send(message.acknowledge.clone(), Bytes::from_static(IN_PROGRESS));
}

pub(super) fn give_back(outbox: &Outbox, message: &Origin) {
    outbox.send(message.acknowledge.clone(), Bytes::from_static(GIVEN_BACK));
}

pub(super) fn give_back_for_later(outbox: &Outbox, message: &Origin) {
    outbox.send(message.acknowledge.clone(), Bytes::from_static(LATER));
}

/// The server delivers it again after `delay`, ns.
pub(super) fn give_back_until_due(outbox: &Outbox, message: &Origin, delay: Nanos) {
    let delay = delay.min(i64::MAX.cast_unsigned());
    outbox.send(message.acknowledge.clone(), format!("-NAK {{\"delay\": {delay}}}").into());
}

pub(super) fn event(
    now: Nanos,
    message: Message,
    position: StreamPosition,
) -> Option<(Box<str>, Subject, Payload, Origin)> {
    let header = |headers: &HeaderMap, name| headers.get(name).map(|value| value.as_str().to_owned());
    let headers = message.headers.as_ref();
    let named = headers.and_then(|headers| header(headers, names::ID));
    // Behind the dot is what only the servers compare.
    let id = named.as_deref().map(|named| named.split_once('.').map_or(named, |(id, _)| id));
    let subject = EventSubject::of(&message.subject);
    let (batch, namespace) = (subject.whole_batch(), subject.namespace);
    let id = match (namespace, id) {
        // With a hyphen in it, two namespaces could make one id.
        (Some(namespace), _) if namespace.contains('-') => None,
        (Some(namespace), Some(id)) => Some(format!("{namespace}-{id}")),
        (Some(namespace), None) => Some(format!("{namespace}-s-{}", position.number)),
        (None, id) => id.map(str::to_owned),
    };
    let id = id.filter(|id| crate::wire::is_token(id, crate::wire::ID));
    let number = |name| headers.and_then(|headers| headers.get(name)?.as_str().parse().ok()).unwrap_or_default();
    let (fed, deadline, not_before) = (number(names::FED), number(names::DEADLINE), number(names::NOT_BEFORE));
    let id = id.unwrap_or_else(|| format!("s-{}", position.number));
    let acknowledge = message.reply?;
    let origin = Origin { position, acknowledge, taken: now, fed, deadline, not_before, batch };
    // A feeder with an account of its own has no objects.
    let body = large::payload_of(headers.filter(|_| namespace.is_none()), message.payload);
    Some((id.into(), message.subject, body, origin))
}

fn name(farm: &str, term: u64, unique: u64, priority: Priority) -> String {
    let class = if priority == Priority::Urgent { "-urgent" } else { "" };
    format!("{farm}-dispatch-{term}-{unique:016x}{class}")
}

/// The term in a consumer's name; 0 for a name of earlier versions. `None`: the consumer is no dispatcher's.
fn term_of(farm: &str, name: &str) -> Option<u64> {
    let term = name.strip_prefix(farm)?.strip_prefix("-dispatch")?;
    if term.is_empty() {
        return Some(0);
    }
    let (term, _) = term.strip_prefix('-')?.split_once('-')?;
    term.parse().ok()
}

fn is(error: &ConsumerError, code: ErrorCode) -> bool {
    matches!(error.kind(), ConsumerErrorKind::JetStream(error) if error.error_code() == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_consumers_name_tells_its_term() {
        for priority in Priority::ALL {
            assert_eq!(term_of("f", &name("f", 7, 1, priority)), Some(7));
            let longest = name("f-dispatch", u64::MAX, u64::MAX, priority);
            assert_eq!(term_of("f-dispatch", &longest), Some(u64::MAX));
        }
        assert_eq!(term_of("f", "f-dispatch"), Some(0), "of a former version");
        for other in ["other", "f-dispatch-x-1", "f-dispatch-7", "g-dispatch-7-1"] {
            assert_eq!(term_of("f", other), None, "{other}");
        }
        let all = [1, 2].map(|unique| Priority::ALL.map(|priority| name("f", 7, unique, priority))).concat();
        assert_eq!(BTreeSet::from_iter(&all).len(), 4, "each attempt has its own");
    }

    #[test]
    fn an_id_has_its_namespace_before_it_and_no_two_namespaces_make_one_id() {
        let id = |subject: &str, named: Option<&str>| {
            let headers = named.map(|named| {
                let mut headers = HeaderMap::new();
                headers.insert(names::ID, named);
                headers
            });
            let (subject, reply) = (subject.to_owned().into(), Some(Subject::from_static("ack")));
            let message =
                Message { subject, reply, payload: Bytes::new(), headers, status: None, description: None, length: 0 };
            event(0, message, StreamPosition { number: 7, published: 1 }).unwrap().0
        };
        assert_eq!(&*id("farm.f.events.k", Some("a-1.tag")), "a-1");
        assert_eq!(&*id("farm.urgent.events.k", Some("a-1")), "a-1", "a farm called urgent");
        assert_eq!(&*id("farm.f.events.a.k", Some("a-1.tag")), "a-1");
        for subject in ["farm.f.events.camera.a.k", "farm.f.urgent.camera.a.k"] {
            assert_eq!(&*id(subject, Some("a-1.tag")), "camera-a-1");
            assert_eq!(&*id(subject, None), "camera-s-7");
        }
        for odd in
            [id("farm.f.events.k", None), id("farm.f.events.k", Some("a b")), id("farm.f.events.a-b.b.k", Some("1"))]
        {
            assert_eq!(&*odd, "s-7");
        }
    }
}
