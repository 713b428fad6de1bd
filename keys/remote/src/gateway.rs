//! `sidecore gateway`: connects a remote device of the service on this machine with key servers on others.

use crate::args;
use crate::error::RemoteError;
use crate::notes::Reason;
use crate::router::{KeyRouter, Settings};
use crate::subjects::{Subjects, asked, token};
use crate::sys::watch_gateway;
use crate::{BEAT, HEADROOM, another_version, denial, fresh, own_name, wire};
use async_nats::connection::State;
use async_nats::{Client, Event, Message, Subscriber};
use futures_util::{FutureExt, StreamExt};
use sidecore_client::client::Options;
use sidecore_client::gateway::{Ask, ConnectError, Gateway, MAX_INPUT, MAX_PACKET, PEER_TIMEOUT, Tell, Welcome};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use sidecore_nats::{Signals, connect_and_hear};
use sidecore_terminal::output::tell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// Prefix of its inboxes.
const INBOXES: &str = "_INBOX.gateway";
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait for room to send to NATS: the service must not take this gateway for dead.
const SEND: Duration = Duration::from_millis(20);
type Denials = UnboundedReceiver<String>;
const BATCH_LIMIT: usize = 256;
/// Interval of presences for key servers of the first version, ns: they are named in the log.
const FIRST_PRESENCE_INTERVAL: Nanos = 1_000_000_000;
/// Part of the service's time limit that a request may take, percent.
const OF_TIMEOUT: u64 = 75;

pub(crate) async fn run(args: &args::Gateway) -> Result<u8, RemoteError> {
    let mut signals = Signals::new()?;
    let (sender, denials) = unbounded_channel();
    let heard = move |event: &Event| {
        if let Event::ServerError(said) = event {
            // The receiver is gone: the process ends.
            let _ = sender.send(said.to_string());
        }
    };
    let client = connect_and_hear(&args.farm, INBOXES, heard).await?;
    if client.max_payload() < MAX_INPUT + 2 * HEADROOM {
        return Err(RemoteError::SmallMessages(client.max_payload()));
    }
    tokio::select! {
        () = signals.next() => Ok(0),
        never = serve_again_and_again(args, &client, denials) => never,
    }
}

async fn serve_again_and_again(args: &args::Gateway, client: &Client, mut denials: Denials) -> Result<u8, RemoteError> {
    let options = options(args);
    let mut told = String::new();
    loop {
        let why = match attach(&options, &args.device).await? {
            Ok((gateway, welcome)) => {
                tell(format_args!("serves the device {} with the farm {}", args.device, welcome.farm));
                told.clear();
                serve(args, client, &mut denials, gateway, &welcome).await?
            }
            Err(why) => why.to_string(),
        };
        if why != told {
            tell(format_args!("{why}; trying again"));
            told = why;
        }
        sleep(PAUSE).await;
    }
}

/// Connects to the service without holding up the connection to NATS.
async fn attach(options: &Options, device: &str) -> Result<Result<(Gateway, Welcome), ConnectError>, RemoteError> {
    let (options, device) = (options.clone(), device.to_owned());
    Ok(tokio::task::spawn_blocking(move || Gateway::connect(&options, &device)).await?)
}

fn options(args: &args::Gateway) -> Options {
    Options { socket: args.socket.clone(), name: "sidecore-gateway".to_owned(), ..Options::default() }
}

async fn serve(
    args: &args::Gateway,
    client: &Client,
    denials: &mut Denials,
    gateway: Gateway,
    welcome: &Welcome,
) -> Result<String, RemoteError> {
    let name = &welcome.farm;
    let farm = sidecore_nats::name(name).map_err(|source| RemoteError::DeviceFarm { name: name.clone(), source })?;
    let (subjects, name) = (Subjects::new(&farm), own_name(args.name.as_deref()));
    let ups = client.subscribe(subjects.every_up(&name)).await;
    let ups = ups.map_err(RemoteError::nats("cannot hear the key servers"))?;
    let number = fresh()?;
    let settings = Settings {
        number,
        balance: args.balance,
        depth: welcome.depth,
        patience: Nanos::from(welcome.timeout_ms) * 1_000_000 * OF_TIMEOUT / 100,
        silence: args.silence * 1_000_000,
    };
    let gateway = watch_gateway(gateway).map_err(RemoteError::system("cannot wait for the service"))?;
    let outbox = Outbox { client, subjects, name, beat: Vec::new(), first_presence: Vec::new() };
    let (router, silence) = (KeyRouter::new(settings), Duration::from_millis(args.silence));
    let heard = clock::now();
    let session =
        Session { router, gateway, ups, denials, outbox, heard, blocked: false, silence, first_presence_due: 0 };
    Ok(session.run().await)
}

struct Session<'a> {
    router: KeyRouter,
    gateway: AsyncFd<Gateway>,
    ups: Subscriber,
    denials: &'a mut Denials,
    outbox: Outbox<'a>,
    heard: Nanos,
    blocked: bool,
    silence: Duration,
    first_presence_due: Nanos,
}

