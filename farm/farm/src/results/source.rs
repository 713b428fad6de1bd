//! Source of results: a consumer with the taker's name, recreated when it is gone.

use super::progress::Progress;
use crate::connect::denied;
use crate::error::{Cause, FarmError};
use crate::removal;
use crate::streams;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::{self, Batch};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer};
use async_nats::jetstream::stream::Stream;
use std::time::Duration;

const EXPIRES: Duration = Duration::from_secs(1);
/// A result without an acknowledgement is delivered again after this time: its taker was killed.
const ACK_WAIT: Duration = Duration::from_secs(5);
/// Results remembered before a query of the server's acknowledgements.
const MAX_REMEMBERED: usize = 16_384;

pub(super) struct Source {
    js: Context,
    farm: String,
    name: String,
    consumer: PullConsumer,
    /// Creation time of the stream. Numbers restart in another stream.
    made: i128,
    pub(super) progress: Progress,
}

impl Source {
    pub(super) async fn open(js: Context, farm: &str, name: &str) -> Result<Self, FarmError> {
        let progress = Progress::default();
        let (consumer, made) = find(&js, farm, name, &progress, None).await?;
        Ok(Self { js, farm: farm.to_owned(), name: name.to_owned(), consumer, made, progress })
    }

    pub(super) async fn look_up(&mut self) -> Result<(), FarmError> {
        let (consumer, made) = find(&self.js, &self.farm, &self.name, &self.progress, Some(self.made)).await?;
        if made != self.made {
            self.progress = Progress::default();
        }
        (self.consumer, self.made) = (consumer, made);
        Ok(())
    }

    pub(super) async fn batch(&self, most: usize) -> Result<Batch, Cause> {
        Ok(self.consumer.batch().max_messages(most).expires(EXPIRES).messages().await?)
    }

    pub(super) async fn is_empty(&mut self) -> Result<bool, Cause> {
        let info = self.consumer.get_info().await?;
        self.progress.raise(info.ack_floor.stream_sequence);
        Ok(info.num_pending == 0 && info.num_ack_pending == 0)
    }

    pub(super) async fn acknowledgements_are_due(&mut self) -> Result<bool, Cause> {
        Ok(self.consumer.get_info().await?.num_ack_pending > 0)
    }

    /// Returns the number up to which all takers have the results.
    pub(super) async fn prune(&self) -> Result<u64, FarmError> {
        let results = streams::handles(&self.js, &self.farm).await?.results;
        removal::remove_taken(&self.js, &results).await.map(|pruned| pruned.floor)
    }

    pub(super) fn remembers_much(&self) -> bool {
        self.progress.len() >= MAX_REMEMBERED
    }
}

async fn find(
    js: &Context,
    farm: &str,
    name: &str,
    progress: &Progress,
    known: Option<i128>,
) -> Result<(PullConsumer, i128), FarmError> {
    let results = streams::existing(js, farm).await?.results;
    let made = made(&results).await?;
    let is_known = known == Some(made);
    let deliver_policy = match progress.next() {
        start_sequence @ 2.. if is_known => DeliverPolicy::ByStartSequence { start_sequence },
        _ => DeliverPolicy::All,
    };
    let config = pull::Config {
        durable_name: Some(name.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        deliver_policy,
        ..pull::Config::default()
    };
    let consumer = tokio::select! {
        found = results.get_or_create_consumer(name, config) => found.map_err(FarmError::nats(format!("cannot take results as {name}")))?,
        said = denied() => return Err(FarmError::denied("take results", said)),
    };
    Ok((consumer, made))
}

async fn made(stream: &Stream<()>) -> Result<i128, FarmError> {
    let info = stream.get_info().await.map_err(FarmError::nats("cannot look at the result stream"))?;
    Ok(info.created.unix_timestamp_nanos())
}
