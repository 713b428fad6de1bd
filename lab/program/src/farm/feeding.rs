//! Publishes events as any NATS client would, each until it is stored, and notes its planned time.

use super::error::Unmeasured;
use super::load::Dice;
use crate::farm::error::FarmError;
use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

const IN_FLIGHT: u32 = 256;
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub(crate) struct Fed {
    pub(crate) id: String,
    pub(crate) units: u32,
    /// Planned time: a wait for its turn to be published counts.
    pub(crate) at: SystemTime,
    pub(crate) sent: SystemTime,
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) js: Context,
    pub(crate) subject: String,
    /// Ids are this prefix, a dash and a number.
    pub(crate) prefix: String,
}

impl Target {
    pub(crate) fn id(&self, number: usize) -> String {
        format!("{}-{number}", self.prefix)
    }

    pub(crate) async fn all_at_once(
        &self,
        bodies: impl IntoIterator<Item = (u32, Vec<u8>)>,
    ) -> Result<Vec<Fed>, FarmError> {
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

    /// Publishes events of random sizes for `lasting`, as a Poisson process with `a_second` events a second.
    pub(crate) async fn poisson(
        &self,
        dice: &mut Dice,
        a_second: f64,
        lasting: Duration,
        body: impl Fn(u32) -> Vec<u8>,
    ) -> Result<Vec<Fed>, FarmError> {
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

struct Going<'a> {
    target: &'a Target,
    room: Arc<Semaphore>,
    tasks: JoinSet<Result<(), FarmError>>,
}

impl<'a> Going<'a> {
    fn new(target: &'a Target) -> Self {
        Self { target, room: Arc::new(Semaphore::new(IN_FLIGHT as usize)), tasks: JoinSet::new() }
    }

    async fn publish(&mut self, number: usize, body: Vec<u8>) -> Result<(), FarmError> {
        while let Some(ended) = self.tasks.try_join_next() {
            ended??;
        }
        let permit = self.room.clone().acquire_owned().await.map_err(Unmeasured::from)?;
        let (target, id) = (self.target.clone(), self.target.id(number));
        self.tasks.spawn(async move {
            let stored = until_stored(&target, id, body.into()).await;
            drop(permit);
            stored
        });
        Ok(())
    }

    async fn end(mut self) -> Result<(), FarmError> {
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn until_stored(target: &Target, id: String, body: Bytes) -> Result<(), FarmError> {
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
            Err(error) if begun.elapsed() > RETRY_TIMEOUT => {
                return Err(Unmeasured::NotStored { id, source: error.into() }.into());
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}
