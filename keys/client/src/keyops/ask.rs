//! Questions to the service about keys: a stored key by its name, a new key for this program, a public part.
//!
//! Each uses a connection of its own without a lane, closed right after: programs often load keys as root and use them
//! later as another user.

use crate::client::{Admin, ConnectError, Error, Options};
use crate::keyops::failure::{Failure, Reason};
use crate::keyops::key::{Key, Private, Public};
use crate::keyops::large_stack::on_large_stack;
use crate::keyops::reconnect::outlasted;
use crate::keyops::wait::Caller;
use crate::keys::{Kind, UsableKey, UsableKeys};
use crate::spec::Secret;
use std::time::Instant;

/// The key of this name, as far as this process may see it.
///
/// # Errors
/// No key has this name, this user may not use it, or the service does not answer.
pub fn find(options: &Options, name: &str) -> Result<Key, Failure> {
    let info = ask(options, |mut admin| admin.key_info_by(name, Instant::now() + options.timeout))?;
    Ok(Key::new(Public::from_spki(&info.public)?, Private::Stored(name.to_owned())))
}

/// The keys that this process may use. `None`: the list is that of the revision `known`.
///
/// # Errors
/// The service does not answer, or is of an older version.
pub fn list(options: &Options, known: Option<u64>) -> Result<Option<UsableKeys>, Failure> {
    ask(options, |mut admin| admin.my_keys(known))
}

/// As [`list`], with identifier and certificates of each key for which `wanted` is true: DER, those stored with it in their
/// order.
///
/// # Errors
/// As for [`list`].
pub fn list_with_certificates(
    options: &Options,
    known: Option<u64>,
    wanted: impl Fn(&UsableKey) -> bool,
) -> Result<Option<ListedKeys>, Failure> {
    ask(options, |mut admin| {
        let Some(UsableKeys { revision, keys }) = admin.my_keys(known)? else { return Ok(None) };
        let keys = keys.into_iter().filter(&wanted);
        let with = keys.map(|key| {
            let certificates = (0..key.certificates).map_while(|index| match admin.certificate(&key.name, index) {
                // It was changed in between, and so was the revision.
                Err(Error::Service(_)) => None,
                other => Some(other),
            });
            let certificates = certificates.collect::<Result<_, _>>()?;
            Ok(ListedKey { key, id: Vec::new(), certificates })
        });
        let mut keys = with.collect::<Result<Vec<_>, Error>>()?;
        // Last: the first versions of the service end the connection at a request that they do not know.
        let mut ids = admin.identifiers()?;
        for listed in &mut keys {
            listed.id = ids.remove(&listed.key.name).unwrap_or_default();
        }
        Ok(Some(ListedKeys { revision, keys }))
    })
}

/// The key of this name with its usage and the number of its certificates.
///
/// # Errors
/// As for [`find`].
pub fn usable(options: &Options, name: &str) -> Result<UsableKey, Failure> {
    ask(options, |mut admin| admin.my_key(name))
}

/// A certificate that is stored with the key of this name, DER; `index` 0 is that of the key itself.
///
/// # Errors
/// No key has this name, this user may not use it, it has no such certificate, or the service does not answer.
pub fn certificate(options: &Options, name: &str, index: u8) -> Result<Vec<u8>, Failure> {
    ask(options, |mut admin| admin.certificate(name, index))
}

/// Checks that a stored key still exists unchanged and that this process may use it. Other keys exist as long as they
/// are held.
///
/// # Errors
/// It was deleted or replaced, this user may not use it, or the service does not answer.
pub fn check(options: &Options, key: &Key) -> Result<(), Failure> {
    let Private::Stored(name) = &key.private else { return Ok(()) };
    if find(options, name)?.public == key.public { Ok(()) } else { Err(Failure::replaced(name)) }
}

/// Makes a key for this program, which stays in the service. Waits longer than the options' timeout: RSA takes
/// seconds.
///
/// # Errors
/// The program has reached its limit of keys, or the service does not answer.
pub fn make(options: &Options, kind: Kind) -> Result<Key, Failure> {
    let made = ask(options, |admin| admin.make_key(kind))?;
    Ok(Key::new(Public::from_spki(made.public())?, Private::Made(made)))
}

