//! OpenSSL's vectors of ciphers and digests, as its own test program runs them: whole and in pieces, through copies of
//! contexts. And who gets these algorithms.

use crate::ffi::{Cipher, Digest, fetched_from};
use crate::site::{BULK, PREFERRED, Site};
use crate::stanza::{Stanza, bytes, stanzas};
use crate::tally::{Tally, Trouble};

/// Runs a file of vectors.
pub(crate) fn run(site: &Site, file: &str, text: &str, tally: &mut Tally) {
    for stanza in stanzas(text) {
        let (what, name) = stanza.first();
        let set = format!("{file} {}", name.to_uppercase());
        let vector = format!("line {}", stanza.line);
        if what == "Digest" {
            tally.count(&set, &vector, stanza.get("Result"), digest(site, &stanza, name));
            continue;
        }
        let operation = stanza.get("Operation");
        for encrypts in [true, false] {
            if operation == Some(if encrypts { "DECRYPT" } else { "ENCRYPT" }) {
                continue;
            }
            for in_pieces in [false, true] {
                let outcome = cipher(site, &stanza, name, encrypts, in_pieces);
                tally.count(&set, &format!("{vector} {encrypts} {in_pieces}"), stanza.get("Result"), outcome);
            }
        }
    }
}

fn same(found: &[u8], expected: &[u8]) -> Result<(), Trouble> {
    if found == expected { Ok(()) } else { Err(Trouble::Wrong(format!("{found:02x?} is not {expected:02x?}"))) }
}

fn digest(site: &Site, stanza: &Stanza, name: &str) -> Result<(), Trouble> {
    let digest = Digest::new(&site.context, name, BULK)?;
    let mut piece = Vec::new();
    let mut repeats = 0;
    let give = |piece: &[u8], times: usize| (0..times).try_for_each(|_| digest.update(piece));
    for (name, value) in stanza.rest() {
        match name {
            "Input" => {
                give(&piece, repeats)?;
                (piece, repeats) = (bytes(value), 1);
            }
            "Count" => repeats = value.parse().expect("a number"),
            "Ncopy" => piece = piece.repeat(value.parse().expect("a number")),
            _ => {}
        }
    }
    give(&piece, repeats)?;
    let expected = stanza.bytes("Output");
    same(&digest.finish_copy()?, &expected)?;
    same(&digest.finish()?, &expected)
}

fn cipher(site: &Site, stanza: &Stanza, name: &str, encrypts: bool, in_pieces: bool) -> Result<(), Trouble> {
    let (key, iv, tag) = (stanza.bytes("Key"), stanza.bytes("IV"), stanza.get("Tag").map(bytes));
    let (plaintext, ciphertext) = (stanza.bytes("Plaintext"), stanza.bytes("Ciphertext"));
    let (input, expected) = if encrypts { (plaintext, ciphertext) } else { (ciphertext, plaintext) };
    let cipher = Cipher::new(&site.context, name, BULK, encrypts)?;
    if tag.is_some() {
        cipher.set_iv_len(iv.len())?;
    }
    if let Some(tag) = tag.as_ref().filter(|_| !encrypts) {
        cipher.set_tag(tag)?;
    }
    cipher.start(Some(&key), Some(&iv))?;
    let cipher = cipher.copy()?;
    for data in stanza.all("AAD").map(bytes) {
        in_turn(&data, in_pieces, |piece| cipher.associate(piece).map(|()| Vec::new()))?;
    }
    cipher.set_padding(false)?;
    let mut output = in_turn(&input, in_pieces, |piece| cipher.update(piece))?;
    output.extend(cipher.finish()?);
    same(&output, &expected)?;
    if let Some(tag) = tag.filter(|_| encrypts) {
        same(&cipher.tag(tag.len())?, &tag)?;
    }
    match stanza.get("NextIV").map(bytes) {
        Some(next) if stanza.get("Tag").is_none() => same(&cipher.next_iv()?, &next),
        _ => Ok(()),
    }
}

/// In one piece, or in three: the first and the last are a byte.
fn in_turn<E>(data: &[u8], in_pieces: bool, mut give: impl FnMut(&[u8]) -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
    let (first, rest) = data.split_at(if in_pieces { data.len().min(1) } else { data.len() });
    let (middle, last) = rest.split_at(rest.len().saturating_sub(1));
    let mut all = Vec::new();
    for piece in [first, middle, last].into_iter().filter(|piece| !piece.is_empty()) {
        all.extend(give(piece)?);
    }
    Ok(all)
}

