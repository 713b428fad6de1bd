//! Publishes the events of a source and takes the answers, until all are dealt with.

use super::HEADROOM;
use super::error::InputError;
use super::hold::Hold;
use super::input::{Found, InvalidInput};
use super::outbox::{Attempt, Outbox, Outcome};
use super::place::Keeper;
use super::summary::Summary;
use crate::args::{Feed, OverflowPolicy};
use crate::connect;
use crate::error::FarmError;
use crate::ids;
use crate::large::{LARGEST, LargeError, Store};
use crate::streams::names;
use async_nats::connection::State;
use async_nats::{Client, HeaderMap, Message, Subscriber, jetstream};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use sidecore_assign::Payload;
use sidecore_nats::{Ack, Padding, Signals};
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::{print, tell};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

const TICK: Duration = Duration::from_millis(250);
/// An event without an answer for this time is published again.
const OVERDUE: Duration = Duration::from_secs(5);
/// Time at the end to store all events read, and then the place.
const LAST: Duration = Duration::from_secs(10);
const BATCH_LIMIT: usize = 256;

/// Token in the reply subject of a place, instead of an event's number; the place's serial number follows.
const PLACE: &str = "place";

/// Whose account the feeder has.
pub(super) enum Account {
    /// One of its own, with this namespace.
    Own(String),
    /// The farm's, with the store of large events if the farm has one.
    Farms(Option<Arc<Store>>),
}

impl Account {
    pub(super) fn is_farms(&self) -> bool {
        matches!(self, Self::Farms(_))
    }

    fn namespace(&self) -> Option<&str> {
        if let Self::Own(namespace) = self { Some(namespace) } else { None }
    }

    /// Most octets of an event, in a message or in an object.
    pub(super) fn limit(&self, client: &Client) -> usize {
        match self {
            Self::Farms(Some(_)) => LARGEST,
            _ => client.max_payload().saturating_sub(HEADROOM),
        }
    }

    fn large(self) -> Option<Arc<Store>> {
        if let Self::Farms(large) = self { large } else { None }
    }
}

pub(super) struct Pump {
    client: Client,
    subject: String,
    /// The same for any batch: what an account must allow.
    allowed: String,
    /// Length of the subject under which servers store the events.
    stored_subject: usize,
    padding: Padding,
    kind: String,
    /// Times from being fed, ns.
    deadline: Option<u128>,
    delay: Option<u128>,
    /// Secret of this feeder. Without it another could have an event of the same id recognised in the place of this one.
    salt: String,
    inbox: String,
    replies: Subscriber,
    large: Option<LargeEvents>,
    outbox: Outbox,
    keeper: Option<Keeper>,
    again: Arc<Notify>,
    take: mpsc::Receiver<Found>,
    when_full: OverflowPolicy,
    summary: Summary,
    hold: Hold,
    ended: bool,
    /// After a signal: deadline for the events that were read.
    last: Option<Instant>,
}

impl Pump {
    pub(super) async fn open(
        args: &Feed,
        client: Client,
        batch: &str,
        keeper: Option<Keeper>,
        again: Arc<Notify>,
        take: mpsc::Receiver<Found>,
        account: Account,
    ) -> Result<Self, FarmError> {
        let inbox = client.new_inbox();
        let replies = client.subscribe(format!("{inbox}.*.*")).await.map_err(FarmError::nats("cannot subscribe"))?;
        let subject = |namespace: Option<&str>, batch: &str| {
            names::fed(&args.farm.farm, args.priority(), namespace, batch, &args.kind)
        };
        Ok(Self {
            stored_subject: subject(account.namespace(), batch).len(),
            padding: Padding::of(&client),
            subject: subject(None, batch),
            allowed: subject(None, "*"),
            kind: args.kind.clone(),
            deadline: args.deadline.map(|deadline| deadline.as_nanos()),
            delay: args.delay.map(|delay| delay.as_nanos()),
            salt: keeper.as_ref().map_or_else(ids::secret, |keeper| Ok(keeper.salt().to_owned()))?,
            outbox: Outbox::new(args.in_flight.into(), args.in_flight_bytes),
            when_full: args.when_full,
            summary: Summary::new(),
            hold: Hold::new(account.is_farms().then(|| jetstream::new(client.clone())), &args.farm.farm),
            large: account.large().map(LargeEvents::new),
            ended: false,
            last: None,
            client,
            inbox,
            replies,
            keeper,
            again,
            take,
        })
    }

