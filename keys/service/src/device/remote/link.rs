//! The thread of one gateway. All messages of a gateway are allegations.

use super::channels::{Channels, FarSet, News, Seal};
use super::table::{Open, Table};
use super::{Answered, Control, End, Handed};
use crate::channel::FarAnswer;
use crate::engine::execute::{collect, room_of};
use crate::keys::Transfer;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sidecore_client::control::encode;
use sidecore_client::gateway::{
    Answer, Ask, BEAT, Known, MAX_INPUT, MAX_OFFERS, MAX_PACKET, MAX_RESULT, Offer, Operation, Outcome, PEER_TIMEOUT,
    Request, TRIES, Task, Tell, decode_tell,
};
use sidecore_client::keys::transfer::Address;
use sidecore_core::doorbell::Doorbell;
use sidecore_core::session::Refusal;
use sidecore_core::sidecore::Reply;
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::message;
use sidecore_daemon::sys::{cpu, wake};
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::clock::timespec;
use sidecore_ipc::sys::packet;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// Most messages taken from the gateway in a row.
const MAX_MESSAGES: usize = 64;
/// Most news of keys that the control thread has not handled yet; at this limit the gateway is not read.
const UNHEARD: usize = 256;
/// Most messages other than answers in the time of [`SECOND`].
const MAX_NEWS_PER_SECOND: u32 = 2 * MAX_OFFERS as u32;
const SECOND: Nanos = 1_000_000_000;
/// Longest input that is sealed, bytes: its opening and its seal need the rest of a message.
const MAX_SEALED_INPUT: usize = MAX_INPUT - 1024;

pub(crate) struct LinkOptions {
    pub(crate) name: String,
    pub(crate) free: Vec<usize>,
    pub(crate) depth: u32,
    pub(crate) max_request: u32,
    /// Time without an answer to a request after which the gateway counts as dead.
    pub(crate) timeout: Nanos,
    pub(crate) socket: OwnedFd,
    /// The service's own key pair and the services to which requests go, sealed. `None`: they go open.
    pub(crate) far: Option<(Transfer, Vec<Address>)>,
    pub(crate) tell: Box<dyn Fn(Said) + Send>,
}

/// Held by a piece of news until it is handled; the count limits unhandled news.
pub(crate) type Token = Arc<()>;

#[derive(Debug)]
pub(crate) enum Said {
    Offered(String, Vec<u8>, Token),
    Withdrawn(String, Token),
    Wrong(String, Token),
    /// The link has ended, for this reason. The fault tells whether the gateway gave wrong answers.
    Ended(String, Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Gone,
    Late,
    Hostile,
    Wrong,
}

type Stop = (String, Fault);

pub(super) struct Link {
    options: LinkOptions,
    ends: Vec<End>,
    control: Arc<Control>,
    table: Table,
    channels: Option<Channels>,
    packet: Box<[u8; MAX_PACKET]>,
    heard: Vec<u8>,
    /// A packet that the socket had no room for.
    stuck: Vec<u8>,
    token: Token,
    turn: usize,
    wrong: VecDeque<u64>,
    again: VecDeque<Open>,
    /// Requests that wait for a channel to be set up again.
    held: VecDeque<Open>,
    wrong_in_a_row: usize,
    answered: Vec<bool>,
    heard_at: Nanos,
    said_at: Nanos,
    answered_at: Nanos,
    /// Number of messages other than answers, and the start of their count.
    news: (u32, Nanos),
}

impl Link {
    pub(super) fn start(options: LinkOptions, ends: Vec<End>, control: Arc<Control>) -> io::Result<()> {
        let name = format!("sidecore-{}", options.name);
        thread::Builder::new().name(name).spawn(move || {
            let now = clock::now();
            let link = Self {
                table: Table::new(options.depth as usize * ends.len()),
                channels: options.far.as_ref().map(|(own, far)| Channels::new(own.clone(), far)),
                packet: Box::new([0; MAX_PACKET]),
                heard: vec![0; MAX_PACKET],
                stuck: Vec::with_capacity(MAX_PACKET),
                wrong: VecDeque::new(),
                again: VecDeque::new(),
                held: VecDeque::new(),
                wrong_in_a_row: 0,
                token: Token::default(),
                turn: 0,
                answered: vec![false; ends.len()],
                heard_at: now,
                said_at: now,
                answered_at: now,
                news: (0, now),
                options,
                ends,
                control,
            };
            link.run();
        })?;
        Ok(())
    }

