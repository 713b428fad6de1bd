//! Two dispatchers, three servers, four nodes, a feeder and a taker. They are killed, stopped, cut off or delayed, one
//! after the other, and streams of results and of dead letters are deleted, while bad events fail and streams are full:
//! each good event has its result, each bad one its letter, but for what was in a stream when it was deleted.
//!
//! The faults follow from a seed. `FARM_CHAOS_SEEDS=1-50` runs fifty seeds; the default is one.

use crate::program::{farm, run as make, until};
use crate::relay::Relay;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{self, Context, ErrorCode};
use futures_util::StreamExt;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{Pid, Signal, kill_process};
use sidecore_testing::skipped;
use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;

const SERVERS: usize = 3;
/// Events that can be done, and those that fail at every node.
const EVENTS: usize = 10_000;
const BAD: usize = 50;
/// Room of each stream: for a fraction of them, or for all where the servers lose acknowledged messages of a full one.
const FULL: &str = "1MiB";
const NEVER_FULL: &str = "64MiB";
const NODES: usize = 4;
/// Time without a result after which the farm stands still.
const STUCK: Duration = Duration::from_secs(150);
/// Time after which events that no consumer offers, all of them done, are what a replica alone still counts.
const GHOSTS: Duration = Duration::from_secs(20);
const SERVER_LINES: usize = 20;
/// Faults of a run: the servers need seconds for each.
const FAULTS: usize = 12;

/// Work of an event, ms: the farm needs six seconds without faults.
const WORK: &str = "10";
/// Time in which no message comes to a stream whose dispatchers are stopped.
const SETTLED: Duration = Duration::from_millis(300);
/// Expected time from a repair to the next result. The test counts and prints the cases, and does not fail.
const SOON: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Cut,
    Delay(Duration),
    Delete,
}

#[derive(Clone, Copy, Debug)]
enum Victim {
    Server(usize),
    Part(usize),
    Stream(&'static str),
}

/// The streams that a farm makes again without what they held. What is deleted with the others are events.
const DELETABLE: [&str; 2] = ["c-results", "c-dead"];
/// The first parts.
const DISPATCHERS: usize = 2;

struct Part {
    name: String,
    command: Vec<String>,
    ways: Vec<Relay>,
    process: Child,
}

struct Chaos {
    scratch: TempDir,
    ports: [u16; SERVERS],
    peers: [u16; SERVERS],
    servers: Vec<Child>,
    parts: Vec<Part>,
    random: Xoshiro256PlusPlus,
    returns: Vec<(Duration, Victim, Fault)>,
    /// Ids of results and of dead letters that were deleted with their stream.
    lost: [BTreeSet<String>; DELETABLE.len()],
    /// The replicas of a stream agree on what is in it, as they do from NATS 2.14 on.
    agrees: bool,
}

impl Part {
    fn start(name: &str, command: &str, ports: &[u16], logs: &Path) -> Self {
        let ways: Vec<Relay> = ports.iter().map(|port| Relay::to(*port)).collect();
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let process = spawn(name, &command, &ways, logs);
        Self { name: name.to_owned(), command, ways, process }
    }

