//! Parameters of a signature: accepted and refused ones.

use super::{Context, Message, Signing};
use crate::algorithm_id::algorithm_id;
use crate::ffi::context::Settable;
use crate::ffi::params::{Answer, BYTES, INTEGER, Param, Params, Questions, TEXT, UNSIGNED, Value, params};
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::sign::{Padding, Salt};
use std::ffi::CString;

pub(super) const RSA: &[Param] = params! {
    TEXT: c"digest", c"properties", c"pad-mode", c"saltlen", c"mgf1-digest", c"mgf1-properties";
    INTEGER: c"pad-mode", c"saltlen";
};
pub(super) const ECDSA: &[Param] = params! {
    TEXT: c"digest", c"properties";
    UNSIGNED: c"digest-size", c"nonce-type", c"kat";
};
/// Of algorithms whose name determines the digest.
pub(super) const FIXED: &[Param] = params! {
    BYTES: c"signature";
};
pub(super) const ED25519: &[Param] = params! {
    TEXT: c"instance";
    BYTES: c"context-string", c"signature";
};
pub(super) const ML_DSA: &[Param] = params! {
    BYTES: c"context-string", c"test-entropy", c"signature";
    INTEGER: c"message-encoding", c"deterministic", c"mu";
};

impl Settable for Signing {
    const SETTABLE: &'static [Param] = RSA;

    const GETTABLE: &'static [Param] = params! {
        BYTES: c"algorithm-id";
        TEXT: c"digest", c"pad-mode", c"saltlen", c"mgf1-digest";
        UNSIGNED: c"digest-size";
    };

    fn settable(&self) -> &'static [Param] {
        self.variant.settable
    }

    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure> {
        check_unchangeable(params, self.verifies)?;
        if let Some(name) = params.text(c"digest") {
            if matches!(self.message, Message::Hashed(_)) && self.settings.digest != Digest::from_name(name) {
                return Err(Failure::input("the digest cannot change after the message has begun"));
            }
            self.settings.digest = if name.is_empty() { None } else { Some(digest(name)?) };
        }
        if let Some(size) = params.integer(c"digest-size") {
            let digest = self.settings.digest.and_then(|digest| i64::try_from(digest.size()).ok());
            if digest != Some(size) {
                return Err(Failure::unsupported("a size of digests without one of that size: set the digest alone"));
            }
        }
        if let Some(mode) = params.get(c"pad-mode") {
            self.settings.padding = padding(mode)?;
        }
        if let Some(length) = params.get(c"saltlen") {
            if self.settings.padding != Padding::Pss {
                return Err(Failure::input("a salt length goes with PSS: set the padding first"));
            }
            self.settings.salt = salt(length)?;
        }
        if let Some(name) = params.text(c"mgf1-digest") {
            if self.settings.padding != Padding::Pss {
                return Err(Failure::input("a digest for MGF1 goes with PSS: set the padding first"));
            }
            self.settings.mgf1 = Some(digest(name)?);
        }
        if let Some(signature) = params.bytes(c"signature") {
            self.signature = signature.to_vec();
        }
        Ok(true)
    }

    fn answer(context: &Context, questions: &mut Questions<'_>) -> Result<bool, Failure> {
        let settings = &context.work.settings;
        let asked = questions.asks(c"algorithm-id");
        let id = if asked { algorithm_id(context.key()?, settings)? } else { Vec::new() };
        let digest = settings.digest;
        let padding = match settings.padding {
            Padding::Pkcs1 => Answer::Either(1, c"pkcs1"),
            Padding::Pss => Answer::Either(6, c"pss"),
        };
        let (number, text) = match settings.salt {
            Salt::Digest => (-1, c"digest".to_owned()),
            Salt::Auto => (-2, c"auto".to_owned()),
            Salt::Max => (-3, c"max".to_owned()),
            Salt::AutoDigestMax => (-4, c"auto-digestmax".to_owned()),
            Salt::Bytes(bytes) => (i32::from(bytes), CString::new(bytes.to_string()).unwrap_or_default()),
        };
        let fit = questions.answer([
            (c"algorithm-id", Answer::Bytes(&id)),
            (c"digest", Answer::Text(digest.map_or(c"", Digest::name))),
            (c"digest-size", Answer::Length(digest.map_or(0, Digest::size))),
            (c"mgf1-digest", Answer::Text(settings.mgf1.or(digest).map_or(c"", Digest::name))),
            (c"pad-mode", padding),
            (c"saltlen", Answer::Either(number, &text)),
        ]);
        let misfit = || Failure::input("a parameter was asked for in another type, or without room for it");
        fit.then_some(true).ok_or_else(misfit)
    }
}

pub(super) fn digest(name: &str) -> Result<Digest, Failure> {
    Digest::from_name(name)
        .ok_or_else(|| Failure::unsupported(format!("the digest {name}: use SHA-1, SHA-2, SHA-3 or MD5-SHA1")))
}

/// Refuses choices that do not exist here: Ed25519 has no context; ML-DSA is pure, hedged and has an empty context;
/// nonces are random; digests are this library's own.
fn check_unchangeable(params: Params<'_>, verifies: bool) -> Result<(), Failure> {
    let other_than = |name, usual| params.integer(name).is_some_and(|number| number != usual);
    let wrong = if params.bytes(c"context-string").is_some_and(|context| !context.is_empty()) {
        "signatures with a context string: leave it out"
    } else if other_than(c"message-encoding", 1) {
        "signatures of messages that are encoded already: give the message itself"
    } else if other_than(c"mu", 0) {
        "signatures of a message representative (mu): give the message itself"
    } else if !verifies && other_than(c"deterministic", 0) || params.bytes(c"test-entropy").is_some() {
        "deterministic signatures: leave the setting out"
    } else if other_than(c"nonce-type", 0) || other_than(c"kat", 0) {
        "ECDSA with a nonce that is not random: leave the setting out"
    } else if [c"properties", c"mgf1-properties"]
        .iter()
        .any(|name| params.text(name).is_some_and(|text| !text.is_empty()))
    {
        "digests with properties: leave them out"
    } else if params.text(c"instance").is_some_and(|name| !name.eq_ignore_ascii_case("Ed25519")) {
        "this instance of EdDSA: use Ed25519"
    } else {
        return Ok(());
    };
    Err(Failure::unsupported(wrong))
}

fn padding(mode: Value<'_>) -> Result<Padding, Failure> {
    match mode {
        Value::Integer(1) | Value::Text("pkcs1") => Ok(Padding::Pkcs1),
        Value::Integer(6) | Value::Text("pss") => Ok(Padding::Pss),
        _ => Err(Failure::unsupported("this padding of RSA signatures: use pkcs1 or pss")),
    }
}

fn salt(length: Value<'_>) -> Result<Salt, Failure> {
    let number = match length {
        Value::Text("digest") => -1,
        Value::Text("auto") => -2,
        Value::Text("max") => -3,
        Value::Text("auto-digestmax") => -4,
        Value::Text(text) => text.trim().parse().unwrap_or(i64::MIN),
        Value::Integer(number) => number,
        _ => i64::MIN,
    };
    match number {
        -1 => Ok(Salt::Digest),
        -2 => Ok(Salt::Auto),
        -3 => Ok(Salt::Max),
        -4 => Ok(Salt::AutoDigestMax),
        _ => u16::try_from(number).map(Salt::Bytes).map_err(|_| {
            Failure::input("this length of a PSS salt: use digest, max, auto, auto-digestmax or a number of bytes")
        }),
    }
}