    fn run(mut self) {
        // The service checked that the cores exist; a core removed later costs speed only.
        let _ = cpu::limit(&self.options.free);
        cpu::precise_sleep();
        let (why, fault) = loop {
            if let Err(stop) = self.step() {
                break stop;
            }
        };
        let Self { ends, control, options: LinkOptions { socket, tell, .. }, table, again, held, .. } = self;
        // Its requests may move to others only once all of their parts here are dropped.
        drop((table, again, held, socket));
        control.ended.store(true, Ordering::Release);
        for end in &ends {
            wake::ring(&*end.sidecore);
        }
        tell(Said::Ended(why, fault));
    }

    fn step(&mut self) -> Result<(), Stop> {
        if self.control.is_killed() {
            return Err(("the device was taken away".to_owned(), Fault::Gone));
        }
        let mut moved = self.take()?;
        moved |= self.hear()?;
        self.announce();
        let now = clock::now();
        self.check(now)?;
        if !moved {
            self.sleep(now);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<bool, Stop> {
        if !self.stuck.is_empty() && !self.send_stuck()? {
            return Ok(false);
        }
        let mut moved = self.take_back()? | self.set_up()?;
        let mut quiet = 0;
        while quiet < self.ends.len() && self.stuck.is_empty() && self.table.has_room() {
            self.turn = (self.turn + 1) % self.ends.len();
            match self.ends[self.turn].requests.pop() {
                Ok(handed) => {
                    (quiet, moved) = (0, true);
                    self.send(handed)?;
                }
                Err(_) => quiet += 1,
            }
        }
        Ok(moved)
    }

    fn take_back(&mut self) -> Result<bool, Stop> {
        let mut moved = false;
        while self.stuck.is_empty()
            && let Some(ticket) = self.wrong.pop_front()
        {
            moved = true;
            say(&self.options.socket, &Ask::Wrong(ticket), &mut self.packet, &mut self.stuck)?;
        }
        while self.stuck.is_empty()
            && let Some((key, public)) = self.control.known().pop_first()
        {
            moved = true;
            if let Some(channels) = &mut self.channels {
                let news = channels.know(key, public);
                self.spread(news);
                continue;
            }
            let known = Ask::Known(Known { key: &key, public: public.as_deref() });
            say(&self.options.socket, &known, &mut self.packet, &mut self.stuck)?;
        }
        while self.stuck.is_empty()
            && self.table.has_room()
            && let Some(open) = self.again.pop_front()
        {
            moved = true;
            self.ask(Open { sent_at: clock::now(), ..open })?;
        }
        Ok(moved)
    }

    /// Sends what channels need.
    fn set_up(&mut self) -> Result<bool, Stop> {
        let mut moved = false;
        while self.stuck.is_empty()
            && let Some((ticket, route, message)) =
                self.channels.as_mut().and_then(|channels| channels.due(clock::now()))
        {
            moved = true;
            let asked = Ask::Request(Request { ticket, key: &route, task: Task::Relay, input: &message });
            say(&self.options.socket, &asked, &mut self.packet, &mut self.stuck)?;
        }
        Ok(moved)
    }

    /// Tells the service what other services have.
    fn spread(&self, news: Vec<News>) {
        for news in news {
            (self.options.tell)(match news {
                News::Offered(key, public) => Said::Offered(key, public, self.token.clone()),
                News::Withdrawn(key) => Said::Withdrawn(key, self.token.clone()),
            });
        }
    }

    fn send(&mut self, Handed { ticket, request, buffer }: Handed) -> Result<(), Stop> {
        let (end, mut input) = (self.turn, self.table.buffer());
        let prepared = self.prepare(&request, &mut input);
        let (sent_at, operation) = (clock::now(), Operation::Sign);
        let open = Open {
            end,
            ticket,
            request,
            room: 0,
            begun: sent_at,
            sent_at,
            buffer,
            input,
            operation,
            wrong: 0,
            seal: None,
            failed: FarSet::default(),
        };
        match prepared {
            Ok((room, operation)) => self.ask(Open { room, operation, ..open }),
            Err(refusal) => {
                self.answer(open, Err(refusal));
                Ok(())
            }
        }
    }

    /// The caller ensures room in the table.
    fn ask(&mut self, mut open: Open) -> Result<(), Stop> {
        let Some(remote) = open.request.session.remote().cloned() else { return Ok(()) };
        let mut relayed = None;
        if let Some(channels) = &mut self.channels {
            let key = (remote.key.as_str(), &*remote.public, &remote.scheme);
            match channels.seal(key, open.operation, open.request.user, &open.input, open.failed) {
                Some((seal, route, message)) => {
                    open.seal = Some(seal);
                    relayed = Some((route, message));
                }
                None if channels.may_have(&remote.key) => {
                    self.held.push_back(open);
                    return Ok(());
                }
                None => {
                    self.answer(open, Err(Refusal::KeyElsewhere));
                    return Ok(());
                }
            }
        }
        let Some(ticket) = self.table.enter(open) else { return Ok(()) };
        let Some(open) = self.table.get(ticket) else { return Ok(()) };
        let request = if let Some((route, message)) = &relayed {
            Request { ticket, key: route, task: Task::Relay, input: message }
        } else {
            let task = Task::Open { scheme: remote.scheme.clone(), operation: open.operation };
            Request { ticket, key: &remote.key, task, input: &open.input }
        };
        say(&self.options.socket, &Ask::Request(request), &mut self.packet, &mut self.stuck)?;
        self.said_at = open.sent_at;
        Ok(())
    }

    fn prepare(&self, request: &super::Request, input: &mut Vec<u8>) -> Result<(usize, Operation), Refusal> {
        let (session, submission) = (&request.session, &request.submission);
        let room = room_of(session, submission)?;
        if submission.input_len() > u64::from(self.options.max_request) || room > MAX_RESULT {
            return Err(Refusal::TooLarge);
        }
        collect(&request.memory, submission, input);
        let operation = session.abridge(submission.op(), input).ok_or(Refusal::Unsupported)?;
        let most = if self.channels.is_some() { MAX_SEALED_INPUT } else { MAX_INPUT };
        if input.len() > most || session.remote().is_none() {
            return Err(Refusal::TooLarge);
        }
        Ok((room, operation))
    }

    fn send_stuck(&mut self) -> Result<bool, Stop> {
        match packet::send(&self.options.socket, &self.stuck, &[]) {
            Ok(()) => {
                self.stuck.clear();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(gone(&error)),
        }
    }

    fn hear(&mut self) -> Result<bool, Stop> {
        for heard in 0..MAX_MESSAGES {
            if Arc::strong_count(&self.token) > UNHEARD {
                // The gateway is not at fault while this side does not read.
                self.heard_at = clock::now();
                return Ok(heard > 0);
            }
            let len = match message::receive(&self.options.socket, &mut self.heard) {
                Ok(heard) if heard.len == 0 => {
                    return Err(("the gateway closed its connection".to_owned(), Fault::Gone));
                }
                Ok(heard) => heard.len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(heard > 0),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err((error.to_string(), Fault::Hostile));
                }
                Err(error) => return Err(gone(&error)),
            };
            self.heard_at = clock::now();
            self.read(len)?;
        }
        Ok(true)
    }

    fn read(&mut self, len: usize) -> Result<(), Stop> {
        let hostile = |why: &str| (why.to_owned(), Fault::Hostile);
        // Taken out while it is read.
        let packet = std::mem::take(&mut self.heard);
        let told = decode_tell(&packet[..len]).map_err(|_| hostile("what it says is no message of this protocol"));
        let said = match told {
            Ok(Tell::Answer(Answer { ticket, outcome })) if self.channels.is_some() && Channels::is_control(ticket) => {
                let news = self.channels.as_mut().map(|channels| channels.answered(ticket, outcome, self.heard_at));
                self.spread(news.unwrap_or_default());
                self.release_held();
                Ok(None)
            }
            Ok(Tell::Answer(Answer { ticket, outcome })) => {
                let open = self.table.take(ticket).ok_or_else(|| hostile("it answers what it was not asked"));
                open.and_then(|open| self.outcome(ticket, open, outcome))
            }
            Ok(Tell::Offer(Offer { key, public })) if self.channels.is_some() => self.way(key, Some(public)),
            Ok(Tell::Withdraw(key)) if self.channels.is_some() => self.way(key, None),
            Ok(Tell::Offer(offer)) => {
                Ok(Some(Said::Offered(offer.key.to_owned(), offer.public.to_vec(), self.token.clone())))
            }
            Ok(Tell::Withdraw(key)) => Ok(Some(Said::Withdrawn(key.to_owned(), self.token.clone()))),
            Ok(Tell::Beat) => self.count_news().map(|()| None),
            Err(stop) => Err(stop),
        };
        self.heard = packet;
        if let Some(said) = said? {
            self.count_news()?;
            (self.options.tell)(said);
        }
        Ok(())
    }

    fn way(&mut self, name: &str, address: Option<&[u8]>) -> Result<Option<Said>, Stop> {
        self.count_news()?;
        let news = self.channels.as_mut().map(|channels| channels.set_way(name, address, self.heard_at));
        self.spread(news.unwrap_or_default());
        self.release_held();
        Ok(None)
    }

    /// Requests that waited for a channel are tried again.
    fn release_held(&mut self) {
        self.again.append(&mut self.held);
    }

    fn outcome(&mut self, ticket: u64, mut open: Open, outcome: Outcome<'_>) -> Result<Option<Said>, Stop> {
        if let Some(seal) = open.seal.take() {
            self.sealed_outcome(ticket, open, &seal, outcome);
            return Ok(None);
        }
        let outcome = match outcome {
            Outcome::Done(result) => {
                let session = &open.request.session;
                if result.len() > open.room || !session.fits(open.op(), &open.input, result) {
                    return self.wrong(ticket, open).map(Some);
                }
                self.wrong_in_a_row = 0;
                open.buffer.clear();
                open.buffer.extend_from_slice(result);
                Ok(result.len() as u32)
            }
            Outcome::Elsewhere => Err(Refusal::KeyElsewhere),
            Outcome::Refused(_) => Err(match outcome.refusal() {
                Some(reason) => of_request(reason),
                None => return Err(("it refuses for a reason that is none".to_owned(), Fault::Hostile)),
            }),
        };
        self.answer(open, outcome);
        Ok(None)
    }

    /// Only what far sealed for this request counts. Whatever else comes is a reason to ask again. The gateway learns of it,
    /// and asks another key server for a while: which of those between spoiled it is not known.
    fn sealed_outcome(&mut self, ticket: u64, mut open: Open, seal: &Seal, outcome: Outcome<'_>) {
        let Some(channels) = &mut self.channels else { return };
        channels.released(seal);
        let answered = match outcome {
            Outcome::Done(answer) => {
                let opened = Channels::open(seal, answer);
                self.wrong.extend(opened.is_none().then_some(ticket));
                opened
            }
            Outcome::Refused(_) if outcome.refusal() == Some(Refusal::NoSession) => {
                channels.doubt(seal);
                None
            }
            Outcome::Refused(_) | Outcome::Elsewhere => None,
        };
        let outcome = match answered {
            Some(FarAnswer::Done(result)) if result.len() <= open.room => {
                self.wrong_in_a_row = 0;
                open.buffer.clear();
                open.buffer.extend_from_slice(&result);
                Ok(result.len() as u32)
            }
            Some(FarAnswer::Done(_)) => Err(Refusal::KeyElsewhere),
            Some(FarAnswer::Refused(reason)) => Err(of_request(reason)),
            None => {
                open.failed = Channels::failed(seal, open.failed);
                open.wrong += 1;
                if open.wrong < TRIES {
                    self.again.push_back(open);
                } else {
                    self.answer(open, Err(Refusal::KeyElsewhere));
                }
                return;
            }
        };
        self.answer(open, outcome);
    }

    /// One machine gave a wrong answer, and the gateway has others: it gets a report, and the request again.
    fn wrong(&mut self, ticket: u64, open: Open) -> Result<Said, Stop> {
        let key = open.request.session.remote().map_or(String::new(), |remote| remote.key.clone());
        self.wrong_in_a_row += 1;
        if self.wrong_in_a_row > usize::from(TRIES) * self.table.size() {
            return Err((format!("all that it answers is wrong, the last of it for key {key:?}"), Fault::Wrong));
        }
        self.wrong.push_back(ticket);
        let open = Open { wrong: open.wrong + 1, ..open };
        if open.wrong < TRIES {
            self.again.push_back(open);
        } else {
            self.answer(open, Err(Refusal::KeyElsewhere));
        }
        Ok(Said::Wrong(key, self.token.clone()))
    }

    fn answer(&mut self, open: Open, outcome: Result<u32, Refusal>) {
        let Open { end, ticket, request, sent_at, buffer, input, .. } = open;
        let now = clock::now();
        // Many requests are in flight: the time since the previous answer counts.
        let took = now.saturating_sub(sent_at.max(self.answered_at));
        self.answered_at = now;
        self.table.give_back(input);
        let reply = Reply { ticket, outcome, took, part: took };
        // There is room for an answer to each request that was taken.
        let queued = self.ends[end].replies.push(Answered { reply, request, result: buffer }).is_ok();
        debug_assert!(queued, "more answers than requests");
        self.answered[end] = true;
    }

    fn announce(&mut self) {
        for (end, answered) in self.ends.iter().zip(&mut self.answered) {
            if std::mem::take(answered) && Doorbell(&end.armed).must_wake() {
                wake::ring(&*end.sidecore);
            }
        }
    }

    fn count_news(&mut self) -> Result<(), Stop> {
        let (count, since) = &mut self.news;
        if self.heard_at.saturating_sub(*since) > SECOND {
            (*count, *since) = (0, self.heard_at);
        }
        *count += 1;
        if *count > MAX_NEWS_PER_SECOND {
            return Err((format!("it says more than {MAX_NEWS_PER_SECOND} things in a second"), Fault::Hostile));
        }
        Ok(())
    }

    fn check(&mut self, now: Nanos) -> Result<(), Stop> {
        let timeout = self.options.timeout;
        // Nobody sets up the channel for which they wait.
        while self.held.front().is_some_and(|open| now.saturating_sub(open.begun) > timeout / 2)
            && let Some(open) = self.held.pop_front()
        {
            self.answer(open, Err(Refusal::KeyElsewhere));
        }
        let ms = |time: Nanos| time / 1_000_000;
        if now.saturating_sub(self.heard_at) > PEER_TIMEOUT {
            return Err((format!("it says nothing for {} ms", ms(PEER_TIMEOUT)), Fault::Late));
        }
        if self.table.oldest().is_some_and(|sent| now.saturating_sub(sent) > timeout) {
            return Err((format!("it leaves a request without an answer for {} ms", ms(timeout)), Fault::Late));
        }
        if now.saturating_sub(self.said_at) < BEAT {
            return Ok(());
        }
        if self.stuck.is_empty() {
            say(&self.options.socket, &Ask::Beat, &mut self.packet, &mut self.stuck)?;
            self.said_at = now;
        } else if now.saturating_sub(self.said_at) > PEER_TIMEOUT.max(timeout) {
            return Err((format!("it reads nothing for {} ms", ms(PEER_TIMEOUT.max(timeout))), Fault::Late));
        }
        Ok(())
    }

    fn sleep(&self, now: Nanos) {
        let bell = Doorbell(&self.control.armed);
        bell.arm();
        let asked = self.stuck.is_empty() && self.table.has_room();
        let told = self.wrong.is_empty() && self.again.is_empty() && self.control.known().is_empty();
        let wrong = self.stuck.is_empty() && !told;
        let found = wrong || asked && self.ends.iter().any(|end| !end.requests.is_empty());
        if !found && !self.control.is_killed() {
            let listening = Arc::strong_count(&self.token) <= UNHEARD;
            let mut of_socket = if listening { PollFlags::IN } else { PollFlags::empty() };
            of_socket.set(PollFlags::OUT, !self.stuck.is_empty());
            let mut sources =
                [PollFd::new(&self.options.socket, of_socket), PollFd::new(&self.control.wake, PollFlags::IN)];
            // A gateway that is not read is looked at again soon.
            let beat = if listening { BEAT.saturating_sub(now.saturating_sub(self.said_at)) } else { BEAT / 20 };
            // An interrupted wait is only a shorter one.
            if poll(&mut sources, Some(&timespec(beat.clamp(100_000, BEAT)))).is_ok()
                && !sources[1].revents().is_empty()
            {
                let _ = rustix::io::read(&self.control.wake, &mut [0; 8]);
            }
        }
        bell.disarm();
    }
}

fn say(socket: &OwnedFd, message: &Ask<'_>, buffer: &mut [u8; MAX_PACKET], stuck: &mut Vec<u8>) -> Result<(), Stop> {
    let packet = encode(message, buffer).map_err(|error| (error.to_string(), Fault::Late))?;
    match packet::send(socket, packet, &[]) {
        Ok(()) => Ok(()),
        Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
            stuck.extend_from_slice(packet);
            Ok(())
        }
        Err(error) => Err(gone(&error)),
    }
}

/// A refusal by the machine with the key, as one of this service's.
fn of_request(reason: Refusal) -> Refusal {
    match reason {
        Refusal::Unsupported
        | Refusal::InputLength
        | Refusal::Authentication
        | Refusal::TooLarge
        | Refusal::KeyDenied
        | Refusal::KeyLimit
        | Refusal::Internal => reason,
        // The error concerns that machine, not the request.
        _ => Refusal::KeyElsewhere,
    }
}

fn gone(error: &io::Error) -> Stop {
    (format!("the gateway is gone ({error})"), Fault::Gone)
}
