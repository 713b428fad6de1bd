//! What the service does with keys of this program so that nobody else has to: it makes them, and computes public parts.

use super::find::{connect, told};
use crate::client::{Error, Options};
use crate::face::aside::aside;
use crate::face::failure::Failure;
use crate::face::key::{Key, Private, Public};
use crate::keys::Kind;
use crate::spec::Secret;
use std::time::Instant;

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
