//! A node: joins the farm's dispatcher, does the assigned events, and answers.

mod link;
pub(crate) mod task;

use crate::error::FarmError;
use crate::large::NodeStores;
use async_nats::{Client, Message, Subscriber, jetstream};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use link::{Act, Begun, Link};
use sidecore_core::time::Nanos;
use sidecore_nats::{next, subscribe};
use sidecore_terminal::output;
use std::future::Future;
use std::time::{Duration, Instant};
use task::{Outcome, Work};
use tokio::time::{MissedTickBehavior, interval};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) farm: String,
    pub(crate) name: String,
    pub(crate) slots: u16,
    /// Kinds that it does; empty: any.
    pub(crate) offers: Vec<String>,
    pub(crate) beat: Duration,
}

const BATCH_LIMIT: usize = 256;
/// Part of the largest message that is reserved for fields around the octets.
const MARGIN: usize = 1024;

pub(crate) async fn run<W: Work>(
    client: Client,
    settings: Settings,
    work: W,
    stop: impl Future<Output = ()>,
) -> Result<(), FarmError> {
    let leads = subscribe(&client, format!("farm.{}.dispatcher", settings.farm)).await?;
    let most = client.max_payload().saturating_sub(MARGIN);
    let beat = settings.beat;
    let link = Link::new(settings, most);
    let mut node = Node { client, link, leads, down: None, begun: Instant::now() };
    node.serve(&work, beat, stop).await
}

struct Node {
    client: Client,
    link: Link,
    leads: Subscriber,
    down: Option<Subscriber>,
    begun: Instant,
}

struct Finished {
    begun: Begun,
    work: Nanos,
    outcome: Outcome,
}

impl Node {
    async fn serve<W: Work>(
        &mut self,
        work: &W,
        beat: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<(), FarmError> {
        let large = NodeStores::new(&jetstream::new(self.client.clone()), self.link.farm(), self.link.most_of_result());
        let mut stop = Box::pin(stop.fuse());
        let mut ticks = interval(beat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut running = FuturesUnordered::new();
        let mut incarnation = self.link.incarnation();
        while !(self.link.leaves() && self.link.is_idle()) {
            tokio::select! {
                _ = ticks.tick() => self.link.tick(self.now()),
                Some(message) = self.leads.next() => self.link.lead(self.now(), &message.payload),
                message = next(self.down.as_mut()) => self.hear(&message),
                Some(finished) = running.next() => self.finish(finished),
                () = &mut stop => self.link.leave(),
            }
            self.take_all();
            for _ in 0..BATCH_LIMIT {
                let Some(Some(finished)) = running.next().now_or_never() else { break };
                self.finish(finished);
            }
            if incarnation != self.link.incarnation() {
                // Other nodes have these events now: the work on them ends here.
                incarnation = self.link.incarnation();
                running = FuturesUnordered::new();
            }
            while let Some(begun) = self.link.begin() {
                running.push(do_one(work, &large, begun));
            }
            self.say().await?;
        }
        Ok(())
    }

    fn take_all(&mut self) {
        for _ in 0..BATCH_LIMIT {
            let Some(Some(message)) = self.down.as_mut().and_then(|down| down.next().now_or_never()) else { return };
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &Message) {
        self.link.hear(self.now(), &message.payload);
    }

    fn finish(&mut self, finished: Finished) {
        self.link.finish(&finished.begun, finished.work, finished.outcome);
    }

    async fn say(&mut self) -> Result<(), FarmError> {
        self.link.answer(self.now());
        while let Some(act) = self.link.next_act() {
            match act {
                Act::Listen(subject) => self.down = Some(subscribe(&self.client, subject).await?),
                Act::Say(message) => {
                    let sent = self.client.publish(self.link.up().clone(), message).await;
                    sent.map_err(FarmError::nats("cannot send to the dispatcher"))?;
                }
                Act::Flush => self.client.flush().await.map_err(FarmError::nats("cannot send to the dispatcher"))?,
                Act::Tell(text) => output::tell(text),
            }
        }
        Ok(())
    }

    fn now(&self) -> Nanos {
        self.begun.elapsed().as_nanos() as Nanos
    }
}

async fn do_one<W: Work>(work: &W, large: &NodeStores, begun: Begun) -> Finished {
    let since = Instant::now();
    let outcome = if begun.task.body.is_reference {
        match large.whole(&begun.task, since.into()).await {
            Ok(whole) => work.run(&whole).await,
            Err(outcome) => outcome,
        }
    } else {
        work.run(&begun.task).await
    };
    let outcome = large.answer(&begun.task, since.into(), outcome).await;
    Finished { work: since.elapsed().as_nanos() as Nanos, begun, outcome }
}
