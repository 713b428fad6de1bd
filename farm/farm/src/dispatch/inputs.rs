//! All inputs of a dispatcher.

use super::queue::{Consumers, NotTaken};
use crate::cancel;
use crate::error::FarmError;
use async_nats::{Client, Message, Subscriber};
use futures_util::FutureExt;
use sidecore_nats::{next, subscribe};
use std::future::pending;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior, interval};

const BEAT: Duration = Duration::from_millis(10);

pub(super) enum Input {
    Beat,
    Lead(Message),
    Cancel(Message),
    Node(Message),
    Queue(Message),
    Confirmed(Message),
    Begun(u64, Result<Begun, NotTaken>),
}

pub(super) struct Begun {
    pub(super) consumers: Consumers,
    /// `None`: the subscription exists already.
    pub(super) nodes: Option<Subscriber>,
}

pub(super) struct Inputs {
    beats: Interval,
    leads: Subscriber,
    cancels: Subscriber,
    confirmed: Subscriber,
    beginning: Option<(u64, oneshot::Receiver<Result<Begun, NotTaken>>)>,
    nodes: Option<Subscriber>,
    queue: Option<Subscriber>,
}

impl Inputs {
    pub(super) async fn new(client: &Client, farm: &str, confirmed: Subscriber) -> Result<Self, FarmError> {
        let leads = subscribe(client, format!("farm.{farm}.dispatcher")).await?;
        let cancels = subscribe(client, cancel::subject(farm)).await?;
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { beats, leads, cancels, confirmed, beginning: None, nodes: None, queue: None })
    }

    pub(super) fn wait_for(&mut self, term: u64, queue: oneshot::Receiver<Result<Begun, NotTaken>>) {
        self.beginning = Some((term, queue));
    }

    pub(super) fn hears_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    pub(super) fn listen(&mut self, nodes: Option<Subscriber>, queue: Subscriber) {
        self.nodes = self.nodes.take().or(nodes);
        self.queue = Some(queue);
    }

    pub(super) fn unsubscribe_all(&mut self) {
        (self.nodes, self.queue, self.beginning) = (None, None, None);
    }

    /// The next input. Ends of work precede new work.
    pub(super) async fn next(&mut self) -> Input {
        tokio::select! {
            biased;
            _ = self.beats.tick() => Input::Beat,
            message = next(Some(&mut self.leads)) => Input::Lead(message),
            (term, begun) = begun(&mut self.beginning) => Input::Begun(term, begun),
            message = next(Some(&mut self.cancels)) => Input::Cancel(message),
            message = next(Some(&mut self.confirmed)) => Input::Confirmed(message),
            message = next(self.nodes.as_mut()) => Input::Node(message),
            message = next(self.queue.as_mut()) => Input::Queue(message),
        }
    }

    /// What a node has said, if it is here already.
    pub(super) fn ready_of_nodes(&mut self) -> Option<Message> {
        next(self.nodes.as_mut()).now_or_never()
    }

    pub(super) fn ready(&mut self) -> Option<Input> {
        self.next().now_or_never()
    }
}

async fn begun(
    beginning: &mut Option<(u64, oneshot::Receiver<Result<Begun, NotTaken>>)>,
) -> (u64, Result<Begun, NotTaken>) {
    let Some((term, queue)) = beginning else { return pending().await };
    let begun = queue.await.unwrap_or_else(|_| Err(NotTaken::Failed("the attempt ended".into())));
    let term = *term;
    *beginning = None;
    (term, begun)
}
