//! Key servers that offer a key they do not have, invent answers, or give none.

use super::losses::{Load, MESSAGE, RSA};
use super::site::{Site, User, pkcs1};
use super::wire::{self, Answer, Echo, MessageBody, Presence, ServerMessage};
use futures_util::StreamExt;
use sidecore::core::session::Op;
use sidecore::keys::{Acl, Kind};
use sidecore_client::gateway::{Offer, Outcome};
use sidecore_testing::nats::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

const DONE: usize = 300;

/// The lying key server. Dropping this ends it.
pub(super) struct Liar {
    pub(super) lies: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    /// It offers this key, or the way to a far service, and invents answers.
    pub(super) fn start(url: String, key: &str, public: Vec<u8>) -> Self {
        Self::with(url, key, public, true)
    }

    /// `answers`: it invents answers; otherwise it gives none.
    fn with(url: String, key: &str, public: Vec<u8>, answers: bool) -> Self {
        let key = key.to_owned();
        let (lies, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let theirs = (lies.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(lie(&url, Offer { key: &key, public: &public }, answers, &theirs.0, &theirs.1));
        });
        Self { lies, stop, thread: Some(thread) }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || thread::panicking());
    }
}

/// Joins whenever the gateway does not know it, as a key server must.
async fn lie(url: &str, offer: Offer<'_>, answers: bool, lies: &AtomicUsize, stop: &AtomicBool) {
    let client = async_nats::connect(url).await.unwrap();
    let mut gateways = client.subscribe("farm.keys.gateway.near").await.unwrap();
    let mut asks = client.subscribe("farm.keys.ask.near.liar.>").await.unwrap();
    let (mut incarnation, mut received, mut gateway) = (0, 0, 0);
    while !stop.load(Ordering::Relaxed) {
        let body = tokio::select! {
            presence = gateways.next() => {
                let Some(Presence { gateway: number, members, .. }) = wire::presence(&presence.unwrap().payload) else { continue };
                gateway = number;
                if members.contains(&incarnation) {
                    MessageBody::Beat { received, answered: if answers { received } else { 0 } }
                } else {
                    (incarnation, received) = (incarnation + 1, 0);
                    MessageBody::Join { slots: 4, offers: vec![Offer { key: offer.key, public: offer.public }] }
                }
            }
            ask = asks.next() => {
                let ask = ask.unwrap();
                let Some(batch) = wire::request_batch(&ask.payload, offer.key) else { continue };
                if batch.incarnation != incarnation {
                    continue;
                }
                received += batch.list.len() as u64;
                lies.fetch_add(batch.list.len(), Ordering::Relaxed);
                if !answers {
                    continue;
                }
                let outcome = Outcome::Done(&[7; 256]);
                let answer = |ticket| Answer { ticket, held_ns: 1, work_ns: 1, outcome };
                MessageBody::Answers(batch.list.iter().map(|request| answer(request.ticket)).collect())
            }
        };
        let message = wire::encode(&ServerMessage { gateway, incarnation, echo: Echo::default(), body });
        client.publish("farm.keys.up.near.liar", message.into()).await.unwrap();
    }
}

#[test]
fn a_key_server_that_lies_costs_no_request_of_its_key_and_none_of_others() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = (Site::near(), Site::far());
    let public = far.import("www", RSA, Acl::default());
    near.knows("www", &public);
    near.knows("other", &far.make("other", Kind::Rsa2048));
    let gateway = near.gateway(&nats.url());
    let _key_server = far.key_server(&nats.url(), "one");
    let (mut user, mut bystander) = (User::new(&near, "www", pkcs1()), User::new(&near, "other", pkcs1()));
    let (expected, of_other) = (user.call_soon(Op::Sign, MESSAGE), bystander.call_soon(Op::Sign, MESSAGE));
    let liar = Liar::start(nats.url(), "www", public);
    gateway.says("the key server liar offers 1 keys");
    thread::scope(|scope| {
        let bystanding = scope.spawn(|| {
            for _ in 0..DONE {
                assert_eq!(bystander.call(Op::Sign, MESSAGE).unwrap(), of_other);
            }
        });
        let mut load = Load::new(&mut user, 16);
        load.run(DONE, &expected);
        load.finish(&expected);
        assert_eq!(load.failed, 0, "of {}", load.done);
        bystanding.join().unwrap();
    });
    let said = gateway.says("has not made");
    assert!(said.contains("the key server liar answers for the key www"), "{said}");
    // It received no request after its detection: 16 were in flight.
    let lies = liar.lies.load(Ordering::Relaxed);
    assert!((1..=16).contains(&lies), "{lies} lies");
}

#[test]
fn a_key_server_that_offers_another_key_first_keeps_no_honest_one_out() {
    let Some(nats) = Server::start() else { return };
    let (near, far, other) = (Site::near(), Site::far(), Site::far());
    let public = far.import("www", RSA, Acl::default());
    near.knows("www", &public);
    let gateway = near.gateway(&nats.url());
    let liar = Liar::start(nats.url(), "www", other.make("www", Kind::Rsa2048));
    let said = gateway.says("another public part than the service on this machine has");
    assert!(said.contains("the key server liar offers www"), "{said}");
    let _key_server = far.key_server(&nats.url(), "one");
    let mut user = User::new(&near, "www", pkcs1());
    let expected = user.call_soon(Op::Sign, MESSAGE);
    let mut load = Load::new(&mut user, 16);
    load.run(DONE, &expected);
    load.finish(&expected);
    assert_eq!((load.failed, liar.lies.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_key_server_that_lives_and_answers_nothing_costs_no_request() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = (Site::near(), Site::far());
    let public = far.import("www", RSA, Acl::default());
    near.knows("www", &public);
    let gateway = near.gateway(&nats.url());
    let _key_server = far.key_server(&nats.url(), "one");
    let mut user = User::new(&near, "www", pkcs1());
    let expected = user.call_soon(Op::Sign, MESSAGE);
    let mute = Liar::with(nats.url(), "www", public, false);
    gateway.says("the key server liar offers 1 keys");
    let mut load = Load::new(&mut user, 16);
    let mut at_first = 0;
    for round in 0..20 {
        load.run(DONE / 10, &expected);
        if round == 0 {
            gateway.says("the key server liar has requests and answers none for");
            at_first = mute.lies.load(Ordering::Relaxed);
        }
    }
    load.finish(&expected);
    assert_eq!(load.failed, 0, "of {}", load.done);
    let later = mute.lies.load(Ordering::Relaxed) - at_first;
    assert!(at_first <= 16 && later <= 4, "{at_first} requests at first, {later} later");
}
