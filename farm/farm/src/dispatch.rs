//! The farm's controller: takes events from the work queue, assigns them to nodes, commits their results once, and only
//! then acknowledges them.
//!
//! One dispatcher is active. Its death loses nothing: the server redelivers unacknowledged events to the next
//! dispatcher, and refuses a second result of an event. One task does everything: it takes inputs, decides, and sends.

mod cancelled;
mod commits;
mod counts;
mod delays;
mod depth;
mod inputs;
mod known;
mod lead;
mod outbox;
mod pace;
mod queue;
mod stream_care;

use crate::args::{self, Keep};
use crate::assign::{Assigner, End, Ended, NewEvent, Offered, Room, Settings};
use crate::cancel::{self, Answer, Request};
use crate::connect;
use crate::error::FarmError;
use crate::large::{self, Contents, Remover, Store};
use crate::quiet::Quiet;
use crate::status::{Status, Totals};
use crate::streams::{self, names::EventSubject};
use crate::wire::{self, Lead};
use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, Message, Subject};
use bytes::Bytes;
use cancelled::Cancelled;
use commits::{Commits, Stored};
use counts::Counts;
use delays::Delays;
use depth::{Depth, Queued};
use inputs::{Begun, Input, Inputs};
use known::{Known, MessageState, Origin};
use lead::{Leadership, Turn};
use outbox::Outbox;
pub(crate) use pace::Pace;
use queue::{NotTaken, PROGRESS, Queue, Taken};
use sidecore_assign::Payload;
use sidecore_core::time::Nanos;
use sidecore_nats::Signals;
use sidecore_nats::subscribe;
use sidecore_nodes::pending::Priority;
use sidecore_terminal::output;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stream_care::StreamCare;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

const BATCH_LIMIT: usize = 512;
const MAX_COMMITS: usize = 4096;
/// Beats between two status messages, and between two retries of refused results.
const SHOW: u64 = 25;
const BEAT: Nanos = 10_000_000;
/// A beat with a longer delay shows that the process did not run, ns.
const LATE: Nanos = 30_000_000;
/// Time for nodes that lost their connection together with this process to return, ns.
const RETURN: Nanos = 1_000_000_000;
/// An active dispatcher takes the queue over again if events stand still in it for this time, ns. A lost message is
/// redelivered sooner.
const STRANDED: Nanos = 40_000_000_000;
/// Beats for one pass over all held messages, which reports them in progress.
const PARTS: u64 = PROGRESS / BEAT;
const LAST: Duration = Duration::from_secs(2);
/// Part of the largest message that is reserved for fields around the octets.
const MARGIN: usize = 1024;

pub(crate) async fn run(args: &args::Dispatch) -> Result<u8, FarmError> {
    let signals = Signals::new()?;
    let client = connect::connect(&args.farm, connect::Role::Dispatcher).await?;
    let context = jetstream::new(client.clone());
    streams::ensure(&context, &args.farm.farm, &args.durability).await?;
    streams::warn_of_replicas(&context, &args.farm.farm).await?;
    let farm = &args.farm.farm;
    let (commits, confirmed) = Commits::new(&client, farm).await?;
    let inputs = Inputs::new(&client, farm, confirmed).await?;
    let now = Instant::now();
    let dispatcher = Dispatcher {
        args,
        queue: Queue::new(farm),
        leadership: Leadership::new(0, random()),
        inputs,
        outbox: Outbox::new(client.clone()),
        commits,
        known: Known::default(),
        assigner: None,
        totals: Totals::default(),
        lead_subject: format!("farm.{farm}.dispatcher").into(),
        status_subject: format!("farm.{farm}.status").into(),
        connects: client.statistics().connects.load(Ordering::Relaxed),
        connected: true,
        beats: 0,
        last_beat: 0,
        moving: 0,
        denied: connect::denials(),
        quiet: Quiet::default(),
        counts: Counts::default(),
        pace: Pace::default(),
        depth: Depth::watch(context.clone(), farm),
        care: StreamCare::default(),
        objects: Remover::new(Store::new(context.clone(), farm, Contents::Events)),
        unwanted: Remover::new(Store::new(context.clone(), farm, Contents::Results)),
        delays: Delays::default(),
        cancelled: Cancelled::default(),
        cancel_answer: Answer::default(),
        begun: now,
        context,
        client,
    };
    dispatcher.serve(signals).await;
    Ok(0)
}

