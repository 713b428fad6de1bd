//! Signatures on a remote key, one at a time and many in flight. All must be answered; the test prints their cost. For
//! figures: `cargo test --release -p sidecore-remote --test remote remote_signatures -- --nocapture`.

use super::losses::RSA;
use super::site::{Site, User, pkcs1};
use futures_util::StreamExt;
use sidecore::client::{Buffer, Request};
use sidecore::core::session::{Op, Refusal};
use sidecore::core::wire::{Extent, Status};
use sidecore::keys::Acl;
use sidecore_testing::nats::Server;
use std::time::{Duration, Instant};

const MESSAGE: &[u8] = &[7; 32];
/// Requests of one measurement of latency, and its repeats in turn with the others.
const REQUESTS: usize = 300;
const ROUNDS: usize = if cfg!(debug_assertions) { 1 } else { 7 };
/// Requests in flight while rates are measured, and the duration.
const IN_FLIGHT: usize = 64;
const SPAN: Duration = Duration::from_millis(1500);

#[test]
fn remote_signatures_are_answered_one_at_a_time_and_many_in_flight() {
    let Some([nats, of_sealed]) = Server::start().and_then(|one| Some([one, Server::start()?])) else { return };
    let (open, far) = (Site::near(), Site::far());
    let (near, sealed_far) = Site::sealed(1);
    open.knows("www", &far.import("www", RSA, Acl::default()));
    near.knows("www", &sealed_far[0].import("www", RSA, Acl::default()));
    let _of_open = (open.gateway(&nats.url()), far.key_server(&nats.url(), "one"));
    let _of_sealed = (near.gateway(&of_sealed.url()), sealed_far[0].key_server(&of_sealed.url(), "one"));
    let [mut remote, mut sealed, mut local] = [&open, &near, &far].map(|site| User::new(site, "www", pkcs1()));
    remote.call_soon(Op::Sign, MESSAGE);
    sealed.call_soon(Op::Sign, MESSAGE);
    let nats = Nats::new(&nats.url());
    let mut columns: [Vec<f64>; 7] = Default::default();
    for _ in 0..ROUNDS {
        columns[0].push(median(|| drop(local.call(Op::Sign, MESSAGE).unwrap())));
        columns[1].push(median(|| drop(remote.call_soon(Op::Sign, MESSAGE))));
        columns[2].push(median(|| nats.request()));
        columns[3].push(rate(&mut local));
        columns[4].push(rate(&mut remote));
        columns[5].push(median(|| drop(sealed.call_soon(Op::Sign, MESSAGE))));
        columns[6].push(rate(&mut sealed));
    }
    let [local_us, remote_us, nats_us, local_rate, remote_rate, sealed_us, sealed_rate] = columns.map(middle);
    let added = remote_us - local_us;
    eprintln!("signature, local                {local_us:8.1} us");
    eprintln!("signature, remote               {remote_us:8.1} us: added {added:.1} us");
    eprintln!("signature, remote and sealed    {sealed_us:8.1} us: {:+.1} us", sealed_us - remote_us);
    eprintln!("NATS request                    {nats_us:8.1} us: added is {:.2} x that", added / nats_us);
    eprintln!("signatures a second, local      {local_rate:8.0}");
    eprintln!("signatures a second, remote     {remote_rate:8.0}: {:.3} of it", remote_rate / local_rate);
    let each_us = 1e6 / sealed_rate - 1e6 / remote_rate;
    eprintln!("signatures a second, sealed     {sealed_rate:8.0}: {each_us:+.1} us each beside open ones");
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn median(mut request: impl FnMut()) -> f64 {
    let times = (0..REQUESTS).map(|_| {
        let begun = Instant::now();
        request();
        begun.elapsed().as_secs_f64() * 1e6
    });
    middle(times.collect())
}

fn rate(user: &mut User) -> f64 {
    let input = user.client.alloc(64).unwrap();
    user.client.write(&input, 0, MESSAGE).unwrap();
    let outputs: Vec<Buffer> = (0..IN_FLIGHT).map(|_| user.client.alloc(256).unwrap()).collect();
    for (tag, output) in outputs.iter().enumerate() {
        submit(user, tag, &input, output);
    }
    let (begun, mut done) = (Instant::now(), 0_u32);
    while user.client.in_flight() > 0 {
        let received = user.wait();
        let status = received.status;
        // On a busy machine a key server may be taken for lost.
        let named = matches!(status, Status::Refused(Refusal::KeyElsewhere) | Status::DeviceFailed { .. });
        assert!(named || matches!(status, Status::Done { len: 256 }), "{status:?}");
        if begun.elapsed() < SPAN {
            done += u32::from(!named);
            submit(user, received.tag as usize, &input, &outputs[received.tag as usize]);
        }
    }
    outputs.into_iter().chain([input]).for_each(|buffer| user.client.free(buffer));
    f64::from(done) / SPAN.as_secs_f64()
}

fn submit(user: &mut User, tag: usize, input: &Buffer, output: &Buffer) {
    let inputs = [Extent::new(input.extent().offset, u32::try_from(MESSAGE.len()).unwrap())];
    let session = user.session;
    let outputs = [output.extent()];
    let request = Request { session, op: Op::Sign, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: true };
    user.client.submit(u32::try_from(tag).unwrap(), &request).unwrap();
    user.client.ring();
}

/// A request and its answer over NATS alone, with the size of a signature. A thread answers.
struct Nats {
    runtime: tokio::runtime::Runtime,
    client: async_nats::Client,
}

impl Nats {
    fn new(url: &str) -> Self {
        let make = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let at = url.to_owned();
        std::thread::spawn(move || {
            make().block_on(async {
                let client = async_nats::connect(at).await.unwrap();
                let mut asked = client.subscribe("measured").await.unwrap();
                client.flush().await.unwrap();
                ready.send(()).unwrap();
                while let Some(message) = asked.next().await {
                    client.publish(message.reply.unwrap(), vec![7; 256].into()).await.unwrap();
                }
            });
        });
        is_ready.recv().unwrap();
        let runtime = make();
        let client = runtime.block_on(async_nats::connect(url)).unwrap();
        Self { runtime, client }
    }

    fn request(&self) {
        self.runtime.block_on(self.client.request("measured", MESSAGE.into())).unwrap();
    }
}
