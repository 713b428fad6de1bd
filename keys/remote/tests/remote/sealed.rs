//! Requests that are sealed from service to service: NATS, gateway and key server carry what they cannot read.

use super::liars::Liar;
use super::losses::{Load, MESSAGE, RSA};
use super::site::{STRANGER, Site, User, pkcs1};
use futures_util::StreamExt;
use sidecore::client::Error;
use sidecore::core::session::{Op, Refusal};
use sidecore::keys::{Acl, Kind};
use sidecore::spec::{DecryptionPadding, Scheme};
use sidecore_client::channel::route;
use sidecore_testing::nats::Server;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + super::site::MAX_WAIT;
    while !holds() {
        assert!(std::time::Instant::now() < end, "it never came to this: {what}");
        thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// All that passes through NATS until it is stopped.
async fn overheard(url: &str, stop: &AtomicBool, ready: &AtomicBool) -> Vec<u8> {
    let client = async_nats::connect(url).await.unwrap();
    let mut all = client.subscribe("farm.>").await.unwrap();
    client.flush().await.unwrap();
    ready.store(true, Ordering::SeqCst);
    let mut bytes = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let next = tokio::time::timeout(std::time::Duration::from_millis(50), all.next());
        if let Ok(Some(message)) = next.await {
            bytes.extend(message.subject.as_bytes());
            bytes.extend(&message.payload[..]);
        }
    }
    bytes
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn nats_and_a_key_server_without_any_right_carry_requests_that_they_cannot_read() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = Site::sealed(1);
    let far = &far[0];
    let public = far.import("www", RSA, Acl::default());
    near.knows("www", &public);
    let (stop, ready, url) = (AtomicBool::new(false), AtomicBool::new(false), nats.url());
    let (heard, signature, plain) = thread::scope(|scope| {
        let spy = scope.spawn(|| run(overheard(&url, &stop, &ready)));
        until("somebody listens to all", || ready.load(Ordering::SeqCst));
        let gateway = near.gateway(&nats.url());
        // This user may use no key of the far service, and list none.
        let key_server = far.key_server_without(STRANGER, &nats.url());
        key_server.says("offers 0 keys, and carries sealed requests to its service");
        gateway.says("the key server one offers 1 keys");
        let signature = User::new(&near, "www", pkcs1()).call_soon(Op::Sign, MESSAGE);
        let padding = DecryptionPadding::Pkcs1;
        let plain = User::new(&near, "www", Scheme::RsaDecryption { padding }).call_soon(Op::Decrypt, &[7; 256]);
        stop.store(true, Ordering::SeqCst);
        (spy.join().unwrap(), signature, plain)
    });
    assert_eq!(signature, User::new(far, "www", pkcs1()).call_soon(Op::Sign, MESSAGE));
    assert!(heard.len() > 1000 && holds(&heard, b"farm.keys.ask.near.one.service-"));
    for part in [&b"www"[..], MESSAGE, &signature[..12], &plain[..12.min(plain.len())], &[7; 16], &public[60..72]] {
        assert!(!holds(&heard, part), "{part:?}");
    }
    // Far permits no key of another name, whoever carries the request.
    near.knows("other", &far.make("other", Kind::Rsa2048));
    User::new(&near, "other", pkcs1()).refused_soon(Op::Sign, MESSAGE);
}

#[test]
fn of_two_far_services_and_three_key_servers_any_may_die_or_start_anew_and_no_request_fails() {
    let Some(nats) = Server::start() else { return };
    let (near, mut far) = Site::sealed(2);
    for site in &far {
        near_knows_once(&near, &site.import("www", RSA, Acl::default()));
    }
    let gateway = near.gateway(&nats.url());
    let mut first = far[0].key_server(&nats.url(), "one");
    let mut second = far[0].key_server(&nats.url(), "two");
    let _third = far[1].key_server(&nats.url(), "three");
    for _ in 0..3 {
        gateway.says("offers 1 keys");
    }
    let mut user = User::new(&near, "www", pkcs1());
    let expected = user.call_soon(Op::Sign, MESSAGE);
    thread::sleep(std::time::Duration::from_secs(2));
    let mut load = Load::new(&mut user, 16);
    load.run(100, &expected);
    first.kill();
    load.run(300, &expected);
    far[0].start_again();
    load.run(300, &expected);
    second.kill();
    load.run(300, &expected);
    load.finish(&expected);
    assert_eq!(load.failed, 0, "of {}", load.done);
}

#[test]
fn a_renewal_at_the_far_service_costs_no_request() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = Site::sealed(1);
    near.knows("www", &far[0].import("www", RSA, Acl::default()));
    let (_gateway, _key_server) = (near.gateway(&nats.url()), far[0].key_server(&nats.url(), "one"));
    let mut user = User::new(&near, "www", pkcs1());
    let expected = user.call_soon(Op::Sign, MESSAGE);
    let mut load = Load::new(&mut user, 16);
    load.run(100, &expected);
    // As `sidecore keys renew` names it. The configuration names the former key only.
    let renewed = "www.1700000000";
    near.knows(renewed, &far[0].make(renewed, Kind::Rsa2048));
    let mut next = User::new(&near, renewed, pkcs1());
    let of_next = thread::scope(|scope| {
        let next = scope.spawn(|| next.call_soon(Op::Sign, MESSAGE));
        while !next.is_finished() {
            load.run(20, &expected);
        }
        next.join().unwrap()
    });
    assert_eq!(of_next, User::new(&far[0], renewed, pkcs1()).call_soon(Op::Sign, MESSAGE));
    load.run(100, &expected);
    load.finish(&expected);
    assert_eq!(load.failed, 0, "of {}", load.done);
}

fn near_knows_once(near: &Site, public: &[u8]) {
    if near.admin().key_info("www").is_err() {
        near.knows("www", public);
    }
}

#[test]
fn a_key_server_that_answers_in_the_far_services_place_costs_no_request() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = Site::sealed(1);
    near.knows("www", &far[0].import("www", RSA, Acl::default()));
    let address = far[0].admin().transfer_address().unwrap();
    let gateway = near.gateway(&nats.url());
    let _key_server = far[0].key_server(&nats.url(), "one");
    let mut user = User::new(&near, "www", pkcs1());
    let expected = user.call_soon(Op::Sign, MESSAGE);
    let liar = Liar::start(nats.url(), &route(&address), address.0.to_vec());
    gateway.says("the key server liar offers 1 keys");
    let mut load = Load::new(&mut user, 16);
    load.run(300, &expected);
    load.finish(&expected);
    assert_eq!(load.failed, 0, "of {}", load.done);
    gateway.says("the key server liar answered with what the service behind it has not sealed");
    let lies = liar.lies.load(Ordering::Relaxed);
    assert!((1..100).contains(&lies), "{lies} lies");
}

#[test]
fn a_far_service_that_does_not_know_this_one_is_named_in_its_key_servers_log() {
    let Some(nats) = Server::start() else { return };
    let ((mut near, _), (_, far)) = (Site::sealed(1), Site::sealed(1));
    near.asks(&far[0]);
    near.knows("www", &far[0].import("www", RSA, Acl::default()));
    let _gateway = near.gateway(&nats.url());
    let key_server = far[0].key_server(&nats.url(), "one");
    let said = key_server.says("is declined");
    assert!(said.contains("this service does no requests of address") && said.contains("serve_to"), "{said}");
    let refused = User::new(&near, "www", pkcs1()).refused_soon(Op::Sign, MESSAGE);
    assert!(matches!(refused, Error::Refused(Refusal::KeyElsewhere)), "{refused}");
}
