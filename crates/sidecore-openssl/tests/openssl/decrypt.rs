//! Decryption by the service of what OpenSSL's own code encrypted.

use crate::common::Site;
use std::fs;

#[test]
fn rsa_ciphertexts_are_decrypted() {
    let site = Site::with(&["rsa2048"]);
    let oaep = ["rsa_padding_mode:oaep", "rsa_oaep_md:sha256"];
    let mixed = ["rsa_padding_mode:oaep", "rsa_oaep_md:sha384", "rsa_mgf1_md:sha256", "rsa_oaep_label:6c6162656c"];
    for options in [&["rsa_padding_mode:pkcs1"][..], &["rsa_padding_mode:oaep"], &oaep, &mixed] {
        let options: Vec<&str> = options.iter().flat_map(|option| ["-pkeyopt", option]).collect();
        let encrypt = ["pkeyutl", "-encrypt", "-pubin", "-inkey", "rsa2048.pub", "-in", "message", "-out", "cipher"];
        site.plain(&[&encrypt[..], &options].concat());
        let decrypt = ["pkeyutl", "-decrypt", "-inkey", "rsa2048.pem", "-in", "cipher", "-out", "plain"];
        site.ok(&[&decrypt[..], &options].concat());
        assert_eq!(fs::read(site.path("plain")).unwrap(), fs::read(site.path("message")).unwrap());
    }
    let mut cipher = fs::read(site.path("cipher")).unwrap();
    cipher[100] ^= 1;
    fs::write(site.path("cipher"), &cipher).unwrap();
    let decrypt = ["pkeyutl", "-decrypt", "-inkey", "rsa2048.pem", "-in", "cipher"];
    let told = site.fails(&[&decrypt[..], &["-pkeyopt", "rsa_padding_mode:oaep"]].concat());
    assert!(told.contains("not for this key, padding or label"), "{told}");
    cipher.push(0);
    fs::write(site.path("cipher"), &cipher).unwrap();
    assert!(site.fails(&decrypt).contains("257 bytes"));
}

#[test]
fn mail_is_decrypted() {
    let site = Site::with(&["rsa2048"]);
    site.ok(&["req", "-x509", "-new", "-key", "rsa2048.pem", "-subj", "/CN=mail", "-out", "mail"]);
    for options in [&[][..], &["-keyopt", "rsa_padding_mode:oaep", "-keyopt", "rsa_oaep_md:sha256"]] {
        let encrypt = ["cms", "-encrypt", "-aes256", "-in", "message", "-out", "cipher", "-recip", "mail"];
        site.plain(&[&encrypt[..], options].concat());
        let decrypt = ["cms", "-decrypt", "-in", "cipher", "-inkey", "rsa2048.pem", "-recip", "mail"];
        assert!(site.ok(&decrypt).out.contains("a message to sign"));
    }
}