#[test]
fn padding_is_added_and_removed() {
    let site = Site::start();
    for len in [0, 1, 15, 16, 17, 32, 40_000] {
        let text: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let through = |properties, encrypts, input: &[u8]| {
            let cipher = Cipher::new(&site.context, "AES-256-CBC", properties, encrypts)?;
            cipher.start(Some(&[3; 32]), Some(&[4; 16]))?;
            let mut output = in_turn(input, true, |piece| cipher.update(piece))?;
            output.extend(cipher.finish()?);
            Ok::<_, crate::ffi::Error>(output)
        };
        let ours = through(BULK, true, &text).unwrap();
        assert_eq!(ours, through("provider=default", true, &text).unwrap(), "{len}");
        assert_eq!(through(BULK, false, &ours).unwrap(), text, "{len}");
        assert!(through(BULK, false, &ours[..ours.len() - 1]).is_err());
    }
}

/// Through counters that wrap, in pieces larger than one request.
#[test]
fn long_messages_are_those_of_openssls_own_code() {
    let site = Site::start();
    let text: Vec<u8> = (0..100_003).map(|at| (at % 251) as u8).collect();
    for (name, key, iv) in [
        ("AES-128-CTR", &[5; 16][..], &[255; 16][..]),
        ("AES-256-CTR", &[5; 32], &[9; 16]),
        ("AES-128-GCM", &[5; 16], &[9; 12]),
        ("AES-256-GCM", &[5; 32], &[7; 33]),
        ("ChaCha20-Poly1305", &[5; 32], &[9; 12]),
    ] {
        let through = |properties| {
            let cipher = Cipher::new(&site.context, name, properties, true).unwrap();
            let tagged = !name.ends_with("CTR");
            if tagged {
                cipher.set_iv_len(iv.len()).unwrap();
            }
            cipher.start(Some(key), Some(iv)).unwrap();
            let output = in_turn(&text, true, |piece| cipher.update(piece)).unwrap();
            cipher.finish().unwrap();
            (output, tagged.then(|| cipher.tag(16).unwrap()))
        };
        assert!(through(BULK) == through("provider=default"), "{name}");
    }
    for name in ["SHA256", "SHA384", "SHA512"] {
        let through = |properties| {
            let digest = Digest::new(&site.context, name, properties).unwrap();
            in_turn(&text, true, |piece| digest.update(piece).map(|()| Vec::new())).unwrap();
            digest.finish().unwrap()
        };
        assert_eq!(through(BULK), through("provider=default"), "{name}");
    }
}

/// Begun again without an initialisation vector, with the same key or another.
#[test]
fn messages_go_on_as_with_openssls_own_code() {
    let site = Site::start();
    for name in ["AES-256-CTR", "AES-256-CBC"] {
        for key in [None, Some(&[6; 32][..])] {
            for len in [1, 15, 16, 17, 32, 33] {
                let through = |properties| {
                    let cipher = Cipher::new(&site.context, name, properties, true).unwrap();
                    cipher.start(Some(&[5; 32]), Some(&[255; 16])).unwrap();
                    let mut output = cipher.update(&vec![0; len]).unwrap();
                    cipher.start(key, None).unwrap();
                    output.extend(cipher.update(&[0; 40]).unwrap());
                    output
                };
                assert_eq!(through(BULK), through("provider=default"), "{name} {len}");
            }
        }
    }
    for name in ["AES-256-GCM", "ChaCha20-Poly1305"] {
        let cipher = Cipher::new(&site.context, name, BULK, true).unwrap();
        cipher.start(Some(&[5; 32]), Some(&[9; 12])).unwrap();
        cipher.update(&[0; 40]).unwrap();
        cipher.start(Some(&[5; 32]), None).unwrap();
        assert!(cipher.update(&[0; 40]).is_err(), "{name}");
    }
}

#[test]
fn bulk_work_moves_only_where_it_is_asked_for() {
    let algorithms = [("AES-256-GCM", true), ("AES-128-CBC", true), ("ChaCha20-Poly1305", true), ("SHA256", false)];
    // The default provider stands first, as in openssl-sidecore.cnf: of equals OpenSSL takes the first.
    for default_properties in [None, Some(PREFERRED)] {
        let site = Site::with(&["default", "sidecore"], default_properties);
        for (name, is_cipher) in algorithms {
            let from = |properties| fetched_from(&site.context, name, properties, is_cipher);
            assert_eq!(from(None).as_deref(), Some("default"), "{name} {default_properties:?}");
            assert_eq!(from(Some(PREFERRED)).as_deref(), Some("default"), "{name}");
            assert_eq!(from(Some(BULK)).as_deref(), Some("sidecore"), "{name}");
            assert_eq!(from(Some("provider=sidecore")), None, "{name}");
        }
    }
}
