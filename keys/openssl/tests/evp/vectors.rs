//! OpenSSL's vectors of keys.

use crate::keys::{Entry, KeyHolder, Keys};
use crate::site::{EXCHANGE, REQUIRED, Site};
use crate::stanza::{Stanza, bytes, stanzas};
use crate::tally::{Tally, VectorError};
use sidecore_libcrypto::{Action, Failure, Half, Key, Operation};

pub(crate) fn run(site: &Site, file: &str, text: &str, tally: &mut Tally) {
    for place in [KeyHolder::Program, KeyHolder::Store] {
        let mut keys = Keys::default();
        for stanza in stanzas(text) {
            if keys.define(site, place, &stanza) {
                continue;
            }
            let vector = format!("line {}, {:?}", stanza.line, stanza.first());
            if let Some(outcome) = try_out(site, &keys, place, &stanza) {
                let set = format!("{file} {} {place}", stanza.first().0);
                tally.count(&set, &vector, stanza.get("Result"), outcome);
            }
        }
    }
}

/// `None`: the vector has no private key, and ran with the keys in the other location.
fn try_out(site: &Site, keys: &Keys, place: KeyHolder, stanza: &Stanza) -> Option<Result<(), VectorError>> {
    let (what, name) = stanza.first();
    let key = stanza.get("Key").unwrap_or(name);
    if place == KeyHolder::Store && keys.private(key.split(':').next().unwrap_or_default()).is_none() {
        return None;
    }
    Some(match what {
        "Sign" | "Verify" | "VerifyRecover" | "Decrypt" | "Derive" => direct(site, keys, stanza, what, key),
        "PrivPubKeyPair" => pair(keys, name),
        "Verify-Message-Public" => verify_message(site, keys, stanza, name),
        "Kem" => decapsulate(site, stanza, name),
        "DigestSign" | "DigestVerify" | "OneShotDigestSign" | "OneShotDigestVerify" => message(site, keys, stanza, key),
        other => panic!("an unknown test: {other}"),
    })
}

fn usable(entry: Option<&Entry>) -> Result<&Key, VectorError> {
    Ok(entry.expect("a key of the file").as_ref().map_err(Failure::clone)?)
}

fn settings(stanza: &Stanza) -> impl Iterator<Item = (&str, &str)> {
    stanza.all("Ctrl").filter_map(|setting| setting.split_once(':'))
}

fn same(found: &[u8], expected: &[u8]) -> Result<(), VectorError> {
    if found == expected { Ok(()) } else { Err(VectorError::Wrong(format!("{found:02x?} is not {expected:02x?}"))) }
}

fn direct(site: &Site, keys: &Keys, stanza: &Stanza, what: &str, key: &str) -> Result<(), VectorError> {
    let (action, entry) = match what {
        "Sign" => (Action::Sign, keys.private(key)),
        "Verify" => (Action::Verify, keys.any(key)),
        "VerifyRecover" => (Action::VerifyRecover, keys.any(key)),
        "Decrypt" => (Action::Decrypt, keys.private(key)),
        _ => (Action::Derive, keys.private(key)),
    };
    let properties = if action == Action::Derive { EXCHANGE } else { REQUIRED };
    let operation = Operation::new(&site.context, usable(entry)?, properties, action)?;
    is_ours(operation.provider().as_deref())?;
    for (name, value) in settings(stanza) {
        operation.set(name, value)?;
    }
    let (input, output) = (stanza.bytes("Input"), stanza.bytes("Output"));
    match action {
        Action::Verify => Ok(operation.verify(&output, &input)?),
        Action::Derive => {
            operation.set_peer(usable(keys.any(stanza.get("PeerKey").expect("a peer")))?)?;
            same(&operation.result(&[])?, &stanza.bytes("SharedSecret"))
        }
        _ => same(&operation.result(&input)?, &output),
    }
}

fn is_ours(provider: Option<&str>) -> Result<(), VectorError> {
    match provider {
        Some("sidecore") => Ok(()),
        other => Err(VectorError::Wrong(format!("done by {other:?}"))),
    }
}

fn pair(keys: &Keys, names: &str) -> Result<(), VectorError> {
    let (private, public) = names.split_once(':').expect("two names");
    let (private, public) = (usable(keys.private(private))?, usable(keys.any(public))?);
    if private.provider().as_deref() != Some("sidecore") {
        return Err(VectorError::NotOffered("comparing a key that OpenSSL's own code reads"));
    }
    if private.equals(public) { Ok(()) } else { Err(Failure::new("EVP_PKEY_eq", "different keys").into()) }
}

fn message(site: &Site, keys: &Keys, stanza: &Stanza, key: &str) -> Result<(), VectorError> {
    let (what, digest) = stanza.first();
    let verifies = what.ends_with("Verify");
    let entry = if verifies { keys.any(key) } else { keys.private(key) };
    let digest = Some(digest).filter(|digest| *digest != "NULL");
    let message = Operation::on_messages(&site.context, usable(entry)?, REQUIRED, digest, verifies)?;
    is_ours(message.provider().as_deref())?;
    for (name, value) in settings(stanza) {
        message.set(name, value)?;
    }
    if stanza.get("NonceType") == Some("deterministic") {
        message.set("nonce-type", "1")?;
    }
    let pieces: Vec<Vec<u8>> = stanza.all("Input").map(bytes).collect();
    let (input, output) = (pieces.concat(), stanza.bytes("Output"));
    match (what.starts_with("OneShot"), verifies) {
        (true, true) => return Ok(message.verify(&output, &input)?),
        (true, false) => return same(&message.result(&input)?, &output),
        _ => {}
    }
    for piece in pieces {
        message.update(&piece)?;
    }
    if verifies { Ok(message.check(&output)?) } else { same(&message.finish()?, &output) }
}

fn verify_message(site: &Site, keys: &Keys, stanza: &Stanza, name: &str) -> Result<(), VectorError> {
    let (_, key) = name.split_once(':').expect("algorithm and key");
    let message = Operation::on_messages(&site.context, usable(keys.any(key))?, REQUIRED, None, true)?;
    is_ours(message.provider().as_deref())?;
    for (name, value) in settings(stanza) {
        message.set(name, value)?;
    }
    Ok(message.verify(&stanza.bytes("Output"), &stanza.bytes("Input"))?)
}

fn decapsulate(site: &Site, stanza: &Stanza, kind: &str) -> Result<(), VectorError> {
    let key = Key::from_raw(&site.context, Half::Private, (kind, &stanza.bytes("EncodedPrivateKey")), EXCHANGE)?;
    let operation = Operation::new(&site.context, &key, EXCHANGE, Action::Decapsulate)?;
    is_ours(operation.provider().as_deref())?;
    same(&operation.result(&stanza.bytes("Input"))?, &stanza.bytes("Output"))
}
