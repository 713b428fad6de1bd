//! Size of the work queue, by its servers' answers, once a second.

use crate::streams::names;
use async_nats::jetstream::{Context, consumer};
use futures_util::TryStreamExt;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

const EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queued {
    pub(super) events: u64,
    /// Events that a dispatcher took and has not acknowledged.
    pub(super) unacknowledged: u64,
    /// Events that the consumer neither has in flight nor will deliver.
    pub(super) stranded: u64,
}

/// The newest answer; `None`: the last request had none.
pub(super) struct Depth(watch::Receiver<Option<Queued>>);

impl Depth {
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

async fn queued(context: &Context, events: &str) -> Option<Queued> {
    let before = handed_out(context, events).await?;
    let messages = context.get_stream(events).await.ok()?.cached_info().state.messages;
    let after = handed_out(context, events).await?;
    // Two readings: a message that comes or goes between them is not stranded.
    let accounted = before.known.max(after.known);
    Some(Queued {
        events: messages,
        unacknowledged: after.unacknowledged,
        stranded: messages.saturating_sub(accounted),
    })
}

#[derive(Default)]
struct HandedOut {
    unacknowledged: u64,
    known: u64,
}

/// Of all consumers, one for each priority. `None`: there is none.
async fn handed_out(context: &Context, events: &str) -> Option<HandedOut> {
    let stream = context.get_stream_no_info(events).await.ok()?;
    let consumers: Vec<consumer::Info> = stream.consumers().try_collect().await.ok()?;
    let sum = consumers.iter().fold(HandedOut::default(), |sum, info| {
        let unacknowledged = info.num_ack_pending as u64;
        HandedOut {
            unacknowledged: sum.unacknowledged + unacknowledged,
            known: sum.known.saturating_add(info.num_pending).saturating_add(unacknowledged),
        }
    });
    (!consumers.is_empty()).then_some(sum)
}
