//! Tests of requests through a lane.

use crate::common::{connect, start};
use crate::peer::Peer;
use sidecore::client::{Client, Error, Request};
use sidecore::config::{Config, NotifyConfig, Sidecores};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::{Class, Op, Refusal};
use sidecore::core::wire::{Extent, Status};
use sidecore::engine::crypto::sample::sample;
use sidecore_counters::Snapshot;

#[test]
fn every_class_goes_through_the_lane() {
    let service = start(Config::default());
    let mut client = connect(&service);
    for class in Class::all() {
        let sample = sample(class, 1000, 7);
        let session = client.open_session(&sample.spec).unwrap();
        let room = sample.output_len as u32 + 512;
        let result = client.call(session, sample.op, sample.head_len as u32, &sample.input, room).unwrap();
        assert!(result.len() <= room as usize, "{}", class.name());
        client.close_session(session).unwrap();
    }
}

fn noop(client: &mut Client) -> sidecore::client::Session {
    client.open_session(&sample(Class::NOOP, 0, 0).spec).unwrap()
}

#[test]
fn a_full_lane_answers_each_request_once() {
    let service = start(Config::default());
    let mut client = connect(&service);
    let session = noop(&mut client);
    let request = Request { session, op: Op::Noop, head_len: 0, inputs: &[], outputs: &[], urgent: false };
    for round in 0..50u32 {
        let mut tags = std::collections::HashSet::new();
        let mut tag = round * 1000;
        while client.submit(tag, &request).is_ok() {
            tags.insert(tag);
            tag += 1;
        }
        assert_eq!(tags.len(), 256);
        client.ring();
        while client.in_flight() > 0 {
            let received = client.wait().unwrap();
            assert_eq!(received.status, Status::Done { len: 0 });
            assert!(tags.remove(&received.tag));
        }
        assert!(tags.is_empty());
    }
}

#[test]
fn refusals_have_their_reasons() {
    let service = start(Config::default());
    let mut client = connect(&service);
    let gcm = sample(Class::from_name("aes-256-gcm").unwrap(), 64, 1);
    let session = client.open_session(&gcm.spec).unwrap();
    let refused = |result: Result<Vec<u8>, Error>| match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(client.call(session, Op::Digest, 0, &gcm.input, 100)), Refusal::Unsupported);
    assert_eq!(refused(client.call(session, Op::Encrypt, 0, &gcm.input[..5], 100)), Refusal::InputLength);
    assert_eq!(refused(client.call(session, Op::Encrypt, 0, &gcm.input, 10)), Refusal::OutputLength);
    assert_eq!(refused(client.call(session, Op::Decrypt, 0, &gcm.input, 100)), Refusal::Authentication);
    let huge = vec![0; client.max_request_bytes() as usize + 1];
    assert_eq!(refused(client.call(session, Op::Encrypt, 0, &huge, 1 << 20)), Refusal::TooLarge);
    client.close_session(session).unwrap();
    assert_eq!(refused(client.call(session, Op::Encrypt, 0, &gcm.input, 100)), Refusal::NoSession);
    assert!(matches!(client.close_session(session), Err(Error::Service(_))));
    let extents = [Extent::new(0, 1); 5];
    let request = Request { session, op: Op::Encrypt, head_len: 0, inputs: &extents, outputs: &[], urgent: false };
    assert!(matches!(client.submit(0, &request), Err(Error::TooManyExtents)));
    assert!(matches!(client.wait(), Err(Error::NothingInFlight)));
}

#[test]
fn scattered_extents_are_one_message() {
    let service = start(Config::default());
    let mut client = connect(&service);
    let gcm = sample(Class::from_name("aes-256-gcm").unwrap(), 3000, 1);
    let session = client.open_session(&gcm.spec).unwrap();
    let whole = client.call(session, Op::Encrypt, 0, &gcm.input, 4000).unwrap();
    let input = client.alloc(4000).unwrap();
    let output = client.alloc(4000).unwrap();
    client.write(&input, 0, &gcm.input[..100]).unwrap();
    client.write(&input, 900, &gcm.input[100..]).unwrap();
    let (from, to) = (input.extent().offset, output.extent().offset);
    let rest = gcm.input.len() as u32 - 100;
    let inputs = [Extent::new(from, 100), Extent::new(from + 900, rest)];
    let outputs = [Extent::new(to + 64, 7), Extent::new(to + 700, 3300)];
    let request = Request { session, op: Op::Encrypt, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: false };
    client.submit(9, &request).unwrap();
    client.ring();
    let received = client.wait().unwrap();
    assert_eq!((received.tag, received.status), (9, Status::Done { len: whole.len() as u32 }));
    let mut got = vec![0; whole.len()];
    client.read(&output, 64, &mut got[..7]).unwrap();
    client.read(&output, 700, &mut got[7..]).unwrap();
    assert_eq!(got, whole);
}

#[test]
fn buffers_have_bounds() {
    let service = start(Config::default());
    let (mut client, mut other) = (connect(&service), connect(&service));
    let buffer = client.alloc(100).unwrap();
    assert!(matches!(client.write(&buffer, 50, &[0; 51]), Err(Error::OutOfBounds)));
    assert!(matches!(client.write(&buffer, u32::MAX, &[0; 1]), Err(Error::OutOfBounds)));
    assert!(matches!(other.write(&buffer, 0, &[0; 1]), Err(Error::ForeignBuffer)));
    assert!(matches!(client.alloc(1 << 30), Err(Error::ArenaFull)));
}

#[test]
fn waiting_rings_for_what_was_submitted() {
    let notify = NotifyConfig::all(Notify::Park);
    let service = start(Config { notify, ..Config::default() });
    let mut client = connect(&service);
    let session = noop(&mut client);
    let request = Request { session, op: Op::Noop, head_len: 0, inputs: &[], outputs: &[], urgent: false };
    for tag in 0..20 {
        client.submit(tag, &request).unwrap();
        assert_eq!(client.wait().unwrap().tag, tag);
    }
}

#[test]
fn a_client_tied_to_a_core_is_served_on_that_core_where_cores_are_shared() {
    let cpus = sidecore_daemon::sys::cpu::allowed();
    let (first, last) = (cpus[0], *cpus.last().unwrap());
    // The kernel reports on processes, so the client is another process.
    let served_by = |owned: bool, cpu: usize| {
        let sidecores = Sidecores { cpus: vec![first, last], owned };
        let service = start(Config { sidecores, ..Config::default() });
        let mut tied = Peer::start(&["tied", service.socket().to_str().unwrap(), &cpu.to_string()]);
        tied.expect("attached");
        let snapshot = Snapshot::read(service.counters()).unwrap();
        snapshot.lanes.iter().find(|lane| lane.name == "peer").map(|lane| lane.sidecore).unwrap()
    };
    assert_eq!(served_by(false, first), 0);
    assert_eq!(served_by(false, last), u32::from(first != last));
    assert_eq!(served_by(true, last), 0, "on cores of their own all are as near: the least loaded serves");
}
