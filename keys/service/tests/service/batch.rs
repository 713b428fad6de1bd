//! The batch device: right results at every fill with a key for each client, and the effect of deaths and errors in
//! the middle of a batch.

use crate::common::{Running, administer, connect};
use crate::devices::{devices_when, service, worker};
use crate::load::Load;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use scopeguard::defer;
use sidecore::client::{Client, Session as Opened};
use sidecore::config::DeviceConfig;
use sidecore::core::session::Op;
use sidecore::engine::crypto::{Hash, KeyMaterial, SaltLength, Scheme, Secret, Session, SessionSpec, SignaturePadding};
use sidecore_batch::{cbc, p256, rsa as lanes};
use sidecore_counters::{DeviceCounter, Snapshot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const MAX_BATCH: usize = 8;
const PADDINGS: [SignaturePadding; 2] =
    [SignaturePadding::Pkcs1, SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Digest }];

fn batch(name: &str) -> DeviceConfig {
    DeviceConfig::batch(name, None, false)
}

type Specs = Vec<(SessionSpec, Op)>;

fn rsa() -> Specs {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let key = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap().as_ref().to_vec();
    let schemes = PADDINGS.map(|padding| Scheme::RsaSignature { padding, hash: Hash::Sha256 });
    schemes.map(|scheme| (spec(scheme, &key), Op::Sign)).into()
}

fn p_256() -> Specs {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap().to_pkcs8v1().unwrap();
    let ops = [
        (Scheme::Ecdsa { hash: Hash::Sha256 }, Op::Sign),
        (Scheme::Ecdsa { hash: Hash::Sha512 }, Op::Sign),
        (Scheme::EcdsaRaw, Op::SignDigest),
    ];
    ops.map(|(scheme, op)| (spec(scheme, key.as_ref()), op)).into()
}

fn spec(scheme: Scheme, key: &[u8]) -> SessionSpec {
    SessionSpec { scheme, key: KeyMaterial::Private(Secret::new(key.to_vec())) }
}

struct Signer {
    client: Client,
    sessions: Vec<(Opened, Session, Op)>,
    signed: u32,
}

impl Signer {
    fn new(service: &Running, specs: &Specs) -> Self {
        let mut client = connect(service);
        let sessions = specs
            .iter()
            .map(|(spec, op)| (client.open_session(spec).unwrap(), Session::open(spec).unwrap(), *op))
            .collect();
        Self { client, sessions, signed: 0 }
    }

    fn sign(&mut self) {
        let (id, session, op) = &self.sessions[self.signed as usize % self.sessions.len()];
        // With the length of a digest, which some sessions sign unhashed.
        let mut message = [0; 32];
        message[..4].copy_from_slice(&self.signed.to_le_bytes());
        let signature = self.client.call(*id, *op, 0, &message, 256).unwrap();
        let signed = [&signature[..], &message].concat();
        session.run(Op::Verify, signature.len(), &signed, &mut []).expect("a signature of this message by this key");
        self.signed += 1;
    }
}

fn count(service: &Running, counter: DeviceCounter) -> u64 {
    Snapshot::read(service.counters()).unwrap().devices.iter().map(|device| device.get(counter)).sum()
}

fn survive(service: &Running, specs: fn() -> Specs, clients: usize, disturb: impl FnOnce()) -> u64 {
    let done = AtomicBool::new(false);
    let mut signers: Vec<Signer> = (0..clients).map(|_| Signer::new(service, &specs())).collect();
    thread::scope(|scope| {
        defer!(done.store(true, Ordering::Relaxed));
        for signer in &mut signers {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    signer.sign();
                }
                signer.sign();
            });
        }
        disturb();
    });
    signers.iter().map(|signer| u64::from(signer.signed)).sum()
}

/// Number of services tried: each measures again whether batches pay, on loaded cores.
const SERVICES: u32 = 8;

fn side_by_side(is_here: bool, mut done: impl FnMut(&Running) -> u64) {
    let gathered = (0..SERVICES).map(|_| done(&service([batch("lanes")])));
    assert_eq!(gathered.take(if is_here { SERVICES as usize } else { 1 }).any(|gathered| gathered > 0), is_here);
}

fn sign_at_every_fill(specs: fn() -> Specs, is_here: bool) {
    side_by_side(is_here, |service| {
        let mut signed = 0;
        for clients in 1..=MAX_BATCH {
            let wanted = 20 * clients as u64;
            let from = count(service, DeviceCounter::Requests);
            signed += survive(service, specs, clients, || {
                devices_when(service, |all| all[0].get(DeviceCounter::Requests) >= from + wanted);
            });
        }
        devices_when(service, |all| all[0].get(DeviceCounter::Requests) == signed);
        assert_eq!(count(service, DeviceCounter::WrongResults), 0);
        let gathered = count(service, DeviceCounter::Gathered);
        assert!(gathered <= signed);
        println!("{signed} signatures, {gathered} in {} batches", count(service, DeviceCounter::Batches));
        gathered
    });
}

