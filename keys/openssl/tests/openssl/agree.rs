//! Secrets that stored EC keys share with peers of OpenSSL's own code.

use crate::common::Site;
use crate::tls::Server;
use sidecore::core::session::Op;
use sidecore_counters::{ClassCounter, Snapshot, counters_beside};
use std::fs;

const CURVES: [(&str, &str); 3] = [("p256", "P-256"), ("p384", "P-384"), ("p521", "P-521")];

#[test]
fn both_ends_derive_the_same_secret_and_the_same_key() {
    let site = Site::with(&CURVES.map(|(key, _)| key));
    for (key, curve) in CURVES {
        site.plain(&["genpkey", "-algorithm", "EC", "-pkeyopt", &format!("group:{curve}"), "-out", "peer"]);
        site.plain(&["pkey", "-in", "peer", "-pubout", "-out", "peer.pub"]);
        let compressed = ["ec", "-in", "peer", "-pubout", "-conv_form", "compressed", "-out", "peer.compressed"];
        site.plain(&compressed);
        let (ours, public) = (format!("{key}.pem"), format!("{key}.pub"));
        let kdf = ["-pkeyopt", "kdf-type:X963KDF", "-pkeyopt", "kdf-digest:sha256", "-pkeyopt", "kdf-outlen:100"];
        let with_shared = [&kdf[..], &["-pkeyopt", "hexkdf-ukm:0102030405"]].concat();
        let cofactor: &[&str] = &["-pkeyopt", "ecdh_cofactor_mode:1"];
        for options in [&[][..], cofactor, &kdf, &with_shared] {
            let derive = |inkey, peer, out| {
                [&["pkeyutl", "-derive", "-inkey", inkey, "-peerkey", peer, "-out", out], options].concat()
            };
            site.plain(&derive("peer", &public, "theirs"));
            for peer in ["peer.pub", "peer.compressed"] {
                site.ok(&derive(&ours, peer, "ours"));
                assert_eq!(fs::read(site.path("ours")).unwrap(), fs::read(site.path("theirs")).unwrap(), "{options:?}");
            }
        }
    }
    // p521.pem with a point of another curve.
    site.plain(&["genpkey", "-algorithm", "EC", "-pkeyopt", "group:P-256", "-out", "peer"]);
    site.plain(&["pkey", "-in", "peer", "-pubout", "-out", "peer.pub"]);
    let _ = site.fails(&["pkeyutl", "-derive", "-inkey", "p521.pem", "-peerkey", "peer.pub"]);
    let told =
        site.fails(&["pkeyutl", "-derive", "-inkey", "p256.pem", "-peerkey", "peer.pub", "-pkeyopt", "kdf-type:HKDF"]);
    assert!(told.contains("use X963KDF"), "{told}");
}

#[test]
fn mail_to_ec_keys_is_decrypted() {
    let site = Site::with(&["p256", "p384", "p521", "rsa2048"]);
    for (key, _) in CURVES.into_iter().chain([("rsa2048", "")]) {
        let (file, certificate) = (format!("{key}.pem"), format!("{key}.crt"));
        site.ok(&["req", "-x509", "-new", "-key", &file, "-subj", &format!("/CN={key}"), "-out", &certificate]);
    }
    let hashed = ["-keyopt", "ecdh_kdf_md:sha256"];
    let cofactor = ["-keyopt", "ecdh_kdf_md:sha384", "-keyopt", "ecdh_cofactor_mode:1"];
    for (key, _) in CURVES {
        let (file, certificate) = (format!("{key}.pem"), format!("{key}.crt"));
        for options in [&[][..], &hashed, &cofactor] {
            let encrypt = ["cms", "-encrypt", "-aes256", "-in", "message", "-out", "cipher", "-recip", &certificate];
            site.plain(&[&encrypt[..], options].concat());
            for decrypt in [&["-inkey", &file, "-recip", &certificate][..], &["-inkey", &file]] {
                let said = site.ok(&[&["cms", "-decrypt", "-in", "cipher"], decrypt].concat());
                assert!(said.out.contains("a message to sign"), "{key} {options:?} {decrypt:?}");
            }
        }
    }
    // One message for several recipients.
    let all = ["p384.crt", "rsa2048.crt", "p256.crt"];
    let encrypt = ["cms", "-encrypt", "-aes256", "-in", "message", "-out", "cipher"];
    site.plain(&[&encrypt[..], &all].concat());
    for key in ["p384", "rsa2048", "p256"] {
        let (file, certificate) = (format!("{key}.pem"), format!("{key}.crt"));
        let said = site.ok(&["cms", "-decrypt", "-in", "cipher", "-inkey", &file, "-recip", &certificate]);
        assert!(said.out.contains("a message to sign"), "{key}");
    }
}

#[test]
fn the_secrets_of_handshakes_do_not_come_here() {
    let site = Site::with(&["p256"]);
    let mut server = Server::start(&site, "p256", &[]);
    site.plain(&server.connect(&["-groups", "P-256:P-384:P-521"]));
    // A program that prefers the provider for its keys: X25519 works, and no secret on a curve is requested here.
    server = Server::configured(&site, "p256", &[], "preferred.cnf");
    site.plain(&server.connect(&["-groups", "X25519"]));
    site.plain_fails(&server.connect(&["-groups", "P-256"]));
    site.preferred(&server.connect(&[]));
    let snapshot = Snapshot::read(&counters_beside(&site.path("socket"))).unwrap();
    let derived = snapshot.classes.iter().filter(|class| class.class.op() == Op::Derive);
    assert_eq!(derived.map(|class| class.get(ClassCounter::Requests)).sum::<u64>(), 0);
}
