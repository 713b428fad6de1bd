//! Requests sealed from one service to another, through a relay that may be hostile: a thread in the place of gateway,
//! broker and key server, which sees all that they see.

use crate::common::{
    RSA, RSA_PUBLIC, Running, Signer, administer, connect, expected, import, import_public, options, pkcs1, stored,
    until,
};
use crate::far::Line;
use sidecore::client::{Admin, Client, Error, Options, Session};
use sidecore::config::{Config, DeviceConfig, KeysConfig, LimitsConfig, Partners};
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::{KeyMaterial, Scheme, SessionSpec};
use sidecore::gateway::{Answer, Ask, BEAT, Offer, Operation, Outcome, Request, Task, Tell};
use sidecore::keys::transfer::Address;
use sidecore::keys::{Acl, KeyCommand, Kind, Served, Usage};
use sidecore::service::Service;
use sidecore_client::channel::{MAX_ANSWER, Relayed, route};
use sidecore_counters::{KeyCounter, Snapshot};
use std::collections::{HashMap, VecDeque};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A directory of keys, so that the service has one address for life.
fn at_rest(scratch: &Path, name: &str) -> KeysConfig {
    let passphrase = scratch.join(format!("{name}.passphrase"));
    fs::write(&passphrase, format!("of {name}")).unwrap();
    fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
    KeysConfig { directory: Some(scratch.join(name)), passphrase_file: Some(passphrase), ..KeysConfig::default() }
}

struct Pair {
    near: Running,
    far: Option<Service>,
    far_config: Config,
    address: Address,
    _scratch: TempDir,
}

impl Pair {
    /// The far service has two keys, and the near one may have signatures made with both.
    fn start() -> Self {
        Self::serving(Usage::SIGN.with(Usage::DECRYPT), None)
    }

    fn serving(usage: Usage, rate: Option<u32>) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let config = |name| Config { keys: at_rest(scratch.path(), name), ..Config::default() };
        let address = |config: &Config| administer(&crate::common::start(config.clone())).transfer_address().unwrap();
        let (mut near, mut far) = (config("near"), config("far"));
        let (of_near, of_far) = (address(&near), address(&far));
        let limits = LimitsConfig { device_timeout_ms: 20_000, ..LimitsConfig::default() };
        near.devices = vec![DeviceConfig::inline("here"), DeviceConfig::remote("far", "keys")];
        near.limits = limits;
        near.keys.partners = Some(Partners { far: vec![of_far], ..Partners::default() });
        let keys = vec!["www".to_owned(), "mail".to_owned()];
        let served = Served { address: of_near, keys, usage, rate };
        far.keys.partners = Some(Partners { served: vec![served], ..Partners::default() });
        far.socket = scratch.path().join("far.socket");
        let running = Service::start(far.clone()).unwrap();
        import(&running, "www", RSA);
        let kind = Kind::P256;
        let mail = KeyCommand::Generate { name: "mail".to_owned(), kind, acl: Acl::default() };
        administer(&running).keys(mail).unwrap();
        let of_mail = administer(&running).key_info("mail").unwrap().public;
        let near = crate::common::start(near);
        import_public(&near, "www", RSA_PUBLIC);
        import_public(&near, "mail", &of_mail);
        Self { near, far: Some(running), far_config: far, address: of_far, _scratch: scratch }
    }

    fn far(&self) -> &Service {
        self.far.as_ref().unwrap()
    }

    fn done(&self) -> u64 {
        let keys = Snapshot::read(self.far().counters()).unwrap().keys;
        keys.iter().map(|key| key.get(KeyCounter::Done)).sum()
    }

    fn start_again(&mut self) {
        self.far = None;
        self.far = Some(Service::start(self.far_config.clone()).unwrap());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Honest,
    /// Each message goes to far twice, and what the second one gets goes to near.
    RepeatsSecond,
    /// Each message goes to far twice, and a third time much later.
    RepeatsFirst,
    /// Answers of two requests are exchanged.
    Exchanges,
    /// One bit of each second message or answer is another one.
    Spoils,
    /// A request goes to the session of the key before it.
    OtherSession,
    /// Each third message is answered with the word that far knows no such channel.
    SaysForgotten,
    /// Each answer is cut.
    Cuts,
    /// Each second answer is some other refusal.
    Refuses,
}

/// What the relay saw, for tests that look for secrets in it.
#[derive(Default)]
struct Seen(Mutex<Vec<u8>>);

