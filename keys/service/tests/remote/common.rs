//! A service with a remote device, a client on a remote key, and waits for events.

pub(crate) use crate::served::{Running, administer, connect, options, root_or_skipped, start};
use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use sidecore::client::{Client, Error, Session};
use sidecore::config::{Config, DeviceConfig, LimitsConfig};
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::{self, Hash, KeyMaterial, Scheme, Secret, SessionSpec, SignaturePadding};
use sidecore::keys::{Acl, KeyCommand, KeyEntry};
use sidecore::service::Service;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
pub(crate) const RSA_PUBLIC: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.spki.der");
/// Longest wait of any step before the test calls it a stall.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn config(timeout_ms: u32) -> Config {
    let limits = LimitsConfig { device_timeout_ms: timeout_ms, ..LimitsConfig::default() };
    let devices = vec![DeviceConfig::inline("here"), DeviceConfig::remote("far", "keys")];
    Config { devices, limits, socket_mode: 0o666, ..Config::default() }
}

pub(crate) fn remote() -> Running {
    start(config(20_000))
}

pub(crate) fn import_public(service: &Service, name: &str, public: &[u8]) -> KeyEntry {
    let command = KeyCommand::ImportPublic { name: name.to_owned(), public: public.to_vec(), acl: Acl::default() };
    administer(service).keys(command).unwrap().remove(0)
}

pub(crate) fn import(service: &Service, name: &str, pkcs8: &[u8]) -> KeyEntry {
    let command = KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(pkcs8), acl: Acl::default() };
    administer(service).keys(command).unwrap().remove(0)
}

pub(crate) fn share(service: &Service, name: &str, also: bool) {
    administer(service).keys(KeyCommand::Share { name: name.to_owned(), also }).unwrap();
}

pub(crate) fn pkcs1() -> Scheme {
    Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 }
}

pub(crate) fn stored(scheme: Scheme, name: &str) -> SessionSpec {
    SessionSpec { scheme, key: KeyMaterial::Stored(name.to_owned()) }
}

pub(crate) fn session_of(scheme: &Scheme, pkcs8: &[u8]) -> crypto::Session {
    let key = KeyMaterial::Private(Secret::from(pkcs8));
    crypto::Session::open(&SessionSpec { scheme: scheme.clone(), key }).unwrap()
}

pub(crate) fn run(session: &crypto::Session, op: Op, input: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut result = vec![0; session.output_len(op, 0, input.len())?];
    let len = session.run(op, 0, input, &mut result)?;
    result.truncate(len);
    Ok(result)
}

pub(crate) fn owner(scheme: &Scheme, pkcs8: &[u8], op: Op, input: &[u8]) -> Result<Vec<u8>, Refusal> {
    run(&session_of(scheme, pkcs8), op, input)
}

pub(crate) struct Signer {
    client: Client,
    session: Session,
}

impl Signer {
    pub(crate) fn new(service: &Service, name: &str) -> Self {
        let mut client = connect(service);
        let session = client.open_session(&stored(pkcs1(), name)).unwrap();
        Self { client, session }
    }

    pub(crate) fn sign(&mut self) -> Result<Vec<u8>, Error> {
        self.client.call(self.session, Op::Sign, 0, b"message", 256)
    }

    pub(crate) fn sign_soon(&mut self) -> Vec<u8> {
        let end = Instant::now() + TIMEOUT;
        loop {
            match self.sign() {
                Ok(signature) => return signature,
                Err(Error::Refused(Refusal::KeyElsewhere) | Error::DeviceFailed(_)) if Instant::now() < end => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn refused_soon(&mut self) {
        until("nobody signs", || matches!(self.sign(), Err(Error::Refused(Refusal::KeyElsewhere))));
    }
}

pub(crate) fn sign_digest(digest: &[u8]) -> Vec<u8> {
    owner(&pkcs1(), RSA, Op::SignDigest, digest).unwrap()
}

pub(crate) fn let_others_in(service: &Running) {
    fs::set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn as_user<T: Send>(user: u32, does: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            does()
        });
        other.join().unwrap()
    })
}

pub(crate) fn expected() -> Vec<u8> {
    owner(&pkcs1(), RSA, Op::Sign, b"message").unwrap()
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "it never came to this: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