    pub(super) async fn run(&mut self, reader: JoinHandle<Result<(), FarmError>>) -> Result<u8, FarmError> {
        let mut signals = Signals::new()?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut denied = std::pin::pin!(connect::denied());
        while !self.is_over().await? {
            self.publish().await?;
            let probe = self.hold.probe();
            tokio::select! {
                Some(reply) = self.replies.next() => self.answers(&reply),
                found = self.take.recv(), if !self.ended && self.outbox.has_room() => self.found(found),
                (attempt, stored) = LargeEvents::stored(&mut self.large) => self.object_stored(attempt, stored),
                () = self.again.notified() => self.connected(),
                _ = tick.tick() => self.tick().await?,
                said = &mut denied => {
                    return Err(FarmError::Denied { what: format!("feed {}", self.allowed).into(), said, remedy: "" });
                }
                () = sleep_until(probe.unwrap_or_else(Instant::now)), if probe.is_some() => {}
                () = signals.next() => self.stop(&reader)?,
            }
        }
        self.end(reader).await
    }

    async fn publish(&mut self) -> Result<(), FarmError> {
        let now = Instant::now();
        match self.hold.probe() {
            Some(probe) if now < probe => return Ok(()),
            Some(_) => {
                self.hold.tries(now);
                self.publish_one(now).await?;
            }
            None => while self.publish_one(now).await? {},
        }
        self.settle();
        Ok(())
    }

    async fn publish_one(&mut self, now: Instant) -> Result<bool, FarmError> {
        let Some((attempt, found)) = self.outbox.publish(now) else { return Ok(false) };
        let Ok(body) = &found.body else { return Ok(true) };
        let limit = self.client.max_payload().saturating_sub(HEADROOM);
        let mut headers = HeaderMap::new();
        let carried = match &mut self.large {
            _ if body.len() <= limit => body.clone(),
            Some(large) => {
                let Some(reference) = large.reference(attempt, &found.id, body) else {
                    self.outbox.storing(attempt);
                    return Ok(true);
                };
                headers.insert(names::LARGE, "1");
                reference
            }
            None => {
                let why = InvalidInput::TooLarge(body.len() as u64, limit).to_string();
                self.refuse(attempt, &why);
                return Ok(true);
            }
        };
        let tag = ids::digest([self.salt.as_bytes(), self.kind.as_bytes(), body]);
        headers.insert(names::ID, format!("{}.{tag}", found.id));
        headers.insert(names::KIND, self.kind.as_str());
        let fed = unix_now();
        headers.insert(names::FED, fed.to_string());
        for (name, after) in [(names::DEADLINE, self.deadline), (names::NOT_BEFORE, self.delay)] {
            if let Some(after) = after {
                headers.insert(name, fed.saturating_add(after).to_string());
            }
        }
        self.padding.add(&mut headers, self.stored_subject, carried.len());
        let reply = format!("{}.{}.{}", self.inbox, attempt.event, attempt.number);
        let sent = self.client.publish_with_reply_and_headers(self.subject.clone(), reply, headers, carried).await;
        sent.map(|()| true).map_err(|error| FarmError::nats(format!("cannot publish {}", found.id))(error))
    }

    fn object_stored(&mut self, attempt: Attempt, stored: Result<Payload, LargeError>) {
        let Some(large) = &mut self.large else { return };
        large.storing = None;
        for next in std::mem::take(&mut large.waiting) {
            self.outbox.again(next);
        }
        match stored {
            Ok(reference) => {
                large.references.insert(attempt.event, (reference.carried, 0));
                self.outbox.again(attempt);
            }
            Err(LargeError::Full) => self.event_answer(attempt, Ack::Full),
            Err(error @ LargeError::TooLargeForStore(..)) => self.event_answer(attempt, Ack::Never(error.to_string())),
            Err(error) => self.event_answer(attempt, Ack::NotNow(error.to_string())),
        }
        self.settle();
    }

    fn answers(&mut self, reply: &Message) {
        self.answer(reply);
        for _ in 0..BATCH_LIMIT {
            let Some(Some(reply)) = self.replies.next().now_or_never() else { break };
            self.answer(&reply);
        }
        self.settle();
    }

