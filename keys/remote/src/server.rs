//! `sidecore key-server`: lets gateways on other machines use keys of the service on this machine.
//!
//! It is an ordinary client of the service, which decides by its user which keys it may use. It joins every gateway
//! that it hears, offers its keys, lets the service do the requests, and answers.

mod links;
mod offered;
mod workers;

use crate::args;
use crate::error::RemoteError;
use crate::gateway::publish;
use crate::notes::{Notes, Reason};
use crate::subjects::{Subjects, asked, token};
use crate::{BEAT, HEADROOM, another_version, own_name, tell_what_is_denied, wire};
use async_nats::{Client, Message, Subscriber};
use futures_util::{FutureExt, StreamExt};
use links::{Links, Post};
use offered::{Keys, Offered};
use sidecore_client::client::Options;
use sidecore_client::gateway::{MAX_INPUT, MAX_RESULT};
use sidecore_client::keyops::key::{Key, Private, Public, Raw};
use sidecore_client::keys::transfer::Address;
use sidecore_ipc::sys::clock;
use sidecore_nats::{Signals, connect};
use sidecore_terminal::output::tell;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use workers::{Job, Workers};

/// Prefix of its inboxes.
const INBOXES: &str = "_INBOX.key-server";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(2);
const BATCH_LIMIT: usize = 256;

pub(crate) async fn run(args: &args::KeyServer) -> Result<u8, RemoteError> {
    let mut signals = Signals::new()?;
    let client = connect(&args.farm, INBOXES).await?;
    if client.max_payload() < MAX_INPUT.max(MAX_RESULT) + 2 * HEADROOM {
        return Err(RemoteError::SmallMessages(client.max_payload()));
    }
    let options = Options {
        socket: args.socket.clone(),
        name: "sidecore-key-server".to_owned(),
        timeout: REQUEST_TIMEOUT,
        // Other machines have the key too: gateways ask them while this machine's service is away.
        restart_wait: Duration::ZERO,
        ..Options::default()
    };
    let slots = args.jobs.unwrap_or_else(twice_the_cores);
    let keys = Keys::watch(&options, &args.allow).await?;
    let workers = Workers::start(slots, &options, &keys.poke())?;
    let (subjects, name) = (Subjects::new(&args.farm.farm), own_name(args.name.as_deref()));
    let mut server = Server::subscribed(client, subjects, name, slots, keys, workers).await?;
    tokio::select! {
        () = signals.next() => {}
        () = tell_what_is_denied() => {}
        ended = server.run() => return Err(ended),
    }
    server.end().await;
    Ok(0)
}

fn twice_the_cores() -> u16 {
    let cores = available_parallelism().map_or(1, NonZero::get);
    u16::try_from(2 * cores).unwrap_or(u16::MAX).min(64)
}

/// Most openings whose sessions are known. One more makes all forgotten: each is opened again when it is used.
const MAX_OPENINGS: usize = 4096;

/// Sessions of other services, by the bytes that open them.
#[derive(Default)]
struct Openings(HashMap<Vec<u8>, Arc<Key>>);

impl Openings {
    fn key(&mut self, opening: &[u8], service: Address) -> Arc<Key> {
        if let Some(key) = self.0.get(opening) {
            return key.clone();
        }
        if self.0.len() >= MAX_OPENINGS {
            self.0.clear();
        }
        // The key's public part is sealed: that of its service stands in its place.
        let public = Public::Raw(Raw::X25519, service.0.to_vec());
        let key = Arc::new(Key::new(public, Private::Served(opening.to_vec())));
        self.0.insert(opening.to_vec(), key.clone());
        key
    }
}

struct Server {
    client: Client,
    subjects: Subjects,
    name: String,
    gateways: Subscriber,
    asks: Subscriber,
    keys: watch::Receiver<Arc<Offered>>,
    links: Links,
    workers: Workers,
    answers: mpsc::UnboundedReceiver<workers::Answered>,
    open: usize,
    openings: Openings,
    notes: Notes,
    /// Dropped with the server, which ends its thread.
    _keys: Keys,
}

impl Server {
    async fn subscribed(
        client: Client,
        subjects: Subjects,
        name: String,
        slots: u16,
        keys: Keys,
        (workers, answers): (Workers, mpsc::UnboundedReceiver<workers::Answered>),
    ) -> Result<Self, RemoteError> {
        let deaf = |error| RemoteError::nats("cannot hear gateways")(error);
        let asks = client.subscribe(subjects.every_ask(&name)).await.map_err(deaf)?;
        let gateways = client.subscribe(subjects.every_gateway()).await.map_err(deaf)?;
        tell(format_args!("key server {name}: {slots} requests at a time"));
        let (links, receiver) = (Links::new(slots), keys.receiver());
        Ok(Self {
            client,
            subjects,
            name,
            gateways,
            asks,
            keys: receiver,
            links,
            workers,
            answers,
            open: 0,
            openings: Openings::default(),
            notes: Notes::new(),
            _keys: keys,
        })
    }

