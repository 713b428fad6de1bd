//! Signatures by the service, verified by OpenSSL's own code.

use crate::common::Site;

/// Signs a digest and checks the signature with OpenSSL's own code and with the provider.
fn digest(site: &Site, key: &str, hash: &str, options: &[&str]) {
    let options: Vec<&str> = options.iter().flat_map(|option| ["-pkeyopt", option]).collect();
    site.plain(&["dgst", hash, "-binary", "-out", "digest", "message"]);
    let sign = ["pkeyutl", "-sign", "-inkey", key, "-in", "digest", "-out", "signature"];
    site.ok(&[&sign[..], &options].concat());
    let public = key.replace(".pem", ".pub");
    let check = ["pkeyutl", "-verify", "-pubin", "-inkey", &public, "-in", "digest", "-sigfile", "signature"];
    site.plain(&[&check[..], &options].concat());
    let check = ["pkeyutl", "-verify", "-inkey", key, "-in", "digest", "-sigfile", "signature"];
    site.ok(&[&check[..], &options].concat());
    let spoilt = ["pkeyutl", "-verify", "-inkey", key, "-in", "digest", "-sigfile", "message"];
    let _ = site.fails(&[&spoilt[..], &options].concat());
}

#[test]
fn digests_are_signed_from_the_key_file() {
    let site = Site::with(&["rsa2048", "rsa8192", "p256", "p384", "p521"]);
    for key in ["rsa2048.pem", "rsa8192.pem", "p256.pem", "p384.pem", "p521.pem"] {
        for hash in ["sha1", "sha224", "sha256", "sha384", "sha512", "sha512-224", "sha512-256", "sha3-256"] {
            digest(&site, key, &format!("-{hash}"), &[&format!("digest:{hash}")]);
        }
    }
}

#[test]
fn pss_has_every_salt_that_openssl_knows() {
    let site = Site::with(&["rsa2048"]);
    let pss = "rsa_padding_mode:pss";
    for salt in ["digest", "max", "auto", "0", "20", "190"] {
        for hash in ["sha224", "sha256", "sha384", "sha512", "sha512-224", "sha512-256"] {
            let (digest_option, salt_option) = (format!("digest:{hash}"), format!("rsa_pss_saltlen:{salt}"));
            digest(&site, "rsa2048.pem", &format!("-{hash}"), &[&digest_option, pss, &salt_option]);
        }
    }
    let mgf1 = ["digest:sha256", pss, "rsa_pss_saltlen:digest", "rsa_mgf1_md:sha384"];
    digest(&site, "rsa2048.pem", "-sha256", &mgf1);
    let short = ["pkeyutl", "-sign", "-inkey", "rsa2048.pem", "-in", "digest", "-pkeyopt", "digest:sha256"];
    let told = site.fails(&[&short[..], &["-pkeyopt", pss, "-pkeyopt", "rsa_pss_saltlen:223"]].concat());
    assert!(told.contains("at most 222"), "{told}");
}

#[test]
fn what_is_no_digest_is_signed_as_it_is() {
    let site = Site::with(&["rsa2048"]);
    let sign = ["pkeyutl", "-sign", "-inkey", "rsa2048.pem", "-in", "message", "-out", "signature"];
    site.ok(&sign);
    site.plain(&["pkeyutl", "-verify", "-pubin", "-inkey", "rsa2048.pub", "-in", "message", "-sigfile", "signature"]);
}

#[test]
fn ecdsa_takes_digests_of_any_length() {
    let site = Site::with(&["p256", "p521"]);
    for key in ["p256", "p521"] {
        for len in [0, 1, 19, 20, 33, 63, 64] {
            std::fs::write(site.path("digest"), vec![0xa5; len]).unwrap();
            let (private, public) = (format!("{key}.pem"), format!("{key}.pub"));
            site.ok(&["pkeyutl", "-sign", "-inkey", &private, "-in", "digest", "-out", "signature"]);
            let check = ["pkeyutl", "-verify", "-in", "digest", "-sigfile", "signature", "-inkey"];
            site.plain(&[&check[..], &[&public, "-pubin"]].concat());
            site.ok(&[&check[..], &[&private]].concat());
        }
    }
}

