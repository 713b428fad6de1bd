//! Java's tools, by its provider `SunPKCS11`.

use crate::common::{NOBODY, Site, is_root};
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

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
fn jarsigner_signs_with_rsa_pss_and_ecdsa() {
    let site = Site::with(&["rsa2048", "p256"]);
    site.certify("rsa2048");
    site.certify("p256");
    configured(&site);
    // TLS 1.3 takes no other RSA signatures than PSS.
    for (key, algorithm) in [("rsa2048", "SHA256withRSA"), ("rsa2048", "RSASSA-PSS"), ("p256", "SHA256withECDSA")] {
        let jar = format!("{algorithm}.jar");
        site.ok("jar", &["cf", &jar, "message"]);
        let store = ["-keystore", "NONE", "-storetype", "PKCS11", "-storepass", "any"];
        let provider = ["-addprovider", "SunPKCS11", "-providerArg", "java.cfg"];
        let said = site.ok("jarsigner", &[&store[..], &provider, &["-sigalg", algorithm, &jar, key]].concat());
        assert!(said.contains("jar signed"), "{said}");
        let said = site.ok("jarsigner", &["-verify", &jar]);
        assert!(said.contains("jar verified"), "{said}");
    }
}

#[test]
fn keytool_makes_keys_of_a_user_that_jarsigner_signs_with() {
    if !is_root() {
        return skipped("only root can become another user");
    }
    let site = Site::with_creators(NOBODY);
    site.open_to_all();
    configured(&site);
    let store = ["-keystore", "NONE", "-storetype", "PKCS11", "-storepass", "any"];
    let keytool = [&store[..], &["-addprovider", "SunPKCS11", "-providerarg", "java.cfg"]].concat();
    for (key, algorithm, more) in [("rsa", "RSA", ["-keysize", "2048"]), ("ec", "EC", ["-groupname", "secp256r1"])] {
        let subject = format!("CN={key}");
        let make = ["-genkeypair", "-alias", key, "-keyalg", algorithm, "-dname", &subject];
        let said =
            site.nobody("keytool", &[&make[..], &more, &keytool, &["-providername", "SunPKCS11-sidecore"]].concat());
        assert!(said.ok, "{}", said.text);
        let jar = format!("{key}.jar");
        site.ok("jar", &["cf", &jar, "message"]);
        fs::set_permissions(site.path(&jar), Permissions::from_mode(0o666)).unwrap();
        let said = site.nobody(
            "jarsigner",
            &[&store[..], &["-addprovider", "SunPKCS11", "-providerArg", "java.cfg", &jar, key]].concat(),
        );
        assert!(said.ok && said.text.contains("jar signed"), "{}", said.text);
        let said = site.ok("jarsigner", &["-verify", &jar]);
        assert!(said.contains("jar verified"), "{said}");
    }
    let said = site.nobody("keytool", &[&["-list"], &keytool[..]].concat());
    assert_eq!(said.text.matches("PrivateKeyEntry").count(), 2, "{}", said.text);
    let owners: Vec<_> = site.admin().my_keys(None).unwrap().unwrap().keys.iter().map(|key| key.owner).collect();
    assert_eq!(owners, [Some(NOBODY); 2]);
}
