//! Subscriptions whose messages are inputs of a loop.

use async_nats::{Client, Message, SubscribeError as NatsError, Subscriber};
use futures_util::StreamExt;
use std::future::pending;

/// Messages of this subject cannot be received.
#[derive(Debug, thiserror::Error)]
#[error("cannot receive {subject}: {source}")]
pub struct SubscribeError {
    subject: String,
    source: NatsError,
}

/// Subscribes to a subject.
///
/// # Errors
/// The subject is no valid one, or the client has ended.
pub async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, SubscribeError> {
    let subscribed = client.subscribe(subject.clone()).await;
    subscribed.map_err(|source| SubscribeError { subject, source })
}

/// The next message. Waits forever without a subscription, or if the client has ended.
pub async fn next(from: Option<&mut Subscriber>) -> Message {
    let next = match from {
        Some(subscriber) => subscriber.next().await,
        None => None,
    };
    match next {
        Some(message) => message,
        None => pending().await,
    }
}
