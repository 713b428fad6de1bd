//! Losses of a machine, a process or NATS.

use super::site::{MAX_WAIT, Process, Site, User, named, pkcs1};
use sidecore::client::{Buffer, Received, Request};
use sidecore::core::session::{Op, Refusal};
use sidecore::core::wire::Status;
use sidecore::keys::Acl;
use sidecore_testing::nats::Server;
use sidecore_testing::{go_on, stop};
use std::time::Instant;

pub(super) const RSA: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
pub(super) const MESSAGE: &[u8] = b"message";

struct Pair {
    near: Site,
    far: Site,
    gateway: Process,
    key_server: Process,
    user: User,
    nats: Server,
}

impl Pair {
    fn start() -> Option<Self> {
        let nats = Server::start()?;
        let (near, far) = (Site::near(), Site::far());
        near.knows("www", &far.import("www", RSA, Acl::default()));
        let (gateway, key_server) = (near.gateway(&nats.url()), far.key_server(&nats.url(), "one"));
        let mut user = User::new(&near, "www", pkcs1());
        user.call_soon(Op::Sign, MESSAGE);
        Some(Self { near, far, gateway, key_server, user, nats })
    }

    fn refused_soon(&mut self) {
        self.user.refused_soon(Op::Sign, MESSAGE);
    }

    fn goes_on(&mut self) {
        self.user.call_soon(Op::Sign, MESSAGE);
    }
}

#[test]
fn without_a_key_server_requests_fail_by_name_and_go_on_when_it_is_back() {
    let Some(mut pair) = Pair::start() else { return };
    pair.key_server.kill();
    pair.refused_soon();
    pair.key_server = pair.far.key_server(&pair.nats.url(), "one");
    pair.goes_on();
}

#[test]
fn a_stopped_key_server_is_lost_and_comes_back() {
    let Some(mut pair) = Pair::start() else { return };
    stop(pair.key_server.id());
    pair.refused_soon();
    go_on(pair.key_server.id());
    pair.goes_on();
}

#[test]
fn the_service_that_holds_the_keys_may_start_again() {
    let Some(mut pair) = Pair::start() else { return };
    pair.far.stop();
    pair.refused_soon();
    pair.key_server.says("no key is offered");
    pair.far.start_again();
    pair.far.import("www", RSA, Acl::default());
    pair.goes_on();
}

#[test]
fn the_service_that_asks_may_start_again() {
    let Some(mut pair) = Pair::start() else { return };
    let public = pair.far.admin().key_info("www").unwrap().public;
    pair.near.stop();
    pair.gateway.says("the service ended the connection");
    pair.near.start_again();
    pair.near.knows("www", &public);
    pair.user = User::new(&pair.near, "www", pkcs1());
    pair.goes_on();
}

#[test]
fn without_nats_requests_fail_by_name_and_go_on_when_it_is_back() {
    let Some(mut pair) = Pair::start() else { return };
    pair.nats.kill();
    pair.refused_soon();
    pair.gateway.says("lost the connection");
    pair.nats.start_again();
    pair.goes_on();
}

#[test]
fn a_key_server_that_is_killed_under_load_has_its_requests_done_by_another_once_each() {
    let Some(mut pair) = Pair::start() else { return };
    let second = Site::far();
    second.import("www", RSA, Acl::default());
    let mut other = second.key_server(&pair.nats.url(), "two");
    pair.gateway.says("the key server two offers 1 keys");
    let expected = User::new(&second, "www", pkcs1()).call(Op::Sign, MESSAGE).unwrap();
    let mut load = Load::new(&mut pair.user, 16);
    load.run(100, &expected);
    pair.key_server.kill();
    load.run(200, &expected);
    pair.key_server = pair.far.key_server(&pair.nats.url(), "one");
    pair.gateway.says("the key server one offers 1 keys");
    load.run(100, &expected);
    other.kill();
    load.run(200, &expected);
    load.finish(&expected);
    assert!(load.done >= 500, "{} done, {} failed by name", load.done, load.failed);
}

/// Requests in flight. Each is answered once.
pub(super) struct Load<'a> {
    user: &'a mut User,
    input: Buffer,
    outputs: Vec<Buffer>,
    open: Vec<bool>,
    pub(super) done: usize,
    pub(super) failed: usize,
}

impl<'a> Load<'a> {
    pub(super) fn new(user: &'a mut User, in_flight: usize) -> Self {
        let client = &mut user.client;
        let input = client.alloc(64).unwrap();
        client.write(&input, 0, MESSAGE).unwrap();
        let outputs = (0..in_flight).map(|_| client.alloc(512).unwrap()).collect();
        let mut load = Self { user, input, outputs, open: vec![false; in_flight], done: 0, failed: 0 };
        (0..in_flight).for_each(|tag| load.submit(tag));
        load
    }

    pub(super) fn submit(&mut self, tag: usize) {
        let len = u32::try_from(MESSAGE.len()).unwrap();
        let inputs = [sidecore::core::wire::Extent::new(self.input.extent().offset, len)];
        let outputs = [self.outputs[tag].extent()];
        let session = self.user.session;
        let request = Request { session, op: Op::Sign, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: true };
        self.user.client.submit(u32::try_from(tag).unwrap(), &request).unwrap();
        self.user.client.ring();
        assert!(!std::mem::replace(&mut self.open[tag], true));
    }

    pub(super) fn run(&mut self, more: usize, expected: &[u8]) {
        let (until, end) = (self.done + more, Instant::now() + MAX_WAIT);
        while self.done < until {
            assert!(Instant::now() < end, "{} of {until} done, {} failed", self.done, self.failed);
            let tag = self.take(expected);
            self.submit(tag);
        }
    }

    pub(super) fn finish(&mut self, expected: &[u8]) {
        while self.open.contains(&true) {
            self.take(expected);
        }
    }

    pub(super) fn take(&mut self, expected: &[u8]) -> usize {
        let Received { tag, status, .. } = self.user.wait();
        let tag = tag as usize;
        assert!(std::mem::replace(&mut self.open[tag], false), "request {tag} was answered twice");
        match status {
            Status::Done { len } => {
                let mut signature = vec![0; len as usize];
                self.user.client.read(&self.outputs[tag], 0, &mut signature).unwrap();
                assert_eq!(signature, expected);
                self.done += 1;
            }
            Status::Refused(Refusal::KeyElsewhere) | Status::DeviceFailed { .. } => self.failed += 1,
            Status::Refused(other) => panic!("{}", other.message()),
        }
        tag
    }
}

#[test]
fn a_failure_by_name_says_what_to_do() {
    let error = sidecore::client::Error::Refused(Refusal::KeyElsewhere);
    assert!(named(&error) && error.to_string().contains("sidecore gateway"), "{error}");
}
