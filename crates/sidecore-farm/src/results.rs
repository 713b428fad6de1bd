//! `farm results`: takes results out of the farm, each once for each taker.
//!
//! A result is acknowledged when it is where it belongs. A taker that is killed between the two gets it again: a file is then
//! written over with the same content, and on standard output it comes twice.

mod sink;

use crate::args;
use crate::ids;
use crate::output::tell;
use crate::signals::Signals;
use crate::streams;
use crate::{connect, connect::denied};
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind, Message};
use futures_util::StreamExt;
use sink::Sink;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Results that are asked for at a time, and how long the question stands.
const BATCH: usize = 256;
const EXPIRES: Duration = Duration::from_secs(1);
/// What is not acknowledged so long comes again: its taker was killed.
const ACK_WAIT: Duration = Duration::from_secs(5);
/// How long servers that do not answer are asked again.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(250);
/// The exit code where not all was taken.
const NO: u8 = 1;

/// The exit code.
pub(crate) async fn run(args: args::Results) -> Result<u8, String> {
    let client = connect::connect(&args.farm).await?;
    let js = jetstream::new(client.clone());
    let streams = streams::existing(&js, &args.farm.farm).await?;
    let config = pull::Config {
        durable_name: Some(args.name.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        ..pull::Config::default()
    };
    let consumer = tokio::select! {
        made = streams.results.get_or_create_consumer(&args.name, config) => made.map_err(|error| format!("cannot take results as {}: {error}", args.name))?,
        said = denied() => return Err(format!("this account may not take results: {said}; allow it, or give other credentials with --creds")),
    };
    let mut taker = Taker { sink: Sink::open(&args)?, taken: 0, odd: 0, follow: args.follow, count: args.count };
    let mut signals = Signals::new()?;
    let done = tokio::select! {
        done = taker.take(&consumer) => done,
        () = signals.next() => Ok(()),
    };
    // What is acknowledged is on its way to the server.
    let flushed = client.flush().await.map_err(|error| format!("the last acknowledgements may be lost: {error}"));
    tell(format_args!("took {} results", taker.taken));
    done.and(flushed).map(|()| if taker.odd > 0 { NO } else { 0 })
}

struct Taker {
    sink: Sink,
    taken: u64,
    /// Results under names that are no ids.
    odd: u64,
    follow: bool,
    count: Option<u64>,
}

impl Taker {
    /// Takes results until there is an end of them.
    async fn take(&mut self, consumer: &PullConsumer) -> Result<(), String> {
        let mut answered = Instant::now();
        while self.left() > 0 {
            match self.batch(consumer).await? {
                Ok(0) if !self.waits() && is_empty(consumer).await => return Ok(()),
                Ok(_) => answered = Instant::now(),
                Err(error) if answered.elapsed() > PATIENCE && !self.follow => {
                    return Err(format!("the servers do not answer: {error}"));
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
        Ok(())
    }

    /// Takes one batch: how many came. An error within is one of the servers, which passes.
    async fn batch(&mut self, consumer: &PullConsumer) -> Result<Result<usize, String>, String> {
        let most = usize::try_from(self.left()).unwrap_or(BATCH).min(BATCH);
        let mut messages = match consumer.batch().max_messages(most).expires(EXPIRES).messages().await {
            Ok(messages) => messages,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let mut came = 0;
        while let Some(message) = messages.next().await {
            let message = match message {
                Ok(message) => message,
                Err(error) => return Ok(Err(error.to_string())),
            };
            came += 1;
            if let Err(error) = self.one(&message).await? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(came))
    }

    /// Puts one result where it belongs, then acknowledges it.
    async fn one(&mut self, message: &Message) -> Result<Result<(), String>, String> {
        let id = message.subject.rsplit('.').next().unwrap_or_default();
        let kind = if ids::is_one(id) {
            self.sink.put(id, &message.payload)?;
            self.taken += 1;
            AckKind::Ack
        } else {
            self.odd += 1;
            tell(format_args!("left out a result whose name is no id: {}", id.escape_debug()));
            AckKind::Term
        };
        Ok(message.ack_with(kind).await.map_err(|error| error.to_string()))
    }

    /// Results that are still wanted.
    fn left(&self) -> u64 {
        self.count.map_or(u64::MAX, |count| count.saturating_sub(self.taken))
    }

    /// Whether it waits for results that are not there yet.
    fn waits(&self) -> bool {
        self.follow || self.count.is_some()
    }
}

/// Whether everything was taken and acknowledged. What a taker that was killed had comes again.
async fn is_empty(consumer: &PullConsumer) -> bool {
    consumer.get_info().await.is_ok_and(|info| info.num_pending == 0 && info.num_ack_pending == 0)
}
