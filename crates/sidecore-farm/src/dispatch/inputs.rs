//! All that a dispatcher hears.

use async_nats::{Client, Message, Subscriber};
use futures_util::{FutureExt, StreamExt};
use std::future::pending;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often a dispatcher says that it is active.
const BEAT: Duration = Duration::from_millis(10);

pub(super) enum Input {
    /// The time.
    Beat,
    /// Another dispatcher, or this one.
    Lead(Message),
    /// A node.
    Node(Message),
    /// The work queue.
    Queue(Message),
    /// The server, of a result.
    Confirmed(Message),
}

pub(super) struct Inputs {
    beats: Interval,
    leads: Subscriber,
    confirmed: Subscriber,
    /// Only while it is active.
    nodes: Option<Subscriber>,
    queue: Option<Subscriber>,
}

impl Inputs {
    pub(super) async fn new(client: &Client, farm: &str, confirmed: Subscriber) -> Result<Self, String> {
        let leads = subscribe(client, format!("farm.{farm}.dispatcher")).await?;
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { beats, leads, confirmed, nodes: None, queue: None })
    }

    /// Hears nodes, and this queue instead of the one before.
    pub(super) async fn listen(&mut self, client: &Client, farm: &str, queue: Subscriber) -> Result<(), String> {
        if self.nodes.is_none() {
            self.nodes = Some(subscribe(client, format!("farm.{farm}.up")).await?);
        }
        self.queue = Some(queue);
        Ok(())
    }

    /// Hears only dispatchers any more.
    pub(super) fn deafen(&mut self) {
        (self.nodes, self.queue) = (None, None);
    }

    /// The next one. What ends work goes before what brings some.
    pub(super) async fn next(&mut self) -> Input {
        tokio::select! {
            biased;
            _ = self.beats.tick() => Input::Beat,
            message = next(Some(&mut self.leads)) => Input::Lead(message),
            message = next(Some(&mut self.confirmed)) => Input::Confirmed(message),
            message = next(self.nodes.as_mut()) => Input::Node(message),
            message = next(self.queue.as_mut()) => Input::Queue(message),
        }
    }

    /// One that is there.
    pub(super) fn ready(&mut self) -> Option<Input> {
        self.next().now_or_never()
    }
}

/// The next message; none ever where nothing is listened to, or the client has ended.
async fn next(from: Option<&mut Subscriber>) -> Message {
    let next = match from {
        Some(subscriber) => subscriber.next().await,
        None => None,
    };
    match next {
        Some(message) => message,
        None => pending().await,
    }
}

async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, String> {
    let to = subject.clone();
    client.subscribe(subject).await.map_err(|error| format!("cannot receive {to}: {error}"))
}