    fn answer(&mut self, reply: &Message) {
        let ack = Ack::of(reply);
        let mut tokens = reply.subject.rsplit('.');
        let (number, to) = (tokens.next().unwrap_or_default(), tokens.next().unwrap_or_default());
        if let (Ok(event), Ok(number)) = (to.parse(), number.parse()) {
            self.event_answer(Attempt { event, number }, ack);
        } else if let (PLACE, Ok(serial), Some(keeper)) = (to, number.parse(), &mut self.keeper) {
            match ack {
                Ack::Stored { .. } => keeper.arrived(serial),
                // The next tick tries again.
                Ack::Full | Ack::NotNow(_) | Ack::Never(_) => keeper.failed(serial),
            }
        }
    }

    fn event_answer(&mut self, attempt: Attempt, ack: Ack) {
        match ack {
            Ack::Stored { duplicate } => {
                self.outbox.stored(attempt, duplicate);
                self.goes_on();
            }
            Ack::Full if self.when_full == OverflowPolicy::Shed => {
                if self.outbox.give_up(attempt, Outcome::Shed).is_some() {
                    self.large.iter_mut().for_each(|large| large.give_up(attempt.event));
                }
            }
            Ack::Never(why) => self.refuse(attempt, &why),
            Ack::Full if self.outbox.again(attempt) => {
                self.summary.clear();
                self.hold.full();
            }
            Ack::NotNow(said) if self.outbox.again(attempt) => {
                self.summary.clear();
                self.hold.not_now(said);
            }
            Ack::Full | Ack::NotNow(_) => {}
        }
    }

    fn refuse(&mut self, attempt: Attempt, why: &str) {
        if let Some(found) = self.outbox.give_up(attempt, Outcome::Refused) {
            self.large.iter_mut().for_each(|large| large.give_up(attempt.event));
            self.summary.refused(name(found), why);
        }
    }

    fn goes_on(&mut self) {
        if self.hold.is_waiting() {
            self.summary.clear();
        }
        self.hold.goes_on();
    }

    /// Sends again: messages under way were lost with the connection.
    fn connected(&mut self) {
        self.outbox.again_since(Instant::now(), Duration::ZERO);
        self.keeper.iter_mut().for_each(Keeper::cut_off);
    }

    fn found(&mut self, found: Option<Found>) {
        let Some(found) = found else {
            self.ended = true;
            return;
        };
        self.accept(found);
        for _ in 0..BATCH_LIMIT {
            if !self.outbox.has_room() {
                break;
            }
            let Ok(found) = self.take.try_recv() else { break };
            self.accept(found);
        }
        self.settle();
    }

    fn accept(&mut self, found: Found) {
        self.summary.read();
        if let Err(why) = &found.body {
            self.summary.refused(name(&found), &why.to_string());
        }
        self.outbox.push(found);
    }

    fn settle(&mut self) {
        while let Some((found, outcome)) = self.outbox.pop() {
            self.summary.over(outcome);
            self.large.iter_mut().for_each(|large| large.forget_before(self.outbox.first()));
            if let (Some(keeper), Some(mark)) = (&mut self.keeper, found.after) {
                keeper.advance(mark);
            }
            if let Some((asker, number)) = found.asker {
                match (outcome, &found.body) {
                    (Outcome::Shed, _) => asker.refuse(format!("shed {number}\n")),
                    (Outcome::Refused, Err(why)) => asker.refuse(format!("refused {number} {why}\n")),
                    (Outcome::Refused, Ok(_)) => asker.refuse(format!("refused {number} by the server\n")),
                    (Outcome::Stored | Outcome::Already, _) => {}
                }
                asker.done(number);
            }
        }
    }

    async fn tick(&mut self) -> Result<(), FarmError> {
        let now = Instant::now();
        let silent = self.outbox.again_since(now, OVERDUE) > 0;
        // A lost connection has its own message.
        if silent && self.client.connection_state() == State::Connected {
            self.summary.clear();
            self.hold.silent();
        }
        self.hold.tick(now).await;
        self.save().await?;
        self.summary.progress();
        Ok(())
    }

