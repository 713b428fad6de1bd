//! Publishes events as any NATS client would, each until it is stored, and notes when each was to come.

use super::load::Dice;
use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

/// Events that are published and not yet known to be stored, at most.
const IN_FLIGHT: u32 = 256;
/// How long one of them is tried again, while the server is away.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// An event that was published.
#[derive(Clone, Debug)]
pub(crate) struct Fed {
    pub(crate) id: String,
    pub(crate) units: u32,
    /// When it was to come: time that it waited for its turn to be published counts.
    pub(crate) at: SystemTime,
    /// When it was published.
    pub(crate) sent: SystemTime,
}

/// Where events go, and what they are called.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) js: Context,
    pub(crate) subject: String,
    /// Ids are this, a dash and a number.
    pub(crate) prefix: String,
}

impl Target {
    /// The id of the event of that number.
    pub(crate) fn id(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    /// Publishes these at once, as fast as they are stored.
    ///
    /// # Errors
    /// One is not stored in a minute.
    pub(crate) async fn all_at_once(
        &self,
        bodies: impl IntoIterator<Item = (u32, Vec<u8>)>,
    ) -> Result<Vec<Fed>, String> {
        let mut going = Going::new(self);
        let mut fed = Vec::new();
        for (units, body) in bodies {
            let now = SystemTime::now();
            fed.push(Fed { id: self.id(fed.len()), units, at: now, sent: now });
            going.publish(fed.len() - 1, body).await?;
        }
        going.end().await?;
        Ok(fed)
    }

    /// Publishes events of random sizes for that long, as a Poisson process of that many a second.
    ///
    /// # Errors
    /// As for [`Target::all_at_once`].
    pub(crate) async fn poisson(
        &self,
        dice: &mut Dice,
        a_second: f64,
        lasting: Duration,
        body: impl Fn(u32) -> Vec<u8>,
    ) -> Result<Vec<Fed>, String> {
        let mut going = Going::new(self);
        let (begun, start) = (Instant::now(), SystemTime::now());
        let mut fed = Vec::new();
        let mut due = dice.gap(a_second);
        while due < lasting {
            sleep_until((begun + due).into()).await;
            let units = dice.size();
            fed.push(Fed { id: self.id(fed.len()), units, at: start + due, sent: SystemTime::now() });
            going.publish(fed.len() - 1, body(units)).await?;
            due += dice.gap(a_second);
        }
        going.end().await?;
        Ok(fed)
    }
}

/// Publishing that has not ended.
struct Going<'a> {
    target: &'a Target,
    room: Arc<Semaphore>,
    tasks: JoinSet<Result<(), String>>,
}

impl<'a> Going<'a> {
    fn new(target: &'a Target) -> Self {
        Self { target, room: Arc::new(Semaphore::new(IN_FLIGHT as usize)), tasks: JoinSet::new() }
    }

    /// Publishes the event of that number as soon as fewer than [`IN_FLIGHT`] wait.
    async fn publish(&mut self, number: usize, body: Vec<u8>) -> Result<(), String> {
        while let Some(ended) = self.tasks.try_join_next() {
            joined(ended)?;
        }
        let permit = self.room.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let (target, id) = (self.target.clone(), self.target.id(number));
        self.tasks.spawn(async move {
            let stored = until_stored(&target, id, body.into()).await;
            drop(permit);
            stored
        });
        Ok(())
    }

    async fn end(mut self) -> Result<(), String> {
        while let Some(ended) = self.tasks.join_next().await {
            joined(ended)?;
        }
        Ok(())
    }
}

fn joined(ended: Result<Result<(), String>, tokio::task::JoinError>) -> Result<(), String> {
    ended.unwrap_or_else(|error| Err(error.to_string()))
}

/// Publishes one event, again and again while that fails: the server knows it by its id.
async fn until_stored(target: &Target, id: String, body: Bytes) -> Result<(), String> {
    let begun = Instant::now();
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", id.as_str());
    loop {
        let sent = target.js.publish_with_headers(target.subject.clone(), headers.clone(), body.clone()).await;
        let stored = match sent {
            Ok(ack) => ack.await.map(drop),
            Err(error) => Err(error),
        };
        match stored {
            Ok(()) => return Ok(()),
            Err(error) if begun.elapsed() > PATIENCE => return Err(format!("{id} is not stored: {error}")),
            Err(_) => sleep(PAUSE).await,
        }
    }
}