/// Computes the public part of a raw private key: Ed25519, X25519 or ML-DSA-65.
///
/// # Errors
/// The bytes are no such key, or the service does not answer.
pub fn public_part(options: &Options, kind: Kind, raw: &[u8]) -> Result<Public, Failure> {
    let ask_for = |mut admin: Admin| admin.public_part(kind, Secret::from(raw), Instant::now() + options.timeout);
    Public::from_spki(&ask(options, ask_for)?)
}

/// Keys with their certificates.
pub struct ListedKeys {
    /// As in [`UsableKeys`].
    pub revision: Option<u64>,
    /// In the order of names.
    pub keys: Vec<ListedKey>,
}

/// A key with what is stored with it.
pub struct ListedKey {
    /// The key.
    pub key: UsableKey,
    /// Its identifier; empty: none.
    pub id: Vec<u8>,
    /// Its certificates, in the order in which they are stored.
    pub certificates: Vec<Vec<u8>>,
}

fn ask<T>(options: &Options, question: impl Fn(Admin) -> Result<T, Error>) -> Result<T, Failure> {
    outlasted(Caller::thread(options), || on_large_stack(|| ask_once(options, &question)))
}

fn ask_once<T>(options: &Options, question: impl Fn(Admin) -> Result<T, Error>) -> Result<T, Failure> {
    let timeout = options.timeout;
    let admin = Admin::connect(options).map_err(|error| match error {
        ConnectError::NoAnswer(..) => Failure::late(timeout),
        other => other.into(),
    })?;
    question(admin).map_err(|error| match error {
        Error::Service(refused) => Failure::refused(Reason::Key, &refused),
        // Connecting used part of the timeout.
        Error::NoAnswer(waited) => Failure::late(timeout.max(waited)),
        Error::Connect(error) => error.into(),
        // It ended before its answer. The next one may answer the same question.
        Error::Gone(why) => Failure::ended(&why),
        other => Failure::new(Reason::Service, other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{RefusalCode, Refused, Reply, Request, receive, send};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_service_that_knows_no_identifiers_has_its_keys_listed() {
        // Services from before the codes said it by their texts, and the first of them ended the connection.
        let before =
            "no message of this protocol: client and service must be of one version; the service is sidecore 0.1.0";
        for (refused, ends) in
            [(Refused::new(RefusalCode::UnknownRequest, "not known"), false), (Refused::other(before), true)]
        {
            let scratch = tempfile::tempdir().unwrap();
            let path = scratch.path().join("socket");
            let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
            bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
            listen(&listener, 4).unwrap();
            let options = Options { socket: path, ..Options::default() };
            thread::scope(|scope| {
                scope.spawn(|| {
                    let one = accept(&listener).unwrap();
                    receive::<Request>(&one).unwrap();
                    send(&one, &Reply::MyKeys { revision: 7, keys: Vec::new(), more: false }, &[]).unwrap();
                    receive::<Request>(&one).unwrap();
                    send(&one, &Reply::Refused(refused), &[]).unwrap();
                    if !ends {
                        // Until the client closes it.
                        let _ = receive::<Request>(&one);
                    }
                });
                let listed = list_with_certificates(&options, None, |_| true).unwrap().unwrap();
                assert_eq!((listed.revision, listed.keys.len()), (Some(7), 0));
            });
        }
    }

    #[test]
    fn a_question_outlasts_a_service_that_ends_before_its_answer() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 4).unwrap();
        let options = Options { socket: path, restart_wait: Duration::from_secs(60), ..Options::default() };
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(receive::<Request>(accept(&listener).unwrap()).unwrap());
                let next = accept(&listener).unwrap();
                receive::<Request>(&next).unwrap();
                send(&next, &Reply::MyKeys { revision: 7, keys: Vec::new(), more: false }, &[]).unwrap();
            });
            let listed = list(&options, None).unwrap().unwrap();
            assert_eq!((listed.revision, listed.keys.len()), (Some(7), 0));
        });
    }
}
