//! How much is in the work queue, as its servers say once a second.

use crate::streams::names;
use async_nats::jetstream::Context;
use futures_util::TryStreamExt;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

const EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queued {
    /// Messages of the events stream.
    pub(super) events: u64,
    /// Those of them that a dispatcher has and has not acknowledged.
    pub(super) unacknowledged: u64,
}

/// The newest answer; `None`: there was none to the last question.
pub(super) struct Depth(watch::Receiver<Option<Queued>>);

impl Depth {
    /// Asks from now on until this is dropped.
    pub(super) fn watch(context: Context, farm: &str) -> Self {
        let [events, ..] = names::streams(farm);
        let (tell, told) = watch::channel(None);
        tokio::spawn(ask(context, events, tell));
        Self(told)
    }

    pub(super) fn now(&self) -> Option<Queued> {
        *self.0.borrow()
    }
}

async fn ask(context: Context, events: String, tell: watch::Sender<Option<Queued>>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !tell.is_closed() {
        ticks.tick().await;
        tell.send_replace(queued(&context, &events).await);
    }
}

/// By the stream, and by its one consumer, that of the active dispatcher's term. `None`: there is no answer.
async fn queued(context: &Context, events: &str) -> Option<Queued> {
    let stream = context.get_stream(events).await.ok()?;
    let info = pin!(stream.consumers()).try_next().await.ok()?;
    let unacknowledged = info.map_or(0, |info| info.num_ack_pending as u64);
    Some(Queued { events: stream.cached_info().state.messages, unacknowledged })
}