    async fn run(&mut self) -> RemoteError {
        let mut beats = interval(Duration::from_nanos(BEAT));
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ask = self.asks.next() => {
                    let Some(ask) = ask else { return RemoteError::Closed("ended") };
                    self.take(&ask);
                    for _ in 0..BATCH_LIMIT {
                        let Some(Some(ask)) = self.asks.next().now_or_never() else { break };
                        self.take(&ask);
                    }
                }
                answered = self.answers.recv() => self.take_answers(answered),
                presence = self.gateways.next() => {
                    let Some(presence) = presence else { return RemoteError::Closed("ended") };
                    self.meet(&presence).await;
                }
                changed = self.keys.changed() => {
                    if changed.is_err() {
                        return RemoteError::KeysUnwatched;
                    }
                    let any = self.keys.borrow_and_update().any();
                    self.links.keys_changed(any);
                }
                _ = beats.tick() => {
                    self.links.beat(clock::now());
                    self.notes.take(clock::now()).into_iter().for_each(tell);
                }
            }
            for gateway in self.links.take_renewed() {
                self.open -= self.workers.withdraw(&gateway);
            }
            self.post().await;
        }
    }

    async fn end(mut self) {
        self.links.leave();
        self.post().await;
        let last = async {
            while self.open > 0 {
                let answered = self.answers.recv().await;
                self.take_answers(answered);
                self.post().await;
            }
        };
        if timeout(LAST, last).await.is_err() {
            tell("ends with requests that its service has not answered");
        }
        // A failure cannot be reported any more.
        let _ = timeout(LAST, self.client.flush()).await;
    }

    fn take(&mut self, ask: &Message) {
        let now = clock::now();
        let Some((gateway, key)) = asked(&ask.subject) else { return };
        let Some((origin, list)) = self.links.receive(now, gateway, &ask.payload, key) else { return };
        let offered = self.keys.borrow().clone();
        if let Some(address) = offered.service(key) {
            for request in list {
                let opened = |opening: &[u8]| self.openings.key(opening, address);
                match Job::relayed(origin.clone(), now, &request, opened) {
                    Some(job) => self.give(job),
                    None => self.links.elsewhere(&origin, request.ticket),
                }
            }
            return;
        }
        for request in list {
            match offered.key(gateway, key).and_then(|key| Job::new(origin.clone(), now, key, &request)) {
                Some(job) => self.give(job),
                None => self.links.elsewhere(&origin, request.ticket),
            }
        }
    }

    fn give(&mut self, job: Job) {
        match self.workers.give(job) {
            Some(shed) => self.links.elsewhere(&shed.origin, shed.ticket),
            None => self.open += 1,
        }
    }

    fn take_answers(&mut self, first: Option<workers::Answered>) {
        let now = clock::now();
        let mut next = first;
        while let Some(answered) = next {
            self.open -= 1;
            if let workers::Done::Declined(_, why) = &answered.done {
                let line = format!("a sealed message by gateway {} is declined: {why}", answered.origin.gateway);
                self.notes.note(now, &answered.origin.gateway, Reason::Declined, line);
            }
            self.links.answered(now, answered);
            next = self.answers.try_recv().ok();
        }
    }

    async fn meet(&mut self, message: &Message) {
        let (Some(gateway), now) = (token(&message.subject, 3), clock::now()) else { return };
        if let Some(presence) = wire::presence(&message.payload) {
            return self.links.meet(now, gateway, &presence);
        }
        let Some(version) = wire::other_version(&message.payload).filter(|_| sidecore_nats::name(gateway).is_ok())
        else {
            return;
        };
        if self.links.may_know(gateway) && wire::is_first_presence(&message.payload) {
            return;
        }
        self.notes.note(now, gateway, Reason::Version, another_version(&format!("gateway {gateway}"), version));
        let lines = self.notes.take(now);
        if !lines.is_empty() {
            lines.into_iter().for_each(tell);
            publish(&self.client, self.subjects.up(gateway, &self.name), wire::version_notice()).await;
        }
    }

    async fn post(&mut self) {
        let offered = self.keys.borrow().clone();
        let most = self.client.max_payload();
        for Post { gateway, body } in self.links.posts(clock::now(), &offered, most) {
            publish(&self.client, self.subjects.up(&gateway, &self.name), body).await;
        }
    }
}
