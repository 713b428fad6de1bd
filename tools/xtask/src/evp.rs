//! `cargo xtask evp DIRECTORY`: imports those of OpenSSL's own test vectors that apply to the provider.
//!
//! DIRECTORY is `test/recipes/30-test_evp_data` of OpenSSL's source. Comments, titles and entries for OpenSSL's FIPS
//! module only are left out.

mod stanza;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::Result;
use stanza::{Stanza, stanzas};

const DATA: &str = "keys/openssl/tests/evp/data";

enum Which {
    /// Those whose keys begin with one of these.
    Keys(&'static [&'static str]),
    /// The first ones of the operation with this name, with their keys, up to this number of bytes.
    First(&'static str, usize),
}

/// A file of OpenSSL's, and the stanzas to take.
const FILES: [(&str, Which); 6] = [
    ("evppkey_rsa_common.txt", Which::Keys(&["RSA-"])),
    ("evppkey_rsa.txt", Which::Keys(&["RSA-"])),
    ("evppkey_ecdsa.txt", Which::Keys(&["P-256", "P-384"])),
    ("evppkey_ecx.txt", Which::Keys(&["Alice-25519", "Bob-25519", "ED25519-", "Wyche", "EDDSA-TV-"])),
    ("evppkey_ml_dsa_65_wycheproof_verify.txt", Which::First("Verify-Message-Public", 90_000)),
    ("evppkey_ml_kem_768_decap.txt", Which::First("Kem", 60_000)),
];

pub(crate) fn run(root: &Path, directory: &Path) -> Result<bool> {
    let version = version(directory);
    fs::create_dir_all(root.join(DATA))?;
    for (name, which) in FILES {
        let source = directory.join(name);
        let text = fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        let kept = select(stanzas(&text), &which);
        let head = format!(
            "# Selected by `cargo xtask evp` from test/recipes/30-test_evp_data/{name} of OpenSSL {version}, \
             Copyright The OpenSSL Project Authors, Apache License 2.0.\n"
        );
        let text: Vec<String> = kept.iter().map(Stanza::text).collect();
        println!("{name}: {} of {} stanzas", kept.len(), stanzas(&fs::read_to_string(&source)?).len());
        fs::write(root.join(DATA).join(name), head + "\n" + &text.join("\n"))?;
    }
    Ok(true)
}

fn version(directory: &Path) -> String {
    let file = directory.join("../../../VERSION.dat");
    let text = fs::read_to_string(file).unwrap_or_default();
    let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or("?");
    ["MAJOR", "MINOR", "PATCH"].map(number).join(".")
}

fn select(stanzas: Vec<Stanza>, which: &Which) -> Vec<Stanza> {
    let apply = stanzas.into_iter().filter(|stanza| !stanza.of_fips()).map(Stanza::plain);
    let apply: Vec<Stanza> = apply.filter(|stanza| !stanza.lines.is_empty()).collect();
    match which {
        Which::Keys(prefixes) => with_keys(apply, |key| prefixes.iter().any(|prefix| key.starts_with(prefix))),
        Which::First(operation, bytes) => first(apply, operation, *bytes),
    }
}

/// Operations with these keys, and the keys that they use.
fn with_keys(stanzas: Vec<Stanza>, wanted: impl Fn(&str) -> bool) -> Vec<Stanza> {
    let unsupported = |stanza: &Stanza| stanza.defines().is_some() && stanza.is_of(&["X448", "ED448"]);
    let foreign: BTreeSet<String> =
        stanzas.iter().filter(|stanza| unsupported(stanza)).filter_map(Stanza::defines).collect();
    let fits = |key: &str| wanted(key) && !foreign.contains(key);
    let tests = stanzas.iter().filter(|stanza| stanza.defines().is_none());
    let used: BTreeSet<String> = tests.flat_map(Stanza::uses).filter(|key| fits(key)).collect();
    let keep = |stanza: &Stanza| match stanza.defines() {
        Some(key) => used.contains(&key),
        None => !stanza.uses().is_empty() && stanza.uses().iter().all(|key| used.contains(key)),
    };
    stanzas.into_iter().filter(keep).collect()
}

fn first(stanzas: Vec<Stanza>, operation: &str, bytes: usize) -> Vec<Stanza> {
    let mut left = bytes;
    let mut kept = Vec::new();
    for stanza in stanzas {
        if stanza.defines().is_none() && stanza.first().0 != operation {
            continue;
        }
        let Some(rest) = left.checked_sub(stanza.text().len()) else { break };
        left = rest;
        kept.push(stanza);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
# A comment
Title = Keys

PrivateKey=A-1
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VuBCIEIHcHbQpzGKV9PBbBclGyZkXfTC+H68CZKrF3+6UduSwq
-----END PRIVATE KEY-----
PublicKeyRaw=B-1:X448:00

Availablein = fips
Sign = A-1
Output = 01

FIPSversion = >=3.4.0
Availablein = default
Sign = A-1
Output = 02

Derive = A-1
PeerKey = B-1

Cipher = aes-128-gcm
Key = 00
";

    fn texts(which: &Which) -> Vec<String> {
        select(stanzas(SOURCE), which).iter().map(Stanza::text).collect()
    }

    #[test]
    fn what_a_key_is_used_for_comes_with_the_key() {
        let kept = texts(&Which::Keys(&["A-", "B-"]));
        assert_eq!(kept.len(), 2, "not the foreign key, not what only FIPS does: {kept:?}");
        assert!(kept[0].starts_with("PrivateKey = A-1\n-----BEGIN"));
        assert_eq!(kept[1], "Sign = A-1\nOutput = 02\n");
    }

    #[test]
    fn no_more_is_taken_than_there_is_room() {
        assert_eq!(texts(&Which::First("Sign", 0)).len(), 0);
        assert_eq!(texts(&Which::First("Sign", 10_000)).len(), 3);
    }
}