#[test]
fn clients_with_keys_of_their_own_get_right_signatures_at_every_fill() {
    sign_at_every_fill(rsa, lanes::is_here());
}

#[test]
fn clients_with_keys_of_p_256_get_right_signatures_at_every_fill() {
    sign_at_every_fill(p_256, p256::is_here());
}

/// The key of a hostile client: its factors are no primes, which the library does not check.
const COMPOSITE: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048-composite.pkcs8.der");

#[test]
fn a_bad_key_is_in_no_batch_and_raises_no_alarm() {
    side_by_side(lanes::is_here(), |service| {
        let done = AtomicBool::new(false);
        let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };
        let mut attackers: Vec<(Client, Opened)> = (0..2)
            .map(|_| {
                let mut client = connect(service);
                let session = client.open_session(&spec(scheme.clone(), COMPOSITE)).expect("the library takes it");
                (client, session)
            })
            .collect();
        thread::scope(|scope| {
            defer!(done.store(true, Ordering::Relaxed));
            for (client, session) in &mut attackers {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        // The library finds out that it is wrong.
                        client.call(*session, Op::Sign, 0, b"message", 256).unwrap_err();
                    }
                });
            }
            survive(service, rsa, MAX_BATCH - 2, || {
                devices_when(service, |all| all[0].get(DeviceCounter::Requests) >= 400);
            });
        });
        assert_eq!(count(service, DeviceCounter::WrongResults), 0);
        count(service, DeviceCounter::Gathered)
    });
}

#[test]
fn requests_of_a_killed_device_are_done_by_another_once_each() {
    let service = service([batch("lanes0"), worker("other")]);
    survive(&service, rsa, MAX_BATCH, || {
        for round in 0..6 {
            let requests = count(&service, DeviceCounter::Requests);
            devices_when(&service, |all| {
                all.iter().map(|device| device.get(DeviceCounter::Requests)).sum::<u64>() > requests + 30
            });
            let mut control = administer(&service);
            control.set(&format!("device.lanes{round}=kill")).unwrap();
            control.set(&format!("device={{ name = \"lanes{}\", kind = \"batch\" }}", round + 1)).unwrap();
        }
    });
    assert_eq!(count(&service, DeviceCounter::Failed), 0);
}

#[test]
fn a_client_that_leaves_with_requests_in_a_batch_takes_none_of_the_others_along() {
    let service = service([batch("lanes")]);
    survive(&service, rsa, MAX_BATCH - 1, || {
        for _ in 0..20 {
            let mut leaving = Load::new(connect(&service), "rsa-2048-sign", 32, 4, false);
            assert_eq!(leaving.fill(4), 4);
        }
    });
    assert_eq!(count(&service, DeviceCounter::WrongResults), 0);
}

/// Messages of several lengths and signatures by two algorithms at the same time, each of which is what the library makes by itself.
#[test]
fn operations_of_several_kinds_share_a_device_and_every_result_is_right() {
    let service = service([batch("lanes")]);
    let kinds = [
        ("aes-256-cbc", 1024),
        ("aes-256-cbc", 1040),
        ("aes-256-cbc", 16 << 10),
        ("aes-128-cbc", 4096),
        // Too short to be gathered, and kinds that never are.
        ("aes-256-cbc", 64),
        ("sha-256", 2048),
        ("x25519", 32),
        ("hmac-sha-256", 2000),
    ];
    thread::scope(|scope| {
        let service = &service;
        for specs in [rsa, rsa, p_256, p_256] {
            scope.spawn(move || {
                let mut signer = Signer::new(service, &specs());
                (0..1000).for_each(|_| signer.sign());
            });
        }
        for (kind, size) in kinds {
            scope.spawn(move || {
                let mut load = Load::new(connect(service), kind, size, 8, kind.starts_with("aes"));
                load.run(2000);
                assert_eq!((load.tally.done, load.tally.refused), (2000, vec![]), "{kind}");
            });
        }
    });
    let side_by_side = count(&service, DeviceCounter::Gathered);
    assert_eq!(count(&service, DeviceCounter::WrongResults), 0);
    assert_eq!(side_by_side > 0, lanes::is_here() || p256::is_here() || cbc::is_here(), "{side_by_side} side by side");
    println!("{side_by_side} of {} side by side", 2000 * kinds.len() + 4 * 1000);
}