struct Relay {
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
    asked: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn start(pair: &Pair, manner: Manner) -> Self {
        let (stop, seen, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()), Arc::default());
        let line = Line::to(&pair.near);
        let carrier = Carrier { options: options(pair.far()), admin: None, client: None, sessions: HashMap::new() };
        let (stopped, looked, counted, address) = (stop.clone(), seen.clone(), Arc::clone(&asked), pair.address);
        let thread =
            thread::spawn(move || carry(line, Meddler::new(manner, carrier), address, &stopped, &looked, &counted));
        Self { stop, seen, asked, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking());
        }
    }
}

/// The end of the relay at far: what a key server does.
struct Carrier {
    options: Options,
    admin: Option<Admin>,
    client: Option<Client>,
    sessions: HashMap<Vec<u8>, Session>,
}

type Said = Result<Vec<u8>, Refusal>;

impl Carrier {
    fn give(&mut self, message: &Relayed<'_>) -> Said {
        match *message {
            Relayed::Control(message) => self.control(message),
            Relayed::Operation { opening, operation, sealed } => {
                let said = self.operation(opening, operation, sealed);
                // Its far service may have been started anew.
                if said == Err(Refusal::Shutdown) { self.operation(opening, operation, sealed) } else { said }
            }
        }
    }

    fn control(&mut self, message: &[u8]) -> Said {
        for _ in 0..2 {
            if self.admin.is_none() {
                self.admin = Admin::connect(&self.options).ok();
            }
            match self.admin.as_mut().map(|admin| admin.serve(message)) {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(Error::Service(_))) => return Err(Refusal::NoSession),
                _ => self.admin = None,
            }
        }
        Err(Refusal::Shutdown)
    }

    fn operation(&mut self, opening: &[u8], operation: Operation, sealed: &[u8]) -> Said {
        if self.client.is_none() {
            self.sessions.clear();
            self.client = Client::connect(&self.options).ok();
        }
        let Some(client) = &mut self.client else { return Err(Refusal::Shutdown) };
        let session = if let Some(session) = self.sessions.get(opening) {
            *session
        } else {
            let key = KeyMaterial::Served(opening.to_vec());
            match client.open_session(&SessionSpec { scheme: Scheme::Noop, key }) {
                Ok(session) => *self.sessions.entry(opening.to_vec()).or_insert(session),
                Err(Error::Service(_)) => return Err(Refusal::NoSession),
                Err(_) => {
                    self.client = None;
                    return Err(Refusal::Shutdown);
                }
            }
        };
        match client.call(session, operation.op(), 0, sealed, MAX_ANSWER as u32) {
            Ok(answer) => Ok(answer),
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(_) => {
                self.client = None;
                Err(Refusal::Shutdown)
            }
        }
    }
}

/// What the relay does to each message, in its manner.
struct Meddler {
    manner: Manner,
    carrier: Carrier,
    count: u64,
    /// Messages that come again much later.
    later: VecDeque<Vec<u8>>,
    /// The session of the request before.
    before: Option<(Vec<u8>, Operation)>,
    /// An answer that is exchanged with the next one.
    waiting: Option<(u64, Said)>,
}

impl Meddler {
    fn new(manner: Manner, carrier: Carrier) -> Self {
        Self { manner, carrier, count: 0, later: VecDeque::new(), before: None, waiting: None }
    }

    /// What goes to far in the place of this message, and what comes back.
    fn carry(&mut self, mut bytes: Vec<u8>) -> Said {
        self.count += 1;
        if self.manner == Manner::Spoils && self.count % 4 == 1 {
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
        }
        let message = Relayed::decode(&bytes).ok_or(Refusal::NoDevice)?;
        let is_operation = matches!(message, Relayed::Operation { .. });
        match (self.manner, message) {
            (Manner::OtherSession, Relayed::Operation { opening, operation, sealed }) => {
                let other = self.before.replace((opening.to_vec(), operation));
                let (opening, operation) = other.unwrap_or((opening.to_vec(), operation));
                self.carrier.give(&Relayed::Operation { opening: &opening, operation, sealed })
            }
            (Manner::SaysForgotten, _) if self.count.is_multiple_of(3) => Err(Refusal::NoSession),
            (Manner::Refuses, _) if is_operation && self.count.is_multiple_of(2) => Err(Refusal::KeyLimit),
            (Manner::RepeatsSecond, message) if is_operation => {
                let first = self.carrier.give(&message);
                let second = self.carrier.give(&message);
                if first.is_ok() { second } else { first }
            }
            (Manner::RepeatsFirst, message) => {
                let said = self.carrier.give(&message);
                assert!(self.carrier.give(&message).is_err(), "far does a message twice");
                self.later.push_back(bytes);
                if self.later.len() > 20
                    && let Some(old) = self.later.pop_front()
                {
                    let again = self.carrier.give(&Relayed::decode(&old).unwrap());
                    assert!(again.is_err(), "far does an old message again");
                }
                said
            }
            (_, message) => {
                let said = self.carrier.give(&message);
                self.spoiled(is_operation, said)
            }
        }
    }

