//! Operations in forked children of busy processes, and on small stacks.

mod authority;
mod patience;
mod program;

use crate::generate::GenerateRequest;
use scopeguard::defer;
use sidecore::client::{Client, Options};
use sidecore::config::{Config, LimitsConfig};
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::Scheme;
use sidecore::service::Service;
use sidecore_client::keyops::call::{Request, call};
use sidecore_client::keyops::key::{Curve, Family, Key, Raw};
use sidecore_client::keyops::lanes::{Take, pool};
use sidecore_client::keyops::sign::Settings;
use sidecore_client::keyops::wait::Caller;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// A child that runs longer hangs, seconds.
const TIME_LIMIT_S: u32 = 60;

struct Site {
    options: Options,
    key: Arc<Key>,
    _service: Service,
    _directory: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        Self::with(LimitsConfig::default())
    }

    fn with(limits: LimitsConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let service = Service::start(Config { socket: socket.clone(), limits, ..Config::default() }).unwrap();
        let options = Options { socket, ..Options::default() };
        Self { key: made(&options), options, _service: service, _directory: directory }
    }

    fn works(&self) -> bool {
        let settings = Settings::default();
        let digest = [7; 32];
        let signature = settings.sign(Caller::thread(&self.options), &self.key, &digest);
        signature.is_ok_and(|signature| {
            settings.verify(Caller::thread(&self.options), &self.key, &signature, &digest).unwrap_or(false)
        })
    }
}

fn made(options: &Options) -> Arc<Key> {
    Arc::new(
        GenerateRequest { curve: Some(Curve::P256), ..GenerateRequest::new(Family::Ec) }.generate(options).unwrap(),
    )
}

/// Ends the child without running its parent's destructors.
fn in_child(work: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child uses only objects that survive a fork, and leaves by `_exit`.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::alarm(TIME_LIMIT_S);
            libc::_exit(i32::from(!work()));
        }
        pid
    }
}

fn succeeded(pid: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: a child of this process, and room for its status.
    unsafe { libc::waitpid(pid, &raw mut status, 0) == pid && status == 0 }
}

#[test]
fn children_of_a_busy_process_have_lanes_of_their_own() {
    let site = Site::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        assert!(site.works());
                    }
                })
            })
            .collect();
        {
            defer!(stop.store(true, Ordering::Relaxed));
            for _ in 0..25 {
                let children: Vec<_> = (0..4).map(|_| in_child(|| (0..3).all(|_| site.works()))).collect();
                assert!(children.into_iter().all(succeeded));
            }
        }
        for thread in busy {
            thread.join().unwrap();
        }
    });
}

#[test]
fn grandchildren_work_as_well() {
    let site = Site::new();
    assert!(site.works());
    assert!(succeeded(in_child(|| site.works() && succeeded(in_child(|| site.works())) && site.works())));
    assert!(site.works());
}

#[test]
fn more_operations_than_lanes_wait_for_one() {
    let site = Site::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(|| (0..5).all(|_| site.works()))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
}

#[test]
fn making_keys_connecting_and_signing_fit_the_stack_of_a_job() {
    // OpenSSL's jobs have 32 KiB, part of which the program and OpenSSL need. An overflow kills the thread.
    let site = Site::new();
    thread::scope(|scope| {
        let small = thread::Builder::new().stack_size(16 << 10);
        let works = || {
            let curve = Some(Curve::P256);
            let families = [Family::Rsa, Family::Ec, Family::Raw(Raw::Ed25519), Family::Raw(Raw::MlDsa65)];
            let made = families.map(|family| {
                GenerateRequest { curve, ..GenerateRequest::new(family) }.generate(&site.options).is_ok()
            });
            made == [true; 4] && site.works()
        };
        assert!(small.spawn_scoped(scope, works).unwrap().join().unwrap());
    });
}

#[test]
fn a_buffer_is_wiped_to_its_end() {
    let site = Site::new();
    let mut client = Client::connect(&site.options).unwrap();
    let buffer = client.alloc(3000).unwrap();
    client.write(&buffer, 0, &[7; 3000]).unwrap();
    client.wipe(&buffer);
    let mut left = [1; 3000];
    client.read(&buffer, 0, &mut left).unwrap();
    assert!(left.iter().all(|byte| *byte == 0));
}

#[test]
fn a_refusal_of_the_request_is_told_as_it_is() {
    let site = Site::new();
    let request = Request {
        key: &site.key,
        scheme: Scheme::EcdsaRaw,
        op: Op::SignDigest,
        head: &[],
        input: &[1],
        max_output: 72,
    };
    assert_eq!(call(Caller::thread(&site.options), &request).unwrap(), Err(Refusal::InputLength));
}

#[test]
fn a_request_that_no_lane_will_ever_hold_is_refused_while_lanes_are_in_use() {
    let arena = LimitsConfig { arena_bytes_per_client: 256 << 10, ..LimitsConfig::default() };
    let request = LimitsConfig { max_request_bytes: 64 << 10, lanes_per_client: 1, ..LimitsConfig::default() };
    for (limits, says) in [
        (arena, "use up to 262144 (limits.arena_bytes_per_client)"),
        (request, "the service takes up to 65536 (limits.max_request_bytes)"),
    ] {
        let site = Site::with(limits);
        // The pool of this process has the lanes of other tests; a child's pool is empty.
        assert!(succeeded(in_child(|| {
            let held = match pool()
                .unwrap()
                .take(&site.options, None, 0, None, Instant::now() + site.options.timeout)
                .unwrap()
            {
                Take::Lane(lane) => lane,
                Take::Full(_) => panic!("a new pool"),
            };
            let request = Request {
                key: &site.key,
                scheme: Scheme::EcdsaRaw,
                op: Op::SignDigest,
                head: &[],
                input: &vec![1; 300 << 10],
                max_output: 72,
            };
            let refused =
                call(Caller::thread(&site.options), &request).is_err_and(|failure| failure.text.contains(says));
            held.give_back();
            refused && site.works()
        })));
    }
}