struct Dispatcher<'a> {
    args: &'a args::Dispatch,
    client: Client,
    context: Context,
    inputs: Inputs,
    outbox: Outbox,
    queue: Queue,
    commits: Commits,
    known: Known,
    leadership: Leadership,
    /// Only while the dispatcher is active, or was until it lost its connection.
    assigner: Option<Assigner<Origin>>,
    /// Counts until the last assigner ended.
    totals: Totals,
    lead_subject: Subject,
    status_subject: Subject,
    connects: u64,
    connected: bool,
    beats: u64,
    last_beat: Nanos,
    moving: Nanos,
    denied: watch::Receiver<String>,
    quiet: Quiet,
    counts: Counts,
    pace: Pace,
    depth: Depth,
    /// Of this consumer, which delivers each delayed event once before it is due.
    delays: Delays,
    care: StreamCare,
    objects: Remover,
    /// Objects of results that nobody keeps.
    unwanted: Remover,
    /// Of this term.
    cancelled: Cancelled,
    /// The last answer about it. Its request comes again if the answer was lost.
    cancel_answer: Answer,
    begun: Instant,
}

impl Dispatcher<'_> {
    async fn serve(mut self, mut signals: Signals) {
        loop {
            let input = tokio::select! {
                () = signals.next() => return self.end().await,
                input = self.inputs.next() => input,
            };
            self.take(input);
            for _ in 1..BATCH_LIMIT {
                let Some(input) = self.inputs.ready() else { break };
                self.take(input);
            }
            self.advance();
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Beat => {
                self.hear_nodes(now);
                self.beat(now);
            }
            Input::Lead(message) => self.hear_lead(now, &message),
            Input::Cancel(message) => self.cancel(now, &message),
            Input::Node(message) => self.hear_node(now, &message),
            Input::Queue(message) => self.take_message(now, message),
            Input::Confirmed(message) => self.confirm(now, &message),
            Input::Begun(term, begun) => self.has_begun(now, term, begun),
        }
        self.finish_ended(now);
    }

    fn hear_node(&mut self, now: Nanos, message: &Message) {
        if let Some(assigner) = &mut self.assigner {
            assigner.hear(now, &message.payload);
        }
    }

    /// A node whose beats wait here behind confirmations is not silent.
    fn hear_nodes(&mut self, now: Nanos) {
        for _ in 0..BATCH_LIMIT {
            let Some(message) = self.inputs.ready_of_nodes() else { return };
            self.hear_node(now, &message);
            self.finish_ended(now);
        }
    }

    /// Runs before the next input: the tag of an ended event may be reused.
    fn finish_ended(&mut self, now: Nanos) {
        while let Some(ended) = self.assigner.as_mut().and_then(Assigner::next_ended) {
            self.finish(now, ended);
        }
    }

    fn advance(&mut self) {
        let now = self.now();
        let Some(assigner) = &mut self.assigner else { return };
        if self.outbox.is_crowded() {
            return;
        }
        assigner.pump(now);
        while let Some((subject, message)) = assigner.next_message() {
            // The node's count reveals a message that does not arrive.
            self.outbox.send(Subject::from(&*subject), message);
        }
        self.finish_ended(now);
        if self.leadership.active().is_some() && self.connected {
            for priority in Priority::ALL {
                let (room, most) = self.room(priority);
                self.queue.ask(now, priority, room, most / 8, self.client.max_payload(), &self.outbox);
            }
        }
    }

    /// Room for events of the priority, and the most events of it.
    fn room(&self, priority: Priority) -> (Room, usize) {
        let full = self.commits.len() >= MAX_COMMITS || !self.commits.why().is_empty();
        match &self.assigner {
            Some(assigner) if !full => {
                let Room { events, bytes } = assigner.room(priority);
                let bytes = match priority {
                    Priority::Normal => bytes.saturating_sub(self.commits.bytes()),
                    Priority::Urgent => bytes,
                };
                (Room { events, bytes }, assigner.most_events(priority))
            }
            _ => (Room { events: 0, bytes: 0 }, 0),
        }
    }

    fn take_message(&mut self, now: Nanos, message: Message) {
        match self.queue.take(now, message) {
            Taken::Event(message, position) => {
                if let Some((id, subject, body, origin)) = queue::event(now, message, position) {
                    self.take_event(now, id, &subject, body, origin);
                }
            }
            Taken::Handled => {}
            // During a takeover this dispatcher deletes its former consumer itself.
            Taken::Gone if self.leadership.active().is_none() => {}
            Taken::Gone => self.step_down(now, "the work queue's consumer is gone; making it again"),
        }
    }

    fn take_event(&mut self, now: Nanos, id: Box<str>, subject: &Subject, body: Payload, origin: Origin) {
        let Some(assigner) = &mut self.assigner else { return queue::give_back(&self.outbox, &origin) };
        let known = self.known.get(origin.position);
        if known.is_some() {
            assigner.totals_mut().duplicates += 1;
        }
        let former = match known {
            Some(MessageState::Held(tag)) => assigner.origin_mut(tag),
            Some(MessageState::Committing(index)) => self.commits.origin_mut(index),
            Some(MessageState::Done) => return self.outbox.send(origin.acknowledge, Bytes::new()),
            None => None,
        };
        if let Some(former) = former.filter(|former| former.position == origin.position) {
            *former = origin;
            return;
        }
        let (EventSubject { priority, kind, .. }, position) = (EventSubject::of(subject), origin.position);
        if self.cancelled.has(&id, position.number) {
            return assigner.cancel_at_once(now, NewEvent { id, kind, body, until: None, priority, origin });
        }
        if origin.not_before > 0
            && let wait @ 1.. = origin.not_before.saturating_sub(since_1970())
        {
            self.delays.add(origin.not_before);
            return queue::give_back_until_due(&self.outbox, &origin, wait);
        }
        let left = |deadline: Nanos| now.saturating_add(deadline.saturating_sub(since_1970()));
        let until = (origin.deadline > 0).then(|| left(origin.deadline));
        match assigner.offer(now, NewEvent { id, kind, body, until, priority, origin }) {
            Offered::Held(tag) => self.known.put(position, MessageState::Held(tag)),
            Offered::Ended => {}
            // An abandoned request still exists at the server, so more events arrived than the last request asked for.
            Offered::NoRoom(origin) => queue::give_back_for_later(&self.outbox, &origin),
        }
    }

    fn cancel(&mut self, now: Nanos, message: &Message) {
        let Ok(request) = serde_json::from_slice::<Request>(&message.payload) else { return };
        let Some(assigner) = self.assigner.as_mut().filter(|_| self.leadership.active().is_some()) else { return };
        if self.cancel_answer.number != request.number {
            let mut asked = Cancelled::default();
            let refused = asked.note(&request).max(self.cancelled.note(&request));
            let is_meant = |id: &str, origin: &Origin| asked.has(id, origin.position.number);
            let (cancelled, with_nodes) = assigner.cancel(now, is_meant);
            let (prefixes, ids) = asked.counts();
            let noted = prefixes + ids.saturating_sub(cancelled + with_nodes);
            self.cancel_answer = Answer { number: request.number, cancelled, with_nodes, noted, refused };
            // A new consumer is given the delayed events at once, and those that are meant end.
            if noted > 0
                && self.delays.len(since_1970()) > 0
                && let Some(term) = self.leadership.begin_again()
            {
                self.begin(term);
            }
        }
        let body = serde_json::to_vec(&self.cancel_answer).unwrap_or_default();
        self.outbox.send(cancel::answers(&self.args.farm.farm).into(), body.into());
    }

    fn finish(&mut self, now: Nanos, ended: Ended<Origin>) {
        let position = ended.event.origin.position;
        if self.args.results == Keep::None
            && let End::Done(result) = &ended.end
        {
            if large::is_result_of(result, &ended.event.id) {
                self.unwanted.remove_soon(result);
            }
            return self.settle(now, ended);
        }
        let index = self.commits.commit(now, ended, &self.outbox);
        self.known.put(position, MessageState::Committing(index));
    }

    fn confirm(&mut self, now: Nanos, message: &Message) {
        let Some(Stored { ended, already }) = self.commits.hear(now, message, &self.outbox) else { return };
        if let Some(assigner) = self.assigner.as_mut().filter(|_| matches!(ended.end, End::Done(_))) {
            let totals = assigner.totals_mut();
            *(if already { &mut totals.already_committed } else { &mut totals.committed }) += 1;
        }
        self.settle(now, ended);
    }

    fn settle(&mut self, now: Nanos, ended: Ended<Origin>) {
        if matches!(ended.end, End::Done(_)) {
            self.objects.remove_soon(&ended.event.body);
        }
        let Origin { position, acknowledge, fed, .. } = ended.event.origin;
        self.known.put(position, MessageState::Done);
        if let Some(assigner) = &mut self.assigner {
            let lag = if fed == 0 { 0 } else { since_1970().saturating_sub(fed) };
            assigner.returned(ended.by, now.saturating_sub(ended.at), lag);
        }
        // A lost acknowledgement causes a redelivery, which is recognised.
        self.outbox.send(acknowledge, Bytes::new());
    }

    fn hear_lead(&mut self, now: Nanos, message: &Message) {
        let Some(Lead { dispatcher }) = Lead::decode(&message.payload) else { return };
        self.hear_term(now, dispatcher);
    }

    fn hear_term(&mut self, now: Nanos, term: u64) {
        if self.leadership.hear(now, term) == Turn::End {
            self.drop_all(now, "another dispatcher is active");
        }
    }

    fn beat(&mut self, now: Nanos) {
        self.look_at_connection(now);
        let away = now.saturating_sub(self.last_beat).saturating_sub(BEAT);
        if away > LATE {
            self.leadership.was_away(now, away);
            self.assigner.iter_mut().for_each(|assigner| assigner.was_away(now, away));
        }
        self.last_beat = now;
        self.beats += 1;
        if !self.connected {
            return;
        }
        if let Turn::Begin(term) = self.leadership.tick(now, since_1970()) {
            self.begin(term);
        }
        if let Some(dispatcher) = self.leadership.announced() {
            self.outbox.send(self.lead_subject.clone(), wire::encode(&Lead { dispatcher }, 0));
        }
        if self.leadership.active().is_some() && self.queue.is_gone(now) {
            self.step_down(now, "the work queue does not answer");
        }
        self.assigner.iter_mut().for_each(|assigner| assigner.tick(now));
        self.report_progress(now);
        if self.beats.is_multiple_of(SHOW) {
            self.commits.tick(now, &self.outbox);
            self.look_after_streams(now);
            self.show(now);
        }
    }

    /// Makes streams that somebody deleted again: without them results wait, and after a while the farm does.
    fn look_after_streams(&mut self, now: Nanos) {
        let lacks = self.commits.takes_lack_of_stream();
        if self.leadership.active().is_some() {
            self.care.look(now, lacks, &self.context, &self.args.farm.farm, &self.args.durability);
        }
    }

    fn report_progress(&self, now: Nanos) {
        let (part, parts) = ((self.beats % PARTS) as usize, PARTS as usize);
        let held = self.assigner.iter().flat_map(|assigner| assigner.origins(part, parts));
        let old = |origin: &&Origin| now.saturating_sub(origin.taken) >= PROGRESS;
        held.chain(self.commits.origins(part, parts))
            .filter(old)
            .for_each(|origin| queue::report(&self.outbox, origin));
    }

    fn look_at_connection(&mut self, now: Nanos) {
        let connects = self.client.statistics().connects.load(Ordering::Relaxed);
        let connected = self.client.connection_state() == State::Connected;
        if !connected || connects != self.connects {
            self.leadership.cut_off(now);
            self.assigner.iter_mut().for_each(|assigner| assigner.was_away(now + RETURN, Nanos::MAX));
        }
        (self.connects, self.connected) = (connects, connected);
    }

    /// Starts the takeover of the queue for this term, in a task: announcements go on meanwhile.
    fn begin(&mut self, term: u64) {
        let (mut done, begun) = oneshot::channel();
        let (client, context) = (self.client.clone(), self.context.clone());
        let (farm, durability) = (self.args.farm.farm.clone(), self.args.durability.clone());
        // A second subscription would deliver each answer twice, and nodes would seem to answer too often.
        let hears_nodes = self.inputs.hears_nodes();
        tokio::spawn(async move {
            let taken = async {
                let streams = streams::ensure(&context, &farm, &durability).await.map_err(FarmError::from)?;
                let nodes = if hears_nodes {
                    None
                } else {
                    Some(subscribe(&client, format!("farm.{farm}.up")).await.map_err(FarmError::from)?)
                };
                let consumers = queue::take_over(&client, &farm, &streams, term, random()).await?;
                Ok(Begun { consumers, nodes })
            };
            // An abandoned attempt stops. The next one deletes what it created.
            tokio::select! {
                taken = taken => drop(done.send(taken)),
                () = done.closed() => {}
            }
        });
        self.inputs.wait_for(term, begun);
    }

    fn has_begun(&mut self, now: Nanos, term: u64, begun: Result<Begun, NotTaken>) {
        let Begun { consumers, nodes } = match begun {
            Ok(begun) => begun,
            Err(NotTaken::Later(later)) => return self.hear_term(now, later),
            // Held events stay here unless another dispatcher takes over.
            Err(NotTaken::Failed(why)) => {
                self.quiet.waits(now, &format!("stands by: {why}"));
                return self.leadership.cut_off(now);
            }
        };
        if !self.leadership.has_begun(term) {
            return;
        }
        self.queue.begin(&consumers.names, consumers.inbox);
        self.delays = Delays::default();
        self.inputs.listen(nodes, consumers.messages);
        let settings = self.settings(term);
        if let Some(assigner) = &mut self.assigner {
            assigner.resize(settings.hold_bytes, settings.message);
        } else {
            self.known = Known::default();
            self.assigner = Some(Assigner::new(settings, self.totals));
        }
        self.commits.send_all(now, &self.outbox);
    }

    fn settings(&self, dispatcher: u64) -> Settings {
        let args = self.args;
        let payload = self.client.max_payload();
        Settings {
            farm: args.farm.farm.clone(),
            dispatcher,
            balance: args.balance,
            tries: args.tries,
            deaths: args.deaths,
            backoff: args.backoff.as_nanos() as Nanos,
            hold: args.hold,
            // Room for the largest event.
            hold_bytes: usize::try_from(args.hold_bytes).unwrap_or(usize::MAX).max(2 * payload),
            silence: args.silence.as_nanos() as Nanos,
            limit: args.time_limit.as_nanos() as Nanos,
            message: payload.saturating_sub(MARGIN),
        }
    }

    fn step_down(&mut self, now: Nanos, why: &str) {
        self.leadership.lost(now);
        self.drop_all(now, why);
    }

    fn drop_all(&mut self, now: Nanos, why: &str) {
        self.quiet.waits(now, &format!("stands by: {why}"));
        self.give_all_back();
        self.totals = self.assigner.take().map_or(self.totals, |assigner| assigner.totals());
        self.inputs.unsubscribe_all();
        self.cancelled = Cancelled::default();
        self.commits.forget();
    }

    fn give_all_back(&self) {
        let held = self.assigner.iter().flat_map(|assigner| assigner.origins(0, 1));
        held.chain(self.commits.origins(0, 1)).for_each(|origin| queue::give_back(&self.outbox, origin));
    }

    fn show(&mut self, now: Nanos) {
        let mut status = match &mut self.assigner {
            Some(assigner) => assigner.show(now),
            None => Status {
                farm: self.args.farm.farm.clone(),
                balance: self.args.balance.name().to_owned(),
                totals: self.totals,
                ..Status::default()
            },
        };
        status.active = self.leadership.active().is_some();
        status.connected = self.connected;
        status.committing = self.commits.len() as u64;
        let queued = self.depth.now();
        status.delayed = self.delays.len(since_1970());
        self.look_for_stranded(now, queued.unwrap_or_default(), status.delayed);
        status.queued = queued.map(|queued| queued.events);
        status.unacknowledged = queued.map(|queued| queued.unacknowledged);
        status.rate = self.pace.observe(now, status.totals.committed);
        let due = status.queued.map(|queued| queued.saturating_sub(status.delayed));
        status.left_s = due.filter(|_| status.rate > 0.0).map(|due| due as f64 / status.rate);
        self.commits.why().clone_into(&mut status.holds);
        if self.denied.has_changed().unwrap_or(false) {
            let said = self.denied.borrow_and_update();
            status.holds =
                format!("NATS refuses this account something: {}; allow it in the servers' configuration", *said);
        }
        match (status.active, status.holds.as_str()) {
            (true, "") => self.quiet.goes_on(now, "going on"),
            (true, holds) => self.quiet.waits(now, holds),
            (false, _) => self.quiet.tick(now),
        }
        self.counts.tell(now, &status.totals);
        let body = serde_json::to_vec(&status).unwrap_or_default();
        self.outbox.send(self.status_subject.clone(), body.into());
    }

    /// A killed server may lose a consumer's state: some events are then neither delivered nor in flight.
    fn look_for_stranded(&mut self, now: Nanos, queued: Queued, delayed: u64) {
        let has_nothing = self.commits.len() == 0 && self.assigner.as_ref().is_some_and(Assigner::is_empty);
        let stands_still = queued.stranded > 0 || queued.events > delayed && has_nothing;
        if !stands_still || self.leadership.active().is_none() {
            self.moving = now;
        } else if now.saturating_sub(self.moving) >= STRANDED {
            self.moving = now;
            let stranded = queued.stranded.max(u64::from(has_nothing) * queued.events);
            output::tell(format_args!(
                "the work queue hands out {stranded} of its events to nobody: taking it over again"
            ));
            self.leadership.cut_off(now);
        }
    }

    async fn end(mut self) {
        if let Some(assigner) = &mut self.assigner {
            assigner.goodbye();
        }
        self.advance();
        self.give_all_back();
        // Without a connection the outbox would wait for one.
        let _ = timeout(LAST, self.outbox.close()).await;
        let _ = timeout(LAST, async { tokio::join!(self.objects.close(), self.unwanted.close()) }).await;
    }

    fn now(&self) -> Nanos {
        self.begun.elapsed().as_nanos() as Nanos
    }
}

/// By this machine's clock, which may be wrong. Only dispatchers' ids and the displayed lag use it, no decision does.
fn since_1970() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as Nanos)
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