    fn spoiled(&self, is_operation: bool, said: Said) -> Said {
        let mut answer = said?;
        match self.manner {
            Manner::Spoils if self.count % 4 == 3 => {
                let at = answer.len() / 2;
                answer[at] ^= 1;
            }
            Manner::Cuts if is_operation => drop(answer.pop()),
            _ => {}
        }
        Ok(answer)
    }

    /// Answers, each to its ticket or to that of another one.
    fn answers(&mut self, ticket: u64, said: Said) -> Vec<(u64, Said)> {
        if self.manner != Manner::Exchanges || self.count % 4 > 1 {
            return vec![(ticket, said)];
        }
        match self.waiting.take() {
            None => {
                self.waiting = Some((ticket, said));
                Vec::new()
            }
            Some((other, theirs)) => vec![(ticket, theirs), (other, said)],
        }
    }
}

fn carry(mut line: Line, mut meddler: Meddler, address: Address, stop: &AtomicBool, seen: &Seen, counted: &AtomicU64) {
    let way = route(&address);
    line.tell(&Tell::Offer(Offer { key: &way, public: &address.0 })).unwrap();
    let mut beat = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        if beat.elapsed() > Duration::from_nanos(BEAT / 2) {
            beat = Instant::now();
            if line.tell(&Tell::Beat).is_err() {
                return;
            }
            // None comes to be exchanged with.
            if let Some((ticket, said)) = meddler.waiting.take() {
                answer(&line, ticket, &said);
            }
        }
        let heard = line.hear(|ask| match ask {
            Ask::Request(Request { ticket, key, task, input }) => {
                assert_eq!((key, task), (way.as_str(), Task::Relay));
                Some((ticket, input.to_vec()))
            }
            Ask::Known(_) => panic!("a relay learns no key"),
            Ask::Wrong(_) | Ask::Beat => None,
        });
        let Ok(heard) = heard else { return };
        let Some((ticket, bytes)) = heard.flatten() else { continue };
        counted.fetch_add(1, Ordering::SeqCst);
        seen.0.lock().unwrap().extend(&bytes);
        let said = meddler.carry(bytes);
        if let Ok(answer) = &said {
            seen.0.lock().unwrap().extend(answer);
        }
        for (ticket, said) in meddler.answers(ticket, said) {
            answer(&line, ticket, &said);
        }
    }
}

fn answer(line: &Line, ticket: u64, said: &Said) {
    let outcome = match said {
        Ok(answer) => Outcome::Done(answer),
        Err(Refusal::Shutdown) => Outcome::Elsewhere,
        Err(refusal) => Outcome::refused(*refusal),
    };
    let _ = line.tell(&Tell::Answer(Answer { ticket, outcome }));
}

