//! Two tenants of one key server. One breaks every rule: it sends as fast as it can, more requests than its limit.

use super::losses::{Load, MESSAGE};
use super::site::{MAX_WAIT, Site, User, pkcs1};
use super::wire::{self, MessageBody, Presence, RequestBatch, ServerMessage};
use futures_util::StreamExt;
use sidecore::core::session::Op;
use sidecore::keys::Acl;
use sidecore_client::gateway::{Operation, Outcome, Request, Task};
use sidecore_testing::nats::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A slow key, so that both tenants wait for the key server.
const RSA: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-rsa-4096.pkcs8.der");
const NUMBER: u64 = 7;
/// Its flood: time between bursts, messages of a burst, requests of a message.
const PACE: Duration = Duration::from_millis(1);
const MESSAGES: usize = 4;
const REQUESTS: usize = wire::MAX_LIST;
const COUNTED: usize = 400;

/// The flooding gateway. Dropping this ends it.
struct Flood {
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(url: String) -> Self {
        let (done, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let theirs = (done.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(flood(&url, &theirs.0, &theirs.1));
        });
        Self { done, stop, thread: Some(thread) }
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || thread::panicking());
    }
}

async fn flood(url: &str, done: &AtomicUsize, stop: &AtomicBool) {
    let client = async_nats::connect(url).await.unwrap();
    let mut ups = client.subscribe("farm.keys.up.bad.*").await.unwrap();
    let mut paces = tokio::time::interval(PACE);
    let (mut joined, mut ticket) = (None, 0);
    while !stop.load(Ordering::Relaxed) {
        tokio::select! {
            up = ups.next() => match wire::server_message(&up.unwrap().payload) {
                Some(ServerMessage { incarnation, body: MessageBody::Join { .. }, .. }) => joined = Some(incarnation),
                Some(ServerMessage { body: MessageBody::Answers(list), .. }) => {
                    let good = list.iter().filter(|answer| matches!(answer.outcome, Outcome::Done(_))).count();
                    done.fetch_add(good, Ordering::Relaxed);
                }
                _ => {}
            },
            _ = paces.tick() => {
                let presence = Presence { gateway: NUMBER, members: joined.into_iter().collect(), sent: 0 };
                client.publish("farm.keys.gateway.bad", wire::encode(&presence).into()).await.unwrap();
                for incarnation in joined.into_iter().cycle().take(MESSAGES) {
                    ticket += REQUESTS as u64;
                    let body = asks(incarnation, ticket).into();
                    client.publish("farm.keys.ask.bad.one.www", body).await.unwrap();
                }
            }
        }
    }
}

fn asks(incarnation: u64, ticket: u64) -> Vec<u8> {
    let (scheme, operation, input) = (pkcs1(), Operation::SignDigest, &[7; 32]);
    let request = |more| Request {
        ticket: ticket + more,
        key: "www",
        task: Task::Open { scheme: scheme.clone(), operation },
        input,
    };
    wire::encode(&RequestBatch { gateway: NUMBER, incarnation, list: (0..REQUESTS as u64).map(request).collect() })
}

#[test]
fn a_tenant_that_floods_leaves_the_other_its_share_of_a_key_server() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = (Site::near(), Site::far());
    near.knows("www", &far.import("www", RSA, Acl::default()));
    // The flood competes for the same cores, so late beats must not count as silence here.
    let _gateway = near.gateway_with(&nats.url(), &["--silence", "60000"]);
    let _key_server = far.key_server_with(&nats.url(), "one", &["--jobs", "1"]);
    let mut user = User::new(&near, "www", pkcs1());
    let expected = user.call_soon(Op::Sign, MESSAGE);
    let flood = Flood::start(nats.url());
    let end = Instant::now() + MAX_WAIT;
    while flood.done() == 0 {
        assert!(Instant::now() < end, "the flood is served as well");
        thread::sleep(Duration::from_millis(1));
    }
    let mut load = Load::new(&mut user, 16);
    let (base, mut counted) = (flood.done(), 0);
    while counted < COUNTED {
        assert!(Instant::now() < end, "{counted} of {COUNTED}, {} of them of the other", load.done);
        let tag = load.take(&expected);
        load.submit(tag);
        counted = load.done + flood.done() - base;
    }
    let share = load.done as f64 / counted as f64;
    // Without the flood this tenant would have all of them.
    assert!(share >= 0.4, "{} of {counted}, {} failed", load.done, load.failed);
}
