//! What the service is asked about keys: it finds stored ones by their names, and so that nobody else has to, it makes keys of
//! this program and computes public parts.
//!
//! On a connection of its own without a lane, which is closed right after: who loads keys is often root, and whoever works
//! with them later is not.

use crate::client::{Admin, ConnectError, Error, Options};
use crate::face::aside::aside;
use crate::face::failure::{Failure, Reason};
use crate::face::key::{Key, Private, Public};
use crate::keys::Kind;
use crate::spec::Secret;
use std::time::Instant;

/// The key of this name, as far as this process may know it.
///
/// # Errors
/// There is none, this user may not use it, or the service does not answer.
pub fn find(options: &Options, name: &str) -> Result<Key, Failure> {
    let deadline = Instant::now() + options.patience;
    let info = aside(|| connect(options)?.key_info_by(name, deadline).map_err(|error| told(options, error)))?;
    Ok(Key::new(Public::from_spki(&info.public)?, Private::Stored(name.to_owned())))
}

/// A new key of this program, which stays in the service. It is waited for, beyond the options' patience: RSA takes seconds.
///
/// # Errors
/// The program has as many as it may have, or the service does not answer.
pub fn make(options: &Options, kind: Kind) -> Result<Key, Failure> {
    let made = aside(|| {
        connect(options)?.make_key(kind).map_err(|error| match error {
            Error::NoAnswer(waited) => Failure::late(waited),
            other => told(options, other),
        })
    })?;
    Ok(Key::new(Public::from_spki(made.public())?, Private::Made(made)))
}

/// The public part of a raw private key: Ed25519, X25519 or ML-DSA-65.
///
/// # Errors
/// It is no such key, or the service does not answer.
pub fn public_part(options: &Options, kind: Kind, raw: &[u8]) -> Result<Public, Failure> {
    let (raw, deadline) = (Secret::from(raw), Instant::now() + options.patience);
    let spki = aside(|| connect(options)?.public_part(kind, raw, deadline).map_err(|error| told(options, error)))?;
    Public::from_spki(&spki)
}

/// A connection without a lane.
fn connect(options: &Options) -> Result<Admin, Failure> {
    Admin::connect(options).map_err(|error| match error {
        ConnectError::NoAnswer(..) => Failure::late(options.patience),
        other => Failure::new(Reason::Service, other.to_string()),
    })
}

/// Why a question had no answer.
fn told(options: &Options, error: Error) -> Failure {
    match error {
        Error::Service(reason) => Failure::new(Reason::Key, reason),
        Error::NoAnswer(_) => Failure::late(options.patience),
        other => Failure::new(Reason::Service, other.to_string()),
    }
}
