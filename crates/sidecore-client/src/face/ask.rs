//! What the service is asked about keys: for a stored one by its name, for a new one of this program, for a public part.
//!
//! On a connection of its own without a lane, which is closed right after: who loads keys is often root, and whoever works
//! with them later is not.

use crate::client::{Admin, ConnectError, Error, Options};
use crate::face::absence::outlasted;
use crate::face::aside::aside;
use crate::face::failure::{Failure, Reason};
use crate::face::key::{Key, Private, Public};
use crate::face::pause::Caller;
use crate::keys::Kind;
use crate::spec::Secret;
use std::time::Instant;

/// The key of this name, as far as this process may know it.
///
/// # Errors
/// There is none, this user may not use it, or the service does not answer.
pub fn find(options: &Options, name: &str) -> Result<Key, Failure> {
    let info = ask(options, |mut admin| admin.key_info_by(name, Instant::now() + options.patience))?;
    Ok(Key::new(Public::from_spki(&info.public)?, Private::Stored(name.to_owned())))
}

/// Whether the service has a stored key still, and this process may use it. Any other key is there as long as it is held.
///
/// # Errors
/// It was deleted or replaced, this user may not use it, or the service does not answer.
pub fn check(options: &Options, key: &Key) -> Result<(), Failure> {
    let Private::Stored(name) = &key.private else { return Ok(()) };
    if find(options, name)?.public == key.public { Ok(()) } else { Err(Failure::replaced(name)) }
}

/// A new key of this program, which stays in the service. It is waited for, beyond the options' patience: RSA takes seconds.
///
/// # Errors
/// The program has as many as it may have, or the service does not answer.
pub fn make(options: &Options, kind: Kind) -> Result<Key, Failure> {
    let made = ask(options, |admin| admin.make_key(kind))?;
    Ok(Key::new(Public::from_spki(made.public())?, Private::Made(made)))
}

/// The public part of a raw private key: Ed25519, X25519 or ML-DSA-65.
///
/// # Errors
/// It is no such key, or the service does not answer.
pub fn public_part(options: &Options, kind: Kind, raw: &[u8]) -> Result<Public, Failure> {
    let ask_for = |mut admin: Admin| admin.public_part(kind, Secret::from(raw), Instant::now() + options.patience);
    Public::from_spki(&ask(options, ask_for)?)
}

/// Connects and asks, and again while no service is there.
fn ask<T>(options: &Options, question: impl Fn(Admin) -> Result<T, Error>) -> Result<T, Failure> {
    outlasted(Caller::thread(options), || aside(|| ask_once(options, &question)))
}

fn ask_once<T>(options: &Options, question: impl Fn(Admin) -> Result<T, Error>) -> Result<T, Failure> {
    let patience = options.patience;
    let admin = Admin::connect(options).map_err(|error| match error {
        ConnectError::NoAnswer(..) => Failure::late(patience),
        other => other.into(),
    })?;
    question(admin).map_err(|error| match error {
        Error::Service(refused) => Failure::refused(Reason::Key, &refused),
        // Of the patience, connecting took its part.
        Error::NoAnswer(waited) => Failure::late(patience.max(waited)),
        Error::Connect(error) => error.into(),
        other => Failure::new(Reason::Service, other.to_string()),
    })
}