impl Session<'_> {
    async fn run(mut self) -> String {
        let mut beats = interval(Duration::from_nanos(BEAT));
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut room = vec![0; MAX_PACKET];
        loop {
            let done = tokio::select! {
                readable = self.gateway.readable() => readable.map(drop).and_then(|()| self.hear(&mut room)),
                writable = self.gateway.writable(), if self.blocked => writable.map(drop),
                up = self.ups.next() => {
                    let Some(up) = up else { return "the connection to NATS ended".to_owned() };
                    self.take(&up);
                    self.take_all();
                    Ok(())
                }
                Some(said) = self.denials.recv() => {
                    self.denied(&said);
                    Ok(())
                }
                due = beats.tick() => self.beat(due),
            };
            let done = done.and_then(|()| self.say());
            if let Err(error) = done {
                return gone(&error);
            }
            self.outbox.send(&mut self.router).await;
        }
    }

    fn hear(&mut self, room: &mut [u8]) -> io::Result<()> {
        let now = clock::now();
        for _ in 0..BATCH_LIMIT {
            let router = &mut self.router;
            let heard = self.gateway.try_io(Interest::READABLE, |gateway| {
                match gateway.hear(room)? {
                    Ask::Request(request) => router.asked(now, &request),
                    Ask::Wrong(ticket) => router.wrong(now, ticket),
                    Ask::Known(known) => router.knows(now, known.key, known.public),
                    Ask::Beat => {}
                }
                Ok(())
            });
            match heard {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                other => other?,
            }
            self.heard = now;
        }
        Ok(())
    }

    fn say(&mut self) -> io::Result<()> {
        self.blocked = false;
        while let Some(said) = self.router.service_messages().front() {
            match self.gateway.try_io(Interest::WRITABLE, |gateway| gateway.tell(&said.tell())) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                other => other?,
            }
            self.router.service_messages().pop_front();
        }
        Ok(())
    }

    fn take(&mut self, up: &Message) {
        // Names of others go into the log.
        let Some(server) = token(&up.subject, 4).filter(|server| sidecore_nats::name(server).is_ok()) else { return };
        if let Some(version) = wire::other_version(&up.payload) {
            let line = another_version(&format!("key server {server}"), version);
            self.router.notes().note(clock::now(), server, Reason::Version, line);
        } else if let Some(message) = wire::server_message(&up.payload) {
            self.router.heard(clock::now(), server, &message);
        }
    }

    fn take_all(&mut self) {
        for _ in 0..BATCH_LIMIT {
            let Some(Some(up)) = self.ups.next().now_or_never() else { break };
            self.take(&up);
        }
    }

    /// Handles an error of a NATS server. A key that this gateway may not ask for is not offered to the service.
    fn denied(&mut self, said: &str) {
        let subject = said.split('"').nth(1).filter(|_| said.to_lowercase().contains("permissions violation"));
        let Some(subject) = subject else { return };
        self.router.notes().note(clock::now(), "", Reason::Denied, denial(said));
        if let Some((_, key)) = asked(subject) {
            self.router.denied(clock::now(), key);
        }
    }

    fn beat(&mut self, due: Instant) -> io::Result<()> {
        let now = clock::now();
        // This process was stopped, or had no core: it could hear neither key servers nor the service.
        let late = due.elapsed();
        if late > self.silence / 2 {
            let away = late.as_nanos() as Nanos;
            self.router.was_away(now, away);
            self.heard = now.min(self.heard.saturating_add(away));
        }
        self.take_all();
        self.router.tick(now);
        let presence = self.router.presence(now);
        if now >= self.first_presence_due {
            self.first_presence_due = now.saturating_add(FIRST_PRESENCE_INTERVAL);
            self.outbox.first_presence = wire::first_presence(presence.gateway);
        }
        self.outbox.beat = wire::encode(&presence);
        if now.saturating_sub(self.heard) > PEER_TIMEOUT {
            return Err(ErrorKind::TimedOut.into());
        }
        if self.blocked {
            return Ok(());
        }
        match self.gateway.try_io(Interest::WRITABLE, |gateway| gateway.tell(&Tell::Beat)) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

fn gone(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "the service ended the connection: see its log".to_owned()
        }
        ErrorKind::TimedOut => "the service is silent".to_owned(),
        _ => format!("the connection to the service is broken: {error}"),
    }
}

struct Outbox<'a> {
    client: &'a Client,
    subjects: Subjects,
    name: String,
    beat: Vec<u8>,
    first_presence: Vec<u8>,
}

impl Outbox<'_> {
    async fn send(&mut self, router: &mut KeyRouter) {
        router.notes().take(clock::now()).into_iter().for_each(tell);
        let mut messages: VecDeque<(String, Vec<u8>)> = VecDeque::new();
        for ask in router.outgoing(self.client.max_payload()) {
            messages.push_back((self.subjects.ask(&self.name, &ask.server, &ask.key), ask.body));
        }
        // The beat first: a key server that has heard it ignores the other one.
        for body in [&mut self.beat, &mut self.first_presence].into_iter().filter(|body| !body.is_empty()) {
            messages.push_back((self.subjects.gateway(&self.name), std::mem::take(body)));
        }
        for (subject, body) in messages {
            publish(self.client, subject, body).await;
        }
    }
}

/// Publishes if there is a connection. A message that is not sent counts as lost, and its sender's timeout handles
/// that.
pub(crate) async fn publish(client: &Client, subject: String, body: Vec<u8>) {
    if client.connection_state() == State::Connected {
        // Errors and timeouts show by missing beats.
        let _ = timeout(SEND, client.publish(subject, body.into())).await;
    }
}
