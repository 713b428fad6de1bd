//! Subscriptions whose messages are inputs of a loop.

use crate::error::FarmError;
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt;
use std::future::pending;

pub(crate) async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, FarmError> {
    let what = format!("cannot receive {subject}");
    client.subscribe(subject).await.map_err(FarmError::nats(what))
}

/// The next message. Waits forever without a subscription, or if the client has ended.
pub(crate) async fn next(from: Option<&mut Subscriber>) -> Message {
    let next = match from {
        Some(subscriber) => subscriber.next().await,
        None => None,
    };
    match next {
        Some(message) => message,
        None => pending().await,
    }
}
