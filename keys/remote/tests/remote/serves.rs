//! Operations on remote keys.

use super::site::{Site, User, pkcs1};
use rustix::process::Signal;
use sidecore::core::session::Op;
use sidecore::keys::Kind;
use sidecore::spec::{DecryptionPadding, Hash, SaltLength, Scheme, SignaturePadding};
use sidecore_testing::nats::Server;

#[test]
fn a_key_that_is_only_on_another_machine_signs_as_there() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = (Site::near(), Site::far());
    near.knows("www.example.org", &far.make("www.example.org", Kind::Rsa2048));
    let _gateway = near.gateway(&nats.url());
    let mut key_server = far.key_server(&nats.url(), "one");
    let mut user = User::new(&near, "www.example.org", pkcs1());
    let signature = user.call_soon(Op::Sign, b"message");
    let mut there = User::new(&far, "www.example.org", pkcs1());
    assert_eq!(signature, there.call(Op::Sign, b"message").unwrap());
    for _ in 0..20 {
        assert_eq!(user.call(Op::Sign, b"message").unwrap(), signature);
    }
    // A key server that receives SIGTERM announces its end.
    key_server.signal(Signal::TERM);
    assert_eq!(key_server.ended(), Some(0));
    user.refused_soon(Op::Sign, b"message");
}

#[test]
fn every_operation_with_a_private_key_is_done_elsewhere() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = (Site::near(), Site::far());
    let kinds = [
        ("rsa", Kind::Rsa2048),
        ("p256", Kind::P256),
        ("p384", Kind::P384),
        ("ed25519", Kind::Ed25519),
        ("x25519", Kind::X25519),
        ("ml-dsa", Kind::MlDsa65),
    ];
    for (name, kind) in kinds {
        near.knows(name, &far.make(name, kind));
    }
    let _gateway = near.gateway(&nats.url());
    let _key_server = far.key_server(&nats.url(), "one");
    let pss = SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Digest };
    let digest = [7; 32];
    let signatures = [
        ("rsa", Scheme::RsaSignature { padding: pss, hash: Hash::Sha256 }, Op::SignDigest),
        ("p256", Scheme::EcdsaRaw, Op::SignDigest),
        ("p384", Scheme::Ecdsa { hash: Hash::Sha384 }, Op::Sign),
        ("ed25519", Scheme::Ed25519, Op::Sign),
        ("ml-dsa", Scheme::MlDsa65, Op::Sign),
    ];
    for (name, scheme, op) in signatures {
        let signature = User::new(&near, name, scheme.clone()).call_soon(op, &digest);
        let signed = match op {
            Op::Sign => digest.to_vec(),
            // The test verifies messages; a digest's verification is left to the peer.
            _ => continue,
        };
        let mut there = User::new(&far, name, scheme);
        let input = [signature.as_slice(), &signed].concat();
        let head = u32::try_from(signature.len()).unwrap();
        there.client.call(there.session, Op::Verify, head, &input, 0).unwrap();
    }
    let peer = [9; 32];
    let [shared, same] =
        [&near, &far].map(|site| User::new(site, "x25519", Scheme::X25519).call_soon(Op::Derive, &peer));
    assert_eq!(shared, same);
    // PKCS#1 with implicit rejection turns an invalid ciphertext into a plaintext that the key alone determines.
    let scheme = || Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 };
    let [plain, same] = [&near, &far].map(|site| User::new(site, "rsa", scheme()).call_soon(Op::Decrypt, &[7; 256]));
    assert_eq!(plain, same);
    // A refusal by the far service is passed on.
    let text = User::new(&near, "x25519", Scheme::X25519).call(Op::Derive, &[0; 32]).unwrap_err().to_string();
    assert!(text.contains("did not verify"), "{text}");
}
