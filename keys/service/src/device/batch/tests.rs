//! Tests that side-by-side results equal those of the library.

use super::*;
use crate::engine::crypto::batch::BatchKey;
use crate::engine::crypto::sample::Sample;
use crate::engine::crypto::{Hash, KeyMaterial, Scheme, SessionSpec};

fn sessions(class: Class, size: usize) -> Vec<(Session, Sample)> {
    let samples = (0..MAX_BATCH as u64).map(|seed| sample(class, size, seed));
    samples.map(|sample| (Session::open(&sample.spec).unwrap(), sample)).collect()
}

fn side_by_side(sessions: &[(Session, Sample)]) -> Option<Vec<(Outcome, Vec<u8>)>> {
    let keys: Vec<BatchKey<'_>> =
        sessions.iter().map(|(session, sample)| session.batched(sample.op)).collect::<Option<_>>()?;
    let mut parts: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (session, sample) in sessions {
        let len = session.output_len(sample.op, sample.head_len, sample.input.len()).unwrap();
        let mut input = sample.input.clone();
        session.prepare(sample.op, &mut input).unwrap();
        parts.push((input, vec![0; len]));
    }
    let jobs = keys.into_iter().zip(&mut parts);
    let mut jobs: Vec<Job<'_>> =
        jobs.map(|(key, (input, output))| Job { key, input, output, outcome: Outcome::NotDone }).collect();
    batch::run(&mut jobs);
    let outcomes: Vec<Outcome> = jobs.iter().map(|job| job.outcome).collect();
    let here = outcomes.iter().any(|outcome| *outcome != Outcome::NotDone);
    here.then(|| outcomes.into_iter().zip(parts).map(|(outcome, (_, output))| (outcome, output)).collect())
}

#[test]
fn what_is_gathered_is_told_once_for_each_class() {
    let gathering = Gathering::measured(1 << 16, rtrb::RingBuffer::new(1).0);
    for class in Class::all() {
        let told: Vec<&Measured> = gathering.found().iter().filter(|measured| measured.class == class).collect();
        assert_eq!(told.len(), usize::from(gathering.gathers[class.index()].is_some()), "{}", class.name());
        assert!(told.iter().all(|told| told.size >= told.from && told.part <= told.ends[0]), "{told:?}");
    }
}

#[test]
fn numbers_of_every_length_are_signed_so_that_the_library_verifies_them() {
    for (algorithm, ops) in KINDS.into_iter().filter(|(_, ops)| ops.contains(&Op::Sign)) {
        let sessions = sessions(Class::of(algorithm, ops[0]).unwrap(), 32);
        // Without such a unit there is nothing to compare, as the tests of `sidecore-batch` say.
        let Some(results) = side_by_side(&sessions) else { continue };
        for ((session, sample), (outcome, signature)) in sessions.iter().zip(results) {
            let Outcome::Done(len) = outcome else { panic!("{algorithm:?}: {outcome:?}") };
            let signature = &signature[..len];
            let signed = [signature, &sample.input].concat();
            session.run(Op::Verify, signature.len(), &signed, &mut []).expect("a signature of the sample's key");
        }
    }
}

#[test]
fn messages_are_those_of_the_library_with_a_key_each() {
    for (algorithm, ops) in KINDS.into_iter().filter(|(_, ops)| !ops.contains(&Op::Sign)) {
        for size in [1024, 1040, 4096] {
            let sessions = sessions(Class::of(algorithm, ops[0]).unwrap(), size);
            let Some(results) = side_by_side(&sessions) else { continue };
            for ((session, sample), (outcome, found)) in sessions.iter().zip(results) {
                let mut expected = vec![0; found.len()];
                session.run(sample.op, 0, &sample.input, &mut expected).unwrap();
                assert_eq!((outcome, found), (Outcome::Done(expected.len()), expected), "{algorithm:?}, {size} bytes");
            }
        }
    }
}

/// Digests of every length that ECDSA signs, in sessions with a hash of their own and in those without.
#[test]
fn digests_of_every_length_are_signed_on_p_256() {
    let key = sample(Class::from_name("p-256-sign").unwrap(), 0, 1).spec.key;
    for scheme in [Scheme::Ecdsa { hash: Hash::Sha384 }, Scheme::EcdsaRaw] {
        let session = Session::open(&SessionSpec { scheme, key: key.clone() }).unwrap();
        let verifier = Session::open(&SessionSpec { scheme: Scheme::EcdsaRaw, key: key.clone() }).unwrap();
        for len in 20..=64_u8 {
            let digest: Vec<u8> = (0..len).map(|at| 0xff - at).collect();
            let (mut input, mut output) = (digest.clone(), vec![0; 72]);
            let Some(key) = session.batched(Op::SignDigest) else { return };
            session.prepare(Op::SignDigest, &mut input).unwrap();
            let job = Job { key, input: &input, output: &mut output, outcome: Outcome::NotDone };
            let mut jobs = [job];
            batch::run(&mut jobs);
            let Outcome::Done(written) = jobs[0].outcome else { panic!("{len} bytes") };
            let signed = [&output[..written], &digest].concat();
            verifier.run(Op::Verify, written, &signed, &mut []).expect("a signature of this digest");
        }
    }
}

#[test]
fn keys_that_batches_do_not_take_are_done_by_themselves() {
    for name in [
        "p-384-sign",
        "p-256-verify",
        "rsa-2048-decrypt",
        "aes-256-cbc-decrypt",
        "aes-256-gcm",
        "x25519",
        "hmac-sha-256",
        "rsa-2048-verify",
    ] {
        let class = Class::from_name(name).unwrap_or_else(|| panic!("{name}"));
        let sample = sample(class, 32, 1);
        assert!(Session::open(&sample.spec).unwrap().batched(sample.op).is_none(), "{name}");
    }
}

const COMPOSITE: &[u8] = include_bytes!("../../engine/crypto/keys/test-rsa-2048-composite.pkcs8.der");

#[test]
fn a_key_whose_factors_are_no_primes_is_found_out_before_its_first_batch() {
    let good = sample(Class::from_name("rsa-2048-sign").unwrap(), 32, 1).spec;
    let bad = SessionSpec { key: KeyMaterial::Private(COMPOSITE.into()), ..good.clone() };
    let [good, bad] = [good, bad].map(|spec| Session::open(&spec).expect("the library takes it"));
    assert!(bad.batched(Op::Sign).is_none());
    assert_eq!(good.batched(Op::Sign).is_some(), sidecore_batch::rsa::is_here());
}

#[test]
fn a_session_whose_results_are_wrong_again_and_again_is_in_no_more_batches() {
    let spec = sample(Class::from_name("rsa-2048-sign").unwrap(), 32, 1).spec;
    let session = Session::open(&spec).unwrap();
    if session.batched(Op::Sign).is_none() {
        return;
    }
    // A session with an occasional wrong result goes on.
    for _ in 0..10 {
        session.blame();
        session.blame();
        session.acquit();
    }
    let times = (0..10).take_while(|_| session.batched(Op::Sign).is_some()).map(|_| session.blame()).count();
    assert_eq!(times, 3);
}
