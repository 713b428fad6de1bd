//! Gateways that break the rules: each loses its device with a reason, and no other party loses anything.

use crate::common::{
    RSA, RSA_PUBLIC, Signer, config, expected, import, import_public, remote, share, sign_digest, start, until,
};
use crate::far::{Far, Line, Manner};
use crate::serves::WWW;
use rustix::net::{SendFlags, send};
use scopeguard::defer;
use sidecore::gateway::{Answer, MAX_OFFERS, MAX_PACKET, Offer, Outcome, TRIES, Tell};
use sidecore::service::Service;
use sidecore_counters::{SidecoreCounter, Snapshot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A service with a key in both places sends a request to the gateway, which does this. The request is done in the
/// end all the same, the gateway loses its connection, and the next one serves.
fn harmless(does: impl FnOnce(&mut Line, u64, &[u8])) {
    let service = remote();
    harmless_to(&service, does);
}

fn harmless_to(service: &Service, does: impl FnOnce(&mut Line, u64, &[u8])) {
    import(service, "www", RSA);
    share(service, "www", true);
    crate::common::administer(service).set("balance=round-robin").unwrap();
    let mut line = Line::to(service);
    line.offer(&WWW);
    let mut signer = Signer::new(service, "www");
    thread::scope(|scope| {
        let signing = scope.spawn(|| {
            for _ in 0..50 {
                assert_eq!(signer.sign().unwrap(), expected());
            }
        });
        let (ticket, digest) = line.request();
        does(&mut line, ticket, &digest);
        assert!(line.is_ended());
        signing.join().unwrap();
    });
    drop(Line::to(service));
    let _far = Far::start(service, &[WWW], Manner::Honest);
    assert_eq!(Signer::new(service, "www").sign_soon(), expected());
}

fn answer(line: &Line, ticket: u64, result: &[u8]) {
    let _ = line.tell(&Tell::Answer(Answer { ticket, outcome: Outcome::Done(result) }));
}

/// A service with a key in both places. Its gateway answers each attempt of a request by `does`. The request is done
/// in the end all the same, and the gateway serves again as soon as its answers are good.
fn wrong(service: &Service, does: impl Fn(&mut Line, u64, &[u8])) {
    import(service, "www", RSA);
    share(service, "www", true);
    crate::common::administer(service).set("balance=round-robin").unwrap();
    let mut line = Line::to(service);
    line.offer(&WWW);
    let mut signer = Signer::new(service, "www");
    let mut told = None;
    thread::scope(|scope| {
        let signing = scope.spawn(|| {
            for _ in 0..2 {
                assert_eq!(signer.sign().unwrap(), expected());
            }
        });
        let mut before = None;
        for _ in 0..TRIES {
            let (ticket, digest) = line.request();
            assert_eq!(line.wrong.pop(), before, "the gateway is told of the one before");
            does(&mut line, ticket, &digest);
            before = Some(ticket);
        }
        signing.join().unwrap();
        told = before;
    });
    thread::scope(|scope| {
        // Devices take turns: one of the next two requests goes to the gateway.
        let signing = scope.spawn(|| {
            for _ in 0..2 {
                assert_eq!(signer.sign().unwrap(), expected());
            }
        });
        let (ticket, digest) = line.request();
        assert_eq!(line.wrong.pop(), told);
        answer(&line, ticket, &sign_digest(&digest));
        signing.join().unwrap();
    });
}

#[test]
fn a_wrong_signature_is_not_delivered_and_is_counted() {
    let service = remote();
    wrong(&service, |line, ticket, digest| {
        let mut signature = sign_digest(digest);
        signature[100] ^= 1;
        answer(line, ticket, &signature);
    });
    until("each is counted", || {
        let count = Snapshot::read(service.counters()).unwrap().sidecores[0].get(SidecoreCounter::WrongAnswers);
        count == u64::from(TRIES)
    });
}

#[test]
fn a_signature_of_another_message_or_of_another_length_is_not_delivered() {
    wrong(&remote(), |line, ticket, _| answer(line, ticket, &sign_digest(&[7; 32])));
    wrong(&remote(), |line, ticket, digest| answer(line, ticket, &[&sign_digest(digest)[..], &[0]].concat()));
    wrong(&remote(), |line, ticket, _| answer(line, ticket, &[]));
}

#[test]
fn a_gateway_whose_answers_are_all_wrong_loses_its_device() {
    let service = remote();
    import_public(&service, "www", RSA_PUBLIC);
    let mut line = Line::to(&service);
    line.offer(&WWW);
    let mut signer = Signer::new(&service, "www");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        defer!(stop.store(true, Ordering::Relaxed));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(signer.sign().is_err());
            }
        });
        let most = usize::from(TRIES) * line.welcome.depth as usize;
        for _ in 0..=most {
            let (ticket, _) = line.request();
            answer(&line, ticket, &[7]);
        }
        assert!(line.is_ended());
    });
}

#[test]
fn an_answer_that_was_not_asked_for_ends_the_connection() {
    harmless(|line, ticket, digest| answer(line, ticket ^ 1 << 32, &sign_digest(digest)));
    harmless(|line, _, digest| answer(line, u64::MAX, &sign_digest(digest)));
    // The same answer twice.
    harmless(|line, ticket, digest| {
        answer(line, ticket, &sign_digest(digest));
        answer(line, ticket, &sign_digest(digest));
    });
}

#[test]
fn what_is_no_message_ends_the_connection() {
    for garbage in [&[0xff; 100][..], &[7], &[0; MAX_PACKET]] {
        harmless(|line, _, _| {
            send(&line.gateway, garbage, SendFlags::empty()).unwrap();
        });
    }
    harmless(|line, ticket, _| {
        let _ = line.tell(&Tell::Answer(Answer { ticket, outcome: Outcome::Refused(0) }));
    });
}

#[test]
fn a_flood_ends_the_connection() {
    harmless(|line, _, _| while line.tell(&Tell::Beat).is_ok() {});
    harmless(|line, _, _| {
        let mut number = 0;
        while line.tell(&Tell::Offer(Offer { key: &format!("key-{number}"), public: &[7; 4000] })).is_ok() {
            number += 1;
        }
        assert!(number < 8 * MAX_OFFERS, "{number} offers were taken");
    });
}

#[test]
fn a_gateway_that_reads_nothing_is_waited_for_no_longer_than_is_configured() {
    let service = start(config(200));
    // It beats, and reads nothing more: its requests stay in the socket.
    harmless_to(&service, |line, _, _| {
        while line.tell(&Tell::Beat).is_ok() {
            thread::sleep(std::time::Duration::from_millis(5));
        }
    });
}

#[test]
fn a_key_of_another_public_part_is_not_asked_for() {
    let service = remote();
    import_public(&service, "www", RSA_PUBLIC);
    let public = include_bytes!("../../src/engine/crypto/keys/test-ed25519.spki.der");
    let far = Far::start(&service, &[crate::far::OwnKey { public, ..WWW }], Manner::Honest);
    let mut signer = Signer::new(&service, "www");
    for _ in 0..20 {
        assert!(signer.sign().is_err());
    }
    assert_eq!(far.asked(), 0);
}
