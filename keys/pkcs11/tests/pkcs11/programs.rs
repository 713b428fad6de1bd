//! Programs of Debian that load the module.

use crate::common::{NOBODY, Site, is_root};
use sidecore::keys::{Acl, KeyCommand};
use sidecore_testing::skipped;
use std::fs;

#[test]
fn pkcs11_tool_tests_the_module_and_finds_no_error() {
    let site = Site::with(&["rsa2048", "p256", "ed25519"]);
    site.certify("rsa2048");
    let said = site.tool(&["--login", "--pin", "x", "--test"]);
    assert!(said.contains("No errors"), "{said}");
    assert!(!said.contains("ERR"), "{said}");
}

#[test]
fn pkcs11_tool_lists_keys_and_certificates() {
    let site = Site::with(&["rsa2048", "p256", "ed25519", "mldsa65"]);
    site.certify("p256");
    let said = site.tool(&["-O"]);
    let count = |what: &str| said.matches(what).count();
    assert_eq!((count("Private Key Object"), count("Public Key Object")), (2, 2), "{said}");
    assert_eq!(count("Certificate Object"), 2, "{said}");
    assert!(count("label:      p256\n") == 3 && count("p256 issuer 1") == 1 && !said.contains("mldsa65"), "{said}");
    let slots = site.tool(&["-L", "-M"]);
    assert!(slots.contains("token label        : sidecore") && slots.contains("ECDSA-SHA256"), "{slots}");
}

#[test]
fn openssl_verifies_what_pkcs11_tool_signs() {
    let site = Site::with(&["rsa2048", "p256", "p384"]);
    let sign = |key: &str, mechanism: &str, more: &[&str]| {
        let args = ["--sign", "--id", &site.id(key), "-m", mechanism, "-i", "message", "-o", "signature"];
        site.tool(&[&args[..], more].concat());
    };
    let verify = |key: &str, more: &[&str]| {
        let public = format!("{key}.pub");
        let args = ["dgst", "-sha256", "-verify", &public, "-signature", "signature"];
        let said = site.ok("openssl", &[&args[..], more, &["message"]].concat());
        assert!(said.contains("Verified OK"), "{said}");
    };
    sign("rsa2048", "SHA256-RSA-PKCS", &[]);
    verify("rsa2048", &[]);
    sign("rsa2048", "SHA256-RSA-PKCS-PSS", &["--salt-len", "32"]);
    verify("rsa2048", &["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"]);
    for key in ["p256", "p384"] {
        sign(key, "ECDSA-SHA256", &["--signature-format", "openssl"]);
        verify(key, &[]);
    }
}

#[test]
fn pkcs11_tool_decrypts_what_openssl_encrypted() {
    let site = Site::with(&["rsa2048"]);
    let oaep =
        ["-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256", "-pkeyopt", "rsa_mgf1_md:sha256"];
    for (mechanism, padding, more) in [
        ("RSA-PKCS", &[][..], &[][..]),
        ("RSA-PKCS-OAEP", &oaep[..], &["--hash-algorithm", "SHA256", "--mgf", "MGF1-SHA256"][..]),
    ] {
        let encrypt = ["pkeyutl", "-encrypt", "-pubin", "-inkey", "rsa2048.pub", "-in", "message", "-out", "secret"];
        site.ok("openssl", &[&encrypt[..], padding].concat());
        let decrypt = ["--decrypt", "--label", "rsa2048", "-m", mechanism, "-i", "secret", "-o", "plain"];
        site.tool(&[&decrypt[..], more].concat());
        assert_eq!(fs::read(site.path("plain")).unwrap(), fs::read(site.path("message")).unwrap(), "{mechanism}");
    }
}

#[test]
fn gnutls_lists_and_signs_by_uri() {
    let site = Site::with(&["rsa2048", "p256"]);
    site.certify("rsa2048");
    let provider = format!("--provider={}", site.module().display());
    let said = site.ok("p11tool", &[&provider, "--list-all", "pkcs11:token=sidecore"]);
    assert!(said.contains("object=rsa2048;type=private") && said.contains("object=p256;type=public"), "{said}");
    assert!(said.contains("object=rsa2048;type=cert"), "{said}");
    for (key, hash) in [("rsa2048", "SHA256"), ("p256", "SHA256")] {
        let uri = format!("pkcs11:token=sidecore;object={key};type=private");
        let said = site.ok("p11tool", &[&provider, "--batch", "--hash", hash, "--test-sign", &uri]);
        assert!(said.contains("ok"), "{said}");
    }
}

#[test]
fn ssh_keygen_shows_the_public_keys() {
    let site = Site::with(&["rsa2048", "p256"]);
    let said = site.ok("ssh-keygen", &["-D", site.module().to_str().unwrap()]);
    for (key, kind) in [("rsa2048", "ssh-rsa"), ("p256", "ecdsa-sha2-nistp256")] {
        let public = site.ok("ssh-keygen", &["-i", "-m", "PKCS8", "-f", &format!("{key}.pub")]);
        assert!(public.starts_with(kind) && said.contains(public.trim()), "{said}");
    }
}

#[test]
fn nss_lists_a_token_with_its_keys() {
    let site = Site::with(&["rsa2048", "p256"]);
    site.certify("rsa2048");
    fs::create_dir(site.path("nss")).unwrap();
    site.ok("certutil", &["-N", "-d", "sql:nss", "--empty-password"]);
    let module = site.module();
    let add = ["-dbdir", "sql:nss", "-add", "sidecore", "-libfile", module.to_str().unwrap(), "-force"];
    site.ok("modutil", &add);
    let said = site.ok("certutil", &["-K", "-d", "sql:nss", "-h", "sidecore"]);
    assert!(said.contains("rsa") && said.contains("ec"), "{said}");
    let said = site.ok("certutil", &["-L", "-d", "sql:nss", "-h", "sidecore"]);
    assert!(said.contains("sidecore:rsa2048"), "{said}");
}

#[test]
fn a_user_sees_and_uses_its_own_keys_as_long_as_it_has_the_right() {
    if !is_root() {
        return skipped("only root can become another user");
    }
    let site = Site::with(&["rsa2048", "p256"]);
    site.open_to_all();
    let acl = |uids: &[u32]| Acl { uids: uids.to_vec(), gids: Vec::new() };
    site.admin().keys(KeyCommand::SetAcl { name: "p256".to_owned(), acl: acl(&[NOBODY]) }).unwrap();
    let module = site.module();
    let nobody = |args: &[&str]| site.nobody("pkcs11-tool", &[&["--module", module.to_str().unwrap()], args].concat());
    let listed = nobody(&["-O"]);
    assert!(listed.ok && listed.text.contains("p256") && !listed.text.contains("rsa2048"), "{}", listed.text);
    let sign = ["--sign", "-m", "ECDSA-SHA256", "-i", "message", "-o", "signature"];
    let signed = nobody(&sign);
    assert!(signed.ok, "{}", signed.text);
    site.admin().keys(KeyCommand::SetAcl { name: "p256".to_owned(), acl: acl(&[]) }).unwrap();
    let signed = nobody(&sign);
    assert!(!signed.ok, "{}", signed.text);
    let listed = nobody(&["-O"]);
    assert!(listed.ok && !listed.text.contains("p256"), "{}", listed.text);
}
