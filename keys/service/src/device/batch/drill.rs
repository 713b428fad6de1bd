//! A unit that makes mistakes, in the build of these tests only: it stands around the results of one device's batches.

use super::{Job, Outcome};
use crate::client::{Client, Options, Session as Opened};
use crate::config::{Config, DeviceConfig};
use crate::engine::crypto::Session;
use crate::engine::crypto::batch::units;
use crate::engine::crypto::sample::sample;
use crate::service::Service;
use sidecore_core::session::{Class, Op};
use sidecore_counters::{DeviceCounter, DeviceStats, Snapshot};
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// The device whose unit it is, and its thread.
const DEVICE: &str = "spoilt";
const THREAD: &str = "sidecore-spoilt";

/// One result in each batch is wrong, each time of another request.
pub(super) fn spoil(jobs: &mut [Job<'_>]) {
    thread_local! { static BATCHES: Cell<usize> = const { Cell::new(0) } }
    if thread::current().name() != Some(THREAD) {
        return;
    }
    let batch = BATCHES.replace(BATCHES.get() + 1);
    let Some(job) = jobs.get_mut(batch % jobs.len().max(1)) else { return };
    if job.outcome != Outcome::NotDone {
        job.outcome = Outcome::Wrong;
        // The units wipe such a result. What stands here must not leave either.
        job.output.fill(0xff);
    }
}

/// One more request, whose result must be right.
fn ask(client: &mut Client, of: Opened, local: &Session, class: Class, seed: u64) {
    let sample = sample(class, 4096, seed);
    let found = client.call(of, sample.op, sample.head_len as u32, &sample.input, sample.output_len as u32).unwrap();
    if class.op() == Op::Sign {
        let signed = [&found[..], &sample.input].concat();
        local.run(Op::Verify, found.len(), &signed, &mut []).expect("a signature of this message");
    } else {
        let mut expected = vec![0; found.len()];
        local.run(sample.op, sample.head_len, &sample.input, &mut expected).unwrap();
        assert!(found == expected, "another result than by the library");
    }
}

/// Clients of one service, and requests of each.
const CLIENTS: u64 = 8;
const REQUESTS: u64 = 100;

/// Batches and wrong results of a new service, whose clients got right results only.
fn served(class: Class) -> [u64; 2] {
    let directory = tempfile::tempdir().unwrap();
    let devices = vec![DeviceConfig::batch(DEVICE, None, false)];
    let config = Config { socket: directory.path().join("socket"), devices, ..Config::default() };
    let service = Service::start(config).unwrap();
    let all = || Snapshot::read(service.counters()).unwrap().devices;
    let count = |counter| all().iter().map(|device: &DeviceStats| device.get(counter)).sum::<u64>();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let service = &service;
            scope.spawn(move || {
                let options = Options { socket: service.socket().to_owned(), ..Options::default() };
                let mut connected = Client::connect(&options).unwrap();
                let spec = sample(class, 4096, client).spec;
                let (session, local) = (connected.open_session(&spec).unwrap(), Session::open(&spec).unwrap());
                for request in 0..REQUESTS {
                    ask(&mut connected, session, &local, class, CLIENTS * request + client);
                }
            });
        }
    });
    assert_eq!(count(DeviceCounter::Failed), 0);
    // The counter file follows its service at a distance.
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let found = [DeviceCounter::Batches, DeviceCounter::WrongResults].map(count);
        let is_whole = count(DeviceCounter::Requests) == CLIENTS * REQUESTS && found[0] == found[1];
        if is_whole || Instant::now() > patience {
            return found;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Each service measures again whether batches pay, on cores that other tests load, so several are tried.
const SERVICES: usize = 8;

#[test]
#[expect(clippy::print_stdout, reason = "a test says which units the processor lacks")]
fn a_wrong_result_of_a_batch_does_not_leave_and_is_made_again() {
    for (name, unit) in [("rsa-2048-sign", "RSA"), ("p-256-sign", "P-256"), ("aes-256-cbc", "AES-CBC")] {
        let class = Class::from_name(name).unwrap();
        if !units().iter().any(|(operation, _)| *operation == unit) {
            println!("{unit}: the unit is missing, nothing is disturbed");
            continue;
        }
        let spoilt = (0..SERVICES).map(|_| served(class)).find(|[batches, _]| *batches > 0);
        let Some([batches, wrong]) = spoilt else { panic!("{unit}: no batch in {SERVICES} services") };
        println!("{unit}: {wrong} wrong results in {batches} batches");
        assert_eq!(wrong, batches, "{unit}");
    }
}