/// Several users sign and decrypt at a time. Each result is right, or there is none; returns how many there are.
fn use_keys(pair: &Pair, rounds: usize) -> usize {
    let good = AtomicU64::new(0);
    thread::scope(|scope| {
        for user in 0..4 {
            let good = &good;
            scope.spawn(move || {
                let mut client = connect(&pair.near);
                let rsa = client.open_session(&stored(pkcs1(), "www")).unwrap();
                let ec = client.open_session(&stored(Scheme::EcdsaRaw, "mail")).unwrap();
                for round in 0..rounds {
                    let is_good = if (user + round).is_multiple_of(2) {
                        let signature = client.call(rsa, Op::Sign, 0, b"message", 256);
                        signature.as_ref().ok().is_some_and(|signature| *signature == expected())
                            || is_elsewhere(&signature)
                    } else {
                        let digest = [round as u8; 32];
                        match client.call(ec, Op::SignDigest, 0, &digest, 80) {
                            Ok(signature) => {
                                let signed = [&signature[..], &digest].concat();
                                verify(&mut client, ec, signature.len(), &signed)
                            }
                            other => is_elsewhere(&other),
                        }
                    };
                    assert!(is_good, "a wrong result");
                    good.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    good.into_inner() as usize
}

fn verify(client: &mut Client, session: Session, len: usize, signed: &[u8]) -> bool {
    client.call(session, Op::Verify, len as u32, signed, 1).is_ok()
}

fn is_elsewhere(result: &Result<Vec<u8>, Error>) -> bool {
    matches!(result, Err(Error::Refused(Refusal::KeyElsewhere) | Error::DeviceFailed(_)))
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_relay_sees_no_name_no_input_and_no_result() {
    let pair = Pair::start();
    let relay = Relay::start(&pair, Manner::Honest);
    let signature = Signer::new(&pair.near, "www").sign_soon();
    assert_eq!(signature, expected());
    assert_eq!(use_keys(&pair, 20), 80);
    assert!(pair.done() >= 80);
    let seen = relay.seen.0.lock().unwrap();
    let digest = [7; 32];
    for part in [&b"www"[..], b"mail", b"message", &digest[..], &signature[..16], &RSA_PUBLIC[60..76]] {
        assert!(!holds(&seen, part), "{part:?}");
    }
}

#[test]
fn whatever_a_relay_does_a_result_is_right_or_there_is_none_and_far_does_no_request_twice() {
    use Manner::{Cuts, Exchanges, OtherSession, Refuses, RepeatsFirst, RepeatsSecond, SaysForgotten, Spoils};
    let (pair, mut asked) = (Pair::start(), 0);
    for manner in [RepeatsSecond, RepeatsFirst, Exchanges, Spoils, OtherSession, SaysForgotten, Cuts, Refuses] {
        let relay = Relay::start(&pair, manner);
        until("near knows what far has", || relay.asked.load(Ordering::SeqCst) > 2);
        use_keys(&pair, 10);
        asked += relay.asked.load(Ordering::SeqCst);
        assert!(pair.done() <= asked, "{manner:?}");
        drop(relay);
        // As soon as the relay is honest, all goes on.
        let relay = Relay::start(&pair, Manner::Honest);
        assert_eq!(Signer::new(&pair.near, "www").sign_soon(), expected(), "{manner:?}");
        asked += relay.asked.load(Ordering::SeqCst);
    }
}

#[test]
fn a_far_service_that_was_started_anew_is_set_up_again_without_anybodys_help() {
    let mut pair = Pair::start();
    let relay = Relay::start(&pair, Manner::Honest);
    let mut signer = Signer::new(&pair.near, "www");
    assert_eq!(signer.sign_soon(), expected());
    for _ in 0..2 {
        pair.start_again();
        assert_eq!(signer.sign_soon(), expected());
    }
    drop(relay);
}

#[test]
fn far_decides_by_key_operation_and_limit_and_near_learns_why() {
    let pair = Pair::serving(Usage::SIGN, Some(3));
    let _relay = Relay::start(&pair, Manner::Honest);
    let mut signer = Signer::new(&pair.near, "www");
    assert_eq!(signer.sign_soon(), expected());
    until("the limit is reached", || match signer.sign() {
        Ok(signature) => {
            assert_eq!(signature, expected());
            false
        }
        Err(Error::Refused(refusal)) => {
            assert_eq!(refusal, Refusal::KeyLimit);
            true
        }
        Err(error) => panic!("{error}"),
    });
    // Far permits signatures only.
    let mut client = connect(&pair.near);
    let padding = sidecore::engine::crypto::DecryptionPadding::Pkcs1;
    let session = client.open_session(&stored(Scheme::RsaDecryption { padding }, "www")).unwrap();
    let decrypted = client.call(session, Op::Decrypt, 0, &[7; 256], 256);
    assert!(is_elsewhere(&decrypted), "{decrypted:?}");
}

#[test]
fn a_key_that_far_deletes_or_gives_another_private_part_is_used_no_more_at_once() {
    let pair = Pair::start();
    let _relay = Relay::start(&pair, Manner::Honest);
    let mut signer = Signer::new(&pair.near, "www");
    assert_eq!(signer.sign_soon(), expected());
    let done = pair.done();
    administer(pair.far()).keys(KeyCommand::Delete { name: "www".to_owned() }).unwrap();
    assert!(is_elsewhere(&signer.sign()));
    let command = KeyCommand::Generate { name: "www".to_owned(), kind: Kind::Rsa2048, acl: Acl::default() };
    administer(pair.far()).keys(command).unwrap();
    thread::sleep(Duration::from_millis(1500));
    assert!(is_elsewhere(&signer.sign()), "it is another key than near knows");
    assert_eq!(pair.done(), done - done, "the new key has done nothing");
}