    async fn save(&mut self) -> Result<(), FarmError> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        let Some(place) = keeper.due(Instant::now()) else { return Ok(()) };
        let reply = format!("{}.{PLACE}.{}", self.inbox, keeper.serial());
        let sent = self.client.publish_with_reply(keeper.subject.clone(), reply, place).await;
        sent.map_err(FarmError::nats("cannot store the feeder's place"))
    }

    async fn is_over(&mut self) -> Result<bool, FarmError> {
        if self.last.is_some_and(|last| Instant::now() >= last) {
            return Ok(true);
        }
        if !self.ended || !self.outbox.is_empty() {
            return Ok(false);
        }
        match &self.keeper {
            Some(keeper) if !keeper.is_saved() => {
                self.last.get_or_insert(Instant::now() + LAST);
                if keeper.is_idle() {
                    self.save().await?;
                }
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// First signal: reads nothing more. Second signal: ends immediately.
    fn stop(&mut self, reader: &JoinHandle<Result<(), FarmError>>) -> Result<(), FarmError> {
        self.summary.clear();
        if self.last.is_some() {
            return Err(InputError::Stopped(self.summary.line()).into());
        }
        reader.abort();
        self.take.close();
        self.last = Some(Instant::now() + LAST);
        Ok(())
    }

    async fn end(&mut self, reader: JoinHandle<Result<(), FarmError>>) -> Result<u8, FarmError> {
        self.summary.clear();
        if !self.outbox.is_empty() {
            tell(format_args!(
                "{} events had no answer of the server: feed them again (a feeder with a --name does by itself)",
                self.outbox.len()
            ));
        }
        print(&format!("{}\n", self.summary.line())).map_err(FarmError::output)?;
        match reader.await {
            Ok(read) => read?,
            // A signal aborted the reader.
            Err(ended) if ended.is_cancelled() => {}
            Err(panicked) => return Err(panicked.into()),
        }
        Ok(if self.summary.is_complete() { 0 } else { REFUSED })
    }
}

/// Objects of events that are not dealt with: one that is published again is not stored again. They are stored one by one,
/// in a task, so that small events and signals need not wait.
struct LargeEvents {
    store: Arc<Store>,
    /// By the number of the event, with the number of attempts at publishing it.
    references: BTreeMap<u64, (Bytes, u32)>,
    storing: Option<(Attempt, JoinHandle<Result<Payload, LargeError>>)>,
    /// Attempts at events whose turn comes after that.
    waiting: Vec<Attempt>,
}

impl LargeEvents {
    fn new(store: Arc<Store>) -> Self {
        Self { store, references: BTreeMap::new(), storing: None, waiting: Vec::new() }
    }

    /// The reference to the event's object. `None`: it is not stored yet.
    fn reference(&mut self, attempt: Attempt, id: &str, body: &Bytes) -> Option<Bytes> {
        let known = self.references.get_mut(&attempt.event).map(|(reference, attempts)| {
            *attempts += 1;
            reference.clone()
        });
        if known.is_none() && self.storing.is_some() {
            self.waiting.push(attempt);
        } else if known.is_none() {
            let (store, id, body) = (Arc::clone(&self.store), id.to_owned(), body.clone());
            self.storing = Some((attempt, tokio::spawn(async move { store.put(&id, &body).await })));
        }
        known
    }

    /// The next object that is stored, or why it is not.
    async fn stored(large: &mut Option<Self>) -> (Attempt, Result<Payload, LargeError>) {
        let Some((attempt, task)) = large.as_mut().and_then(|large| large.storing.as_mut()) else {
            return pending().await;
        };
        let stored = task.await.unwrap_or_else(|panicked| Err(LargeError::Failed(panicked.into())));
        (*attempt, stored)
    }

    /// Removes the object of an event that is given up. Another attempt than the last one may have stored the event.
    fn give_up(&mut self, event: u64) {
        if let Some((reference, 1)) = self.references.remove(&event) {
            let store = Arc::clone(&self.store);
            // One that stays ends by its age.
            tokio::spawn(async move { drop(store.remove(&Payload::reference(reference)).await) });
        }
    }

    fn forget_before(&mut self, event: u64) {
        self.references = self.references.split_off(&event);
    }
}

fn name(found: &Found) -> &str {
    found.name.as_deref().unwrap_or(&found.id)
}

/// By the wall clock: only the displayed lag of an event uses it.
fn unix_now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
