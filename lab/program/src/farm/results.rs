//! The messages stored in a stream: their ids and storage times.

use super::names;
use crate::farm::error::{Cause, FarmError};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::{Context, Message};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) at: SystemTime,
    pub(crate) body: Bytes,
    pub(crate) reason: Option<String>,
}

pub(crate) async fn count(js: &Context, stream: &str) -> Result<u64, FarmError> {
    let info = js.get_stream(stream).await;
    let info = info.map_err(FarmError::nats(format!("no answer about the stream {stream}")))?;
    Ok(info.cached_info().state.messages)
}

pub(crate) async fn left(js: &Context, stream: &str) -> Option<String> {
    let waiting = count(js, stream).await.ok().filter(|waiting| *waiting > 0)?;
    let consumers = js.get_stream_no_info(stream).await.ok()?.consumers();
    // A work queue has one consumer: the active dispatcher's.
    let handed = std::pin::pin!(consumers).try_next().await.ok().flatten().map_or_else(
        || "no dispatcher takes them".to_owned(),
        |info| {
            let (pending, to_come) = (info.num_ack_pending, info.num_pending);
            format!("the dispatcher has {pending} of them, and {to_come} are still to come to it")
        },
    );
    Some(format!("{waiting} events are left in the work queue: {handed}"))
}

pub(crate) async fn all(js: &Context, stream: &str) -> Result<Vec<Stored>, FarmError> {
    let handle = js.get_stream(stream).await.map_err(unread(stream))?;
    let expected = handle.cached_info().state.messages;
    let from = OrderedConfig { deliver_policy: DeliverPolicy::All, ..OrderedConfig::default() };
    let consumer = handle.create_consumer(from).await.map_err(unread(stream))?;
    let mut messages = consumer.messages().await.map_err(unread(stream))?;
    let mut stored = Vec::new();
    let mut last = 0;
    while (stored.len() as u64) < expected {
        let next = timeout(MESSAGE_TIMEOUT, messages.next()).await;
        let message = next.map_err(|_| unread(stream)(format!("only {} of {expected} messages came", stored.len())))?;
        let message = message.ok_or("it ended").map_err(unread(stream))?.map_err(unread(stream))?;
        let info = message.info().map_err(unread(stream))?;
        // After a gap the client starts again: messages that it has already delivered are skipped.
        if info.stream_sequence > last {
            last = info.stream_sequence;
            let at = since_epoch(info.published.unix_timestamp_nanos());
            let id = last_token(&message.subject).to_owned();
            stored.push(Stored { id, at, body: message.payload.clone(), reason: reason(&message) });
        }
    }
    Ok(stored)
}

fn unread<E: Into<Cause>>(stream: &str) -> impl FnOnce(E) -> FarmError {
    FarmError::nats(format!("cannot read the stream {stream}"))
}

fn reason(message: &Message) -> Option<String> {
    Some(message.headers.as_ref()?.get(names::REASON)?.as_str().to_owned())
}

fn last_token(subject: &str) -> &str {
    subject.rsplit_once('.').map_or(subject, |(_, token)| token)
}

fn since_epoch(nanos: i128) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