#[test]
fn messages_are_signed_in_pieces_and_at_once() {
    let site = Site::with(&["rsa3072", "p256", "ed25519"]);
    std::fs::write(site.path("large"), vec![0xa5; 3_000_000]).unwrap();
    for key in ["rsa3072", "p256"] {
        let (private, public) = (format!("{key}.pem"), format!("{key}.pub"));
        site.ok(&["dgst", "-sha256", "-sign", &private, "-out", "signature", "large"]);
        site.plain(&["dgst", "-sha256", "-verify", &public, "-signature", "signature", "large"]);
        site.ok(&["dgst", "-sha256", "-prverify", &private, "-signature", "signature", "large"]);
    }
    // Ed25519 takes the message itself; one of these is larger than a lane's arena.
    for len in [1, 40_000, 130_000] {
        std::fs::write(site.path("whole"), vec![0xa5; len]).unwrap();
        site.ok(&["pkeyutl", "-sign", "-rawin", "-inkey", "ed25519.pem", "-in", "whole", "-out", "signature"]);
        let check = ["pkeyutl", "-verify", "-rawin", "-in", "whole", "-sigfile", "signature"];
        site.plain(&[&check[..], &["-pubin", "-inkey", "ed25519.pub"]].concat());
        site.ok(&[&check[..], &["-inkey", "ed25519.pem"]].concat());
    }
    std::fs::write(site.path("whole"), vec![0xa5; 200_000]).unwrap();
    let told = site.fails(&["pkeyutl", "-sign", "-rawin", "-inkey", "ed25519.pem", "-in", "whole"]);
    assert!(told.contains("max_request_bytes"), "{told}");
}

#[test]
fn certificates_and_requests_are_signed() {
    let keys = ["rsa2048", "rsa8192", "p256", "p384", "p521", "ed25519"];
    let site = Site::with(&keys);
    for key in keys {
        let uri = format!("sidecore:{key}");
        site.ok(&["req", "-new", "-key", &uri, "-subj", "/CN=request", "-out", "request"]);
        site.plain(&["req", "-verify", "-noout", "-in", "request"]);
        let file = format!("{key}.pem");
        site.ok(&["req", "-x509", "-new", "-key", &file, "-subj", "/CN=ca", "-out", "ca", "-days", "2"]);
        site.plain(&["verify", "-CAfile", "ca", "ca"]);
        site.ok(&["x509", "-req", "-in", "request", "-CA", "ca", "-CAkey", &file, "-CAcreateserial", "-out", "leaf"]);
        site.plain(&["verify", "-CAfile", "ca", "leaf"]);
    }
    let pss = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:max"];
    let request = ["req", "-x509", "-new", "-key", "rsa2048.pem", "-subj", "/CN=pss", "-out", "pss", "-sha384"];
    site.ok(&[&request[..], &pss].concat());
    site.plain(&["verify", "-CAfile", "pss", "pss"]);
    assert!(site.plain(&["x509", "-in", "pss", "-noout", "-text"]).out.contains("Salt Length: 0xCE"));
}

#[test]
fn mail_is_signed() {
    let site = Site::with(&["rsa2048", "p256"]);
    for key in ["rsa2048", "p256"] {
        let file = format!("{key}.pem");
        site.ok(&["req", "-x509", "-new", "-key", &file, "-subj", "/CN=mail", "-out", "mail"]);
        site.ok(&["cms", "-sign", "-in", "message", "-signer", "mail", "-inkey", &file, "-out", "signed"]);
        site.plain(&["cms", "-verify", "-in", "signed", "-CAfile", "mail", "-purpose", "any"]);
    }
}
