//! `farm results`: takes results out of the farm, each once for each taker.
//!
//! A result is acknowledged once it is written. A taker that is killed in between receives it again: a file is then
//! overwritten with the same content, and standard output has the result twice. What every taker has acknowledged is
//! removed from the farm, which would be full of it otherwise.

pub(crate) mod error;
mod progress;
mod sink;
mod source;

use crate::args;
use crate::connect;
use crate::error::{Cause, FarmError};
use crate::ids;
use crate::large::{self, Contents, LargeError, Store};
use crate::quiet::Quiet;
use crate::streams::names;
use async_nats::jetstream::{self, AckKind, Message};
use bytes::Bytes;
use futures_util::StreamExt;
use sidecore_assign::Payload;
use sidecore_core::time::Nanos;
use sidecore_nats::Signals;
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::tell;
use sink::Sink;
use source::Source;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const BATCH: usize = 256;
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time at the end for the last acknowledgements.
const LAST: Duration = Duration::from_secs(2);
const LOST: &str = "the last acknowledgements may be lost";
const PAUSE: Duration = Duration::from_millis(250);
/// How often, and how long after one another, a result is looked for that is larger than a message.
const LOOKS: u32 = 4;
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same where the servers do not give it.
const MANY_LOOKS: u32 = 12;
const LOOK_LATER: Duration = Duration::from_secs(5);
/// Interval of removals.
const PRUNE_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: args::Results) -> Result<u8, FarmError> {
    let client = connect::connect(&args.farm, connect::Role::Operator).await?;
    let source = Source::open(jetstream::new(client.clone()), &args.farm.farm, &args.name).await?;
    let large = Store::new(jetstream::new(client.clone()), &args.farm.farm, Contents::Results);
    let mut taker = Taker::new(&args, source, large)?;
    let mut signals = Signals::new()?;
    let done = tokio::select! {
        done = taker.take() => done,
        () = signals.next() => Ok(()),
    };
    // Acknowledgements may still be on their way to the server, which may be away.
    let flushed = match timeout(LAST, client.flush()).await {
        Ok(flushed) => flushed.map_err(FarmError::nats(LOST)),
        Err(late) => Err(FarmError::nats(LOST)(late)),
    };
    if flushed.is_ok() {
        taker.prune_at_end().await;
    }
    tell(format_args!("took {} results", taker.taken));
    done.and(flushed).map(|()| if taker.odd > 0 { REFUSED } else { 0 })
}

enum TakeError {
    Later(Cause),
    Final(FarmError),
}

struct Taker {
    source: Source,
    sink: Sink,
    taken: u64,
    /// Results left out: their name is no id, or no dispatcher committed them.
    odd: u64,
    follow: bool,
    count: Option<u64>,
    quiet: Quiet,
    begun: Instant,
    answered: Instant,
    /// Whether taken results are removed, and when they were.
    keep: bool,
    pruned: Instant,
    large: Store,
    /// Objects of taken results, with the results' numbers.
    objects: VecDeque<(u64, Payload)>,
    /// How often results were looked for that are there in part.
    looks: HashMap<u64, u32>,
}

impl Taker {
    fn new(args: &args::Results, source: Source, large: Store) -> Result<Self, FarmError> {
        let (sink, now) = (Sink::open(args)?, Instant::now());
        let args::Results { follow, count, keep, .. } = *args;
        let quiet = Quiet::default();
        Ok(Self {
            source,
            sink,
            taken: 0,
            odd: 0,
            follow,
            count,
            quiet,
            begun: now,
            answered: now,
            keep,
            pruned: now,
            large,
            objects: VecDeque::new(),
            looks: HashMap::new(),
        })
    }

