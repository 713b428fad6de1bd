//! Java's tools, by its provider `SunPKCS11`.

use crate::common::Site;
use std::fs;

fn configured(site: &Site) {
    let configuration = format!("name = sidecore\nlibrary = {}\n", site.module().display());
    fs::write(site.path("java.cfg"), configuration).unwrap();
}

#[test]
fn keytool_lists_entries_with_certificates_by_the_names_of_their_keys() {
    let site = Site::with(&["rsa2048", "p256", "p384"]);
    site.certify("rsa2048");
    site.certify("p256");
    configured(&site);
    let list = ["-list", "-keystore", "NONE", "-storetype", "PKCS11", "-storepass", "any"];
    let said = site.ok("keytool", &[&list[..], &["-addprovider", "SunPKCS11", "-providerarg", "java.cfg"]].concat());
    for line in ["rsa2048, PrivateKeyEntry", "p256, PrivateKeyEntry"] {
        assert!(said.contains(line), "{said}");
    }
    assert!(!said.contains("p384"), "Java shows no key without a certificate: {said}");
}

#[test]
fn jarsigner_signs_with_rsa_and_ecdsa() {
    let site = Site::with(&["rsa2048", "p256"]);
    site.certify("rsa2048");
    site.certify("p256");
    configured(&site);
    for key in ["rsa2048", "p256"] {
        let jar = format!("{key}.jar");
        site.ok("jar", &["cf", &jar, "message"]);
        let store = ["-keystore", "NONE", "-storetype", "PKCS11", "-storepass", "any"];
        let provider = ["-addprovider", "SunPKCS11", "-providerArg", "java.cfg"];
        let said = site.ok("jarsigner", &[&store[..], &provider, &[&jar, key]].concat());
        assert!(said.contains("jar signed"), "{said}");
        let said = site.ok("jarsigner", &["-verify", &jar]);
        assert!(said.contains("jar verified"), "{said}");
    }
}