    fn start_again(&mut self, logs: &Path) {
        self.process = spawn(&self.name, &self.command, &self.ways, logs);
    }
}

fn spawn(name: &str, command: &[String], ways: &[Relay], logs: &Path) -> Child {
    let urls: Vec<String> = ways.iter().map(Relay::url).collect();
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let log = File::options().append(true).create(true).open(logs.join(name)).unwrap();
    farm(&urls.join(","), &words).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

impl Drop for Chaos {
    fn drop(&mut self) {
        for process in self.parts.iter_mut().map(|part| &mut part.process).chain(&mut self.servers) {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

fn server(index: usize, ports: &[u16], peers: &[u16], directory: &Path) -> Option<Child> {
    let routes: Vec<String> = peers.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
    let conf = directory.join(format!("server-{index}.conf"));
    // Without advertisements clients only know their relays.
    let text = format!(
        "server_name: s{index}\nlisten: \"127.0.0.1:{}\"\njetstream {{ store_dir: \"{}\" }}\n\
         cluster {{ name: chaos, listen: \"127.0.0.1:{}\", no_advertise: true, routes: [{}] }}\n",
        ports[index],
        directory.join(format!("store-{index}")).display(),
        peers[index],
        routes.join(", ")
    );
    fs::write(&conf, text).unwrap();
    let log = File::options().append(true).create(true).open(directory.join(format!("server-{index}"))).unwrap();
    Command::new("nats-server").arg("-c").arg(conf).stdout(Stdio::null()).stderr(log).spawn().ok()
}

fn free() -> [u16; SERVERS] {
    let listeners: [TcpListener; SERVERS] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn signal(process: &mut Child, signal: Signal) {
    if process.try_wait().unwrap().is_none() {
        kill_process(Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap(), signal).unwrap();
    }
}

fn below(random: &mut Xoshiro256PlusPlus, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}

impl Chaos {
    fn start(seed: u64) -> Option<Self> {
        let scratch = tempfile::tempdir().unwrap();
        let (ports, peers) = (free(), free());
        let mut servers = Vec::new();
        for index in 0..SERVERS {
            let Some(server) = server(index, &ports, &peers, scratch.path()) else {
                skipped("no nats-server: apt-get install nats-server");
                return None;
            };
            servers.push(server);
        }
        let begun = Instant::now();
        while ports.iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
            assert!(begun.elapsed() < STUCK, "the servers do not listen");
            thread::sleep(Duration::from_millis(20));
        }
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Some(Self {
            scratch,
            ports,
            peers,
            servers,
            parts: Vec::new(),
            random,
            returns: Vec::new(),
            lost: Default::default(),
            agrees: true,
        })
    }

    fn add(&mut self, name: &str, command: &str) {
        let part = Part::start(name, command, &self.ports, self.scratch.path());
        self.parts.push(part);
    }

    fn choose(&mut self) -> (Victim, Fault) {
        let random = &mut self.random;
        let all = SERVERS + self.parts.len() + DELETABLE.len();
        let victim = match below(random, all).checked_sub(SERVERS) {
            Some(part) if part < self.parts.len() => Victim::Part(part),
            Some(_) => Victim::Stream(DELETABLE[below(random, DELETABLE.len())]),
            None => Victim::Server(below(random, SERVERS)),
        };
        let fault = match (below(random, 4), victim) {
            (_, Victim::Stream(_)) => Fault::Delete,
            (0, _) | (2.., Victim::Server(_)) => Fault::Kill,
            (1, _) => Fault::Stop,
            (2, _) => Fault::Cut,
            _ => Fault::Delay(Duration::from_millis(20 + below(random, 280) as u64)),
        };
        (victim, fault)
    }

    async fn strike(&mut self, context: &Context, victim: Victim, fault: Fault) {
        let process = match victim {
            Victim::Server(index) => &mut self.servers[index],
            Victim::Part(index) => &mut self.parts[index].process,
            Victim::Stream(name) => return self.delete(context, name).await,
        };
        match (fault, victim) {
            (Fault::Kill, _) => {
                drop(process.kill());
                drop(process.wait());
            }
            (Fault::Stop, _) => signal(process, Signal::STOP),
            (Fault::Cut, Victim::Part(index)) => self.parts[index].ways.iter().for_each(Relay::cut),
            (Fault::Delay(delay), Victim::Part(index)) => {
                self.parts[index].ways.iter().for_each(|way| way.delay(delay));
            }
            (Fault::Cut | Fault::Delay(_) | Fault::Delete, _) => unreachable!("not chosen"),
        }
    }

    /// Deletes a stream while no dispatcher adds to it, so that what is lost with it is known.
    async fn delete(&mut self, context: &Context, name: &'static str) {
        self.dispatchers(Signal::STOP);
        let (begun, mut held) = (Instant::now(), None);
        while !is_gone(context, name).await {
            assert!(begun.elapsed() < STUCK, "{name} is not deleted: {}", self.said());
            let now = ids(context, name).await;
            if now.is_some() && now == held {
                // The answer may be lost.
                drop(context.delete_stream(name).await);
            } else {
                held = now.or(held);
                sleep(SETTLED).await;
            }
        }
        let lost = &mut self.lost[usize::from(name != DELETABLE[0])];
        lost.extend(held.into_iter().flatten());
    }

    fn dispatchers(&mut self, what: Signal) {
        self.parts[..DISPATCHERS].iter_mut().for_each(|part| signal(&mut part.process, what));
    }

    fn repair(&mut self, victim: Victim, fault: Fault) {
        match (fault, victim) {
            (Fault::Kill, Victim::Server(index)) => {
                let again = server(index, &self.ports, &self.peers, self.scratch.path());
                self.servers[index] = again.expect("it was there before");
            }
            (Fault::Kill, Victim::Part(index)) => self.parts[index].start_again(self.scratch.path()),
            (Fault::Stop, Victim::Server(index)) => signal(&mut self.servers[index], Signal::CONT),
            (Fault::Stop, Victim::Part(index)) => signal(&mut self.parts[index].process, Signal::CONT),
            (_, Victim::Part(index)) => self.parts[index].ways.iter().for_each(Relay::release),
            (_, Victim::Stream(_)) => self.dispatchers(Signal::CONT),
            (_, Victim::Server(_)) => {}
        }
    }

    /// Restarts processes that ended for lack of a server, as a service manager would. A feeder that is done stays
    /// ended.
    fn revive(&mut self) {
        for index in 0..self.parts.len() {
            let ended = self.parts[index].process.try_wait().unwrap();
            if ended.is_some_and(|status| !status.success()) {
                self.parts[index].start_again(self.scratch.path());
            }
        }
    }

    async fn play(&mut self, context: &Context) {
        for _ in 0..FAULTS {
            let (victim, fault) = self.choose();
            let lasts = Duration::from_millis(200 + below(&mut self.random, 1_300) as u64);
            self.strike(context, victim, fault).await;
            sleep(lasts).await;
            self.repair(victim, fault);
            let (repaired, before) = (Instant::now(), self.taken());
            loop {
                self.revive();
                let now = self.taken();
                if now > before || now + self.lacking() >= EVENTS {
                    break;
                }
                assert!(repaired.elapsed() < STUCK, "nothing is done after {fault:?} of {victim:?}: {}", self.said());
                sleep(Duration::from_millis(10)).await;
            }
            self.returns.push((repaired.elapsed(), victim, fault));
        }
    }

    async fn drain(&mut self, context: &Context) {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            self.revive();
            let (taken, left, letters) = (self.taken(), count(context, "c-events").await, ids(context, "c-dead").await);
            let dead = letters.as_ref().map(|letters| letters.union(&self.lost[1]).count());
            let all = taken + self.lacking() == EVENTS && dead == Some(BAD);
            if all && left == Some(0) {
                return;
            }
            let offers = consumers(context).await;
            if !self.agrees && all && since.elapsed() > GHOSTS && offers.is_nothing() {
                println!("the servers count {left:?} events that are done and that none of them hands out");
                return;
            }
            let over = taken + dead.unwrap_or_default();
            if over > before {
                (before, since) = (over, Instant::now());
            }
            let state = (taken, left, dead, count(context, "c-results").await, offers);
            assert!(since.elapsed() < STUCK, "taken, events, dead letters, results: {state:?}; {}", self.said());
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn out(&self) -> PathBuf {
        self.scratch.path().join("out")
    }

    /// Results written so far, each under its event's id.
    fn taken(&self) -> usize {
        let is_whole = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
        fs::read_dir(self.out()).map_or(0, |files| files.flatten().filter(is_whole).count())
    }

    /// Results that were deleted before they were taken.
    fn lacking(&self) -> usize {
        self.lost[0].iter().filter(|id| !self.out().join(id).exists()).count()
    }

    fn said(&self) -> String {
        let log = |name: &str| fs::read_to_string(self.scratch.path().join(name)).unwrap_or_default();
        let parts = self.parts.iter().map(|part| format!("\n--- {}\n{}", part.name, log(&part.name)));
        let servers = (0..SERVERS).map(|index| {
            let log = log(&format!("server-{index}"));
            let lines: Vec<&str> = log.lines().rev().take(SERVER_LINES).collect();
            format!("\n--- server {index}, the last line first\n{}", lines.join("\n"))
        });
        format!("{:?}{}", self.returns, parts.chain(servers).collect::<String>())
    }
}

async fn count(context: &Context, stream: &str) -> Option<usize> {
    let stream = context.get_stream(stream).await.ok()?;
    usize::try_from(stream.cached_info().state.messages).ok()
}

async fn is_gone(context: &Context, stream: &str) -> bool {
    let found = context.get_stream(stream).await;
    found.is_err_and(|error| matches!(error.kind(), GetStreamErrorKind::JetStream(why) if why.error_code() == ErrorCode::STREAM_NOT_FOUND))
}

/// Ids of what a stream of results or of dead letters holds. `None`: the servers do not say.
async fn ids(context: &Context, stream: &str) -> Option<BTreeSet<String>> {
    let stream = context.get_stream_no_info(stream).await.ok()?;
    let listed: Vec<_> = stream.info_with_subjects(">").await.ok()?.collect().await;
    let id = |subject: String| subject.rsplit('.').next().map(str::to_owned);
    listed.into_iter().map(|listed| id(listed.ok()?.0)).collect()
}

/// What the consumers of the queue offer: events to come, events handed out. `None`: the servers do not say.
#[derive(Debug)]
struct Offers(Option<Vec<(u64, usize)>>);

impl Offers {
    fn is_nothing(&self) -> bool {
        self.0.as_ref().is_some_and(|told| !told.is_empty() && told.iter().all(|offer| *offer == (0, 0)))
    }
}

async fn consumers(context: &Context) -> Offers {
    let Ok(events) = context.get_stream_no_info("c-events").await else { return Offers(None) };
    let told: Vec<_> = events.consumers().collect().await;
    Offers(told.into_iter().map(|info| info.ok().map(|info| (info.num_pending, info.num_ack_pending))).collect())
}

/// Lines of a source, and the ids of the good ones: the feeder's name and where they begin.
fn lines() -> (String, BTreeSet<String>) {
    let (mut lines, mut good) = (String::new(), BTreeSet::new());
    for number in 0..EVENTS + BAD {
        if number % (EVENTS / BAD + 1) == 0 {
            lines += "no number\n";
        } else {
            good.insert(format!("f-{}", lines.len()));
            lines += WORK;
            lines.push('\n');
        }
    }
    assert_eq!(good.len(), EVENTS);
    (lines, good)
}

async fn run(seed: u64) -> Option<Vec<(Duration, Victim, Fault)>> {
    let mut chaos = Chaos::start(seed)?;
    let events = chaos.scratch.path().join("events");
    let (lines, good) = lines();
    fs::write(&events, lines).unwrap();
    let urls = chaos.ports.map(|port| format!("nats://127.0.0.1:{port}"));
    let client = async_nats::connect(urls.as_slice()).await.unwrap();
    chaos.agrees = client.is_server_compatible(2, 14, 0);
    let room = if chaos.agrees { FULL } else { NEVER_FULL };
    let mut context = jetstream::new(client);
    // A request to a killed server is lost.
    context.set_timeout(Duration::from_millis(300));
    // As in the guide: one command makes the farm, once the servers have a leader.
    until("the farm", || {
        make(&urls[0], &["feed", "--farm", "c", "--replicas", "3", "--max-bytes", room]).status.success()
    });
    for number in 0..DISPATCHERS {
        chaos.add(&format!("dispatcher-{number}"), "dispatch --farm c --tries 3");
    }
    for number in 0..NODES {
        chaos.add(&format!("node-{number}"), &format!("work --farm c --name n{number} --jobs 4 --sleep 1ms"));
    }
    chaos.add("feeder", &format!("feed --farm c --lines --name f --from {}", events.display()));
    chaos.add("taker", &format!("results --farm c --name t --follow --to {}", chaos.out().display()));
    chaos.play(&context).await;
    chaos.drain(&context).await;
    // A node answers with the event's id.
    let written = fs::read_dir(chaos.out()).unwrap().flatten();
    let written: BTreeSet<String> = written.map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    let without: BTreeSet<String> = good.difference(&chaos.lost[0]).cloned().collect();
    assert!(
        written.is_subset(&good) && without.is_subset(&written),
        "{:?}",
        good.symmetric_difference(&written).take(10).collect::<Vec<_>>()
    );
    println!("lost with their streams: {} results, {} letters", chaos.lacking(), chaos.lost[1].len());
    Some(std::mem::take(&mut chaos.returns))
}

#[test]
fn each_event_has_one_result_whatever_happens_to_processes_and_connections() {
    let seeds = env::var("FARM_CHAOS_SEEDS").unwrap_or_else(|_| "1".to_owned());
    let (first, last) = seeds.split_once('-').unwrap_or((&seeds, &seeds));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for seed in first.parse().unwrap()..=last.parse().unwrap() {
        let begun = Instant::now();
        let Some(mut returns) = runtime.block_on(run(seed)) else { return };
        returns.sort_by_key(|(took, ..)| *took);
        let soon = returns.iter().filter(|(took, ..)| *took <= SOON).count();
        println!("seed {seed}: {:?}, {soon} of {} within {SOON:?}: {returns:?}", begun.elapsed(), returns.len());
    }
}