    async fn take(&mut self) -> Result<(), FarmError> {
        while self.left() > 0 {
            match self.turn().await {
                Ok(true) if !self.waits() => return Ok(()),
                Ok(_) => {
                    self.answered = Instant::now();
                    self.quiet.goes_on(self.now(), "going on");
                }
                Err(TakeError::Later(error)) => self.look_again(error).await?,
                Err(TakeError::Final(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes one batch. Returns whether the stream has no more.
    async fn turn(&mut self) -> Result<bool, TakeError> {
        let came = self.batch().await?;
        if self.pruned.elapsed() > PRUNE_INTERVAL {
            self.prune().await;
        }
        if came > 0 && !self.source.remembers_much() {
            return Ok(false);
        }
        self.source.is_empty().await.map_err(TakeError::Later)
    }

    /// Removes what every taker has, if it may. Other failures pass, or the next batch meets them.
    async fn prune(&mut self) {
        if self.keep {
            return;
        }
        self.pruned = Instant::now();
        match self.source.prune().await {
            Ok(floor) => self.remove_objects(floor).await,
            Err(error @ FarmError::Denied { .. }) => {
                self.keep = true;
                tell(format_args!("taken results stay in the farm, which may become full of them: {error}"));
            }
            Err(_) => {}
        }
    }

    /// Removes what the last acknowledgements allow, once the server has applied them.
    async fn prune_at_end(&mut self) {
        let applied = async {
            while self.source.acknowledgements_are_due().await.unwrap_or(false) {
                sleep(PAUSE / 10).await;
            }
        };
        let _ = timeout(PRUNE_INTERVAL, applied).await;
        self.prune().await;
    }

    async fn look_again(&mut self, error: Cause) -> Result<(), FarmError> {
        if self.answered.elapsed() > RETRY_TIMEOUT && !self.follow {
            return Err(FarmError::nats("the servers do not answer")(error));
        }
        let why = self.source.look_up().await.err().map_or(error, Cause::from);
        self.quiet.waits(self.now(), &format!("waiting for results: {why}; trying again"));
        sleep(PAUSE).await;
        Ok(())
    }

    async fn batch(&mut self) -> Result<usize, TakeError> {
        let most = usize::try_from(self.left()).unwrap_or(BATCH).min(BATCH);
        let mut messages = self.source.batch(most).await.map_err(TakeError::Later)?;
        let mut came = 0;
        while let Some(message) = messages.next().await {
            came += 1;
            self.one(&message.map_err(TakeError::Later)?).await?;
        }
        Ok(came)
    }

    async fn one(&mut self, message: &Message) -> Result<(), TakeError> {
        let number = message.info().map_err(TakeError::Later)?.stream_sequence;
        let id = message.subject.rsplit('.').next().unwrap_or_default();
        let is_committed = message.headers.as_ref().is_some_and(|headers| headers.get(names::KIND).is_some());
        let kind = if !ids::is_one(id) || !is_committed {
            let why = if is_committed { "whose name is no id" } else { "that no dispatcher committed" };
            self.odd += 1;
            tell(format_args!("left out a result {why}: {}", id.escape_debug()));
            AckKind::Term
        } else if self.source.progress.has(number) {
            // The consumer was recreated and has delivered an earlier result again.
            AckKind::Ack
        } else {
            self.put(id, number, message).await?
        };
        if !matches!(kind, AckKind::Nak(_)) {
            self.source.progress.take(number);
        }
        message.ack_with(kind).await.map_err(TakeError::Later)
    }

    /// Writes a result. `Nak`: a replica may lack it still. `Term`: there is none where its message says.
    async fn put(&mut self, id: &str, number: u64, message: &Message) -> Result<AckKind, TakeError> {
        let result = large::payload_of(message.headers.as_ref(), message.payload.clone());
        let why = match self.octets_of(id, &result).await {
            Ok(octets) => {
                self.looks.remove(&number);
                self.sink.put(id, &octets).map_err(TakeError::Final)?;
                self.taken += 1;
                if result.is_reference && !self.keep {
                    self.objects.push_back((number, result));
                }
                return Ok(AckKind::Ack);
            }
            Err(why) => why,
        };
        let looks = self.looks.entry(number).or_default();
        *looks += 1;
        match why {
            // Other results come first.
            LargeError::Gone(_) if *looks < LOOKS => return Ok(AckKind::Nak(Some(LOOK_AGAIN))),
            LargeError::Failed(_) | LargeError::NoAnswer if self.follow || *looks < MANY_LOOKS => {
                return Ok(AckKind::Nak(Some(LOOK_LATER)));
            }
            LargeError::Denied(_) | LargeError::Failed(_) | LargeError::NoAnswer => {
                return Err(TakeError::Final(why.into()));
            }
            _ => {}
        }
        self.looks.remove(&number);
        self.odd += 1;
        tell(format_args!("left out the result {}: {why}", id.escape_debug()));
        Ok(AckKind::Term)
    }

    /// `NoStore`: the farm has none. Early servers do not answer then, and others say the same while they have no leader.
    async fn octets_of(&self, id: &str, result: &Payload) -> Result<Bytes, LargeError> {
        if !large::is_result_of(result, id) {
            return Err(LargeError::NoReference);
        }
        match self.large.get_now(result).await {
            Err(error @ (LargeError::Failed(_) | LargeError::NoAnswer | LargeError::NoStore)) => {
                match (self.large.is_there().await, error) {
                    (Ok(false), _) => Err(LargeError::NoStore),
                    (_, LargeError::NoStore) => Err(LargeError::NoAnswer),
                    (_, error) => Err(error),
                }
            }
            got => got,
        }
    }

    /// Removes objects of results that all takers have: up to this number.
    async fn remove_objects(&mut self, floor: u64) {
        while self.objects.front().is_some_and(|(number, _)| *number <= floor) {
            if let Some((_, result)) = self.objects.pop_front() {
                // One that stays ends by its age.
                drop(self.large.remove(&result).await);
            }
        }
    }

    fn left(&self) -> u64 {
        self.count.map_or(u64::MAX, |count| count.saturating_sub(self.taken))
    }

    fn waits(&self) -> bool {
        self.follow || self.count.is_some()
    }

    fn now(&self) -> Nanos {
        self.begun.elapsed().as_nanos() as Nanos
    }
}
