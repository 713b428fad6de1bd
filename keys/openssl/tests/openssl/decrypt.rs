//! The service decrypts messages of OpenSSL's own code, and the other way round.

use crate::common::Site;
use sidecore::keys::{KeyCommand, Usage};
use std::fs;

#[test]
fn rsa_ciphertexts_are_decrypted() {
    let site = Site::with(&["rsa2048"]);
    let oaep = ["rsa_padding_mode:oaep", "rsa_oaep_md:sha256"];
    let mixed = ["rsa_padding_mode:oaep", "rsa_oaep_md:sha384", "rsa_mgf1_md:sha256", "rsa_oaep_label:6c6162656c"];
    let short = ["rsa_padding_mode:oaep", "rsa_oaep_md:sha512-256", "rsa_mgf1_md:sha224"];
    for options in [&["rsa_padding_mode:pkcs1"][..], &["rsa_padding_mode:oaep"], &oaep, &mixed, &short] {
        let options: Vec<&str> = options.iter().flat_map(|option| ["-pkeyopt", option]).collect();
        let encrypt = ["pkeyutl", "-encrypt", "-pubin", "-inkey", "rsa2048.pub", "-in", "message", "-out", "cipher"];
        site.plain(&[&encrypt[..], &options].concat());
        let decrypt = ["pkeyutl", "-decrypt", "-inkey", "rsa2048.pem", "-in", "cipher", "-out", "plain"];
        site.ok(&[&decrypt[..], &options].concat());
        assert_eq!(fs::read(site.path("plain")).unwrap(), fs::read(site.path("message")).unwrap());
        let encrypt = ["pkeyutl", "-encrypt", "-inkey", "rsa2048.pem", "-in", "message", "-out", "cipher"];
        site.ok(&[&encrypt[..], &options].concat());
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
fn a_key_for_signatures_only_signs_and_decrypts_nothing() {
    let site = Site::with(&["rsa2048"]);
    let encrypt = ["pkeyutl", "-encrypt", "-pubin", "-inkey", "rsa2048.pub", "-in", "message", "-out", "cipher"];
    site.plain(&encrypt);
    let decrypt = ["pkeyutl", "-decrypt", "-inkey", "rsa2048.pem", "-in", "cipher", "-out", "plain"];
    site.ok(&decrypt);
    site.admin().keys(KeyCommand::SetUsage { name: "rsa2048".to_owned(), usage: Usage::SIGN }).unwrap();
    for padding in ["pkcs1", "oaep"] {
        let told = site.fails(&[&decrypt[..], &["-pkeyopt", &format!("rsa_padding_mode:{padding}")]].concat());
        assert!(told.contains("is for sign only, not for decrypt"), "{told}");
        assert!(told.contains("sidecore keys usage rsa2048 sign,decrypt"), "{told}");
    }
    site.ok(&["dgst", "-sha256", "-sign", "rsa2048.pem", "-out", "signature", "message"]);
    site.plain(&["dgst", "-sha256", "-verify", "rsa2048.pub", "-signature", "signature", "message"]);
}

#[test]
fn what_cannot_be_encrypted_is_told() {
    let site = Site::with(&["rsa2048", "p256"]);
    fs::write(site.path("large"), [7; 246]).unwrap();
    let encrypt = ["pkeyutl", "-encrypt", "-inkey", "rsa2048.pem", "-in", "large"];
    let told = site.fails(&encrypt);
    assert!(told.contains("246 bytes to encrypt") && told.contains("at most 245"), "{told}");
    let told = site.fails(&[&encrypt[..], &["-pkeyopt", "rsa_padding_mode:none"]].concat());
    assert!(told.contains("take 256"), "{told}");
    let bare = ["-pkeyopt", "rsa_padding_mode:none"];
    fs::write(site.path("large"), [0xff; 256]).unwrap();
    let told = site.fails(&[&encrypt[..], &bare].concat());
    assert!(told.contains("no number below"), "{told}");
    fs::write(site.path("large"), [7; 256]).unwrap();
    site.ok(&[&encrypt[..], &bare, &["-out", "ours"]].concat());
    let public = ["pkeyutl", "-encrypt", "-pubin", "-inkey", "rsa2048.pub", "-in", "large", "-out", "theirs"];
    site.plain(&[&public[..], &bare].concat());
    assert_eq!(fs::read(site.path("ours")).unwrap(), fs::read(site.path("theirs")).unwrap());
    // Decryption without padding would reveal all operations of the key.
    let told = site.fails(&[&["pkeyutl", "-decrypt", "-inkey", "rsa2048.pem", "-in", "ours"], &bare[..]].concat());
    assert!(told.contains("decryption without padding"), "{told}");
}

#[test]
fn what_was_signed_is_shown() {
    let site = Site::with(&["rsa2048"]);
    site.plain(&["dgst", "-sha512-256", "-binary", "-out", "digest", "message"]);
    for options in [&["-pkeyopt", "digest:sha512-256"][..], &[]] {
        let sign = ["pkeyutl", "-sign", "-inkey", "rsa2048.pem", "-in", "digest", "-out", "signature"];
        site.ok(&[&sign[..], options].concat());
        let recover = ["pkeyutl", "-verifyrecover", "-in", "signature", "-inkey"];
        site.plain(&[&recover[..], &["rsa2048.pub", "-pubin", "-out", "theirs"], options].concat());
        site.ok(&[&recover[..], &["rsa2048.pem", "-out", "ours"], options].concat());
        assert_eq!(fs::read(site.path("ours")).unwrap(), fs::read(site.path("theirs")).unwrap());
        assert_eq!(fs::read(site.path("ours")).unwrap(), fs::read(site.path("digest")).unwrap());
    }
    let recover = ["pkeyutl", "-verifyrecover", "-inkey", "rsa2048.pem", "-in"];
    let told = site.fails(&[&recover[..], &["signature", "-pkeyopt", "digest:sha256"]].concat());
    assert!(told.contains("no signature by this key"), "{told}");
    let told = site.fails(&[&recover[..], &["message"]].concat());
    assert!(told.contains("no signature by this key"), "{told}");
    let told = site.fails(&[&recover[..], &["signature", "-pkeyopt", "rsa_padding_mode:pss"]].concat());
    assert!(told.contains("by PKCS#1 v1.5 show"), "{told}");
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

/// Mail to the service's key and to another one, tried after it or before it: OpenSSL 3.0 takes the last key that
/// decrypts.
#[test]
fn mail_to_several_recipients_is_decrypted_by_a_key_with_explicit_errors_or_by_the_recipients_certificate() {
    let site = Site::with(&["rsa2048"]);
    let request = |key: &[&str], serial: &str, out: &str| {
        let begin = ["req", "-x509", "-subj", "/CN=mail", "-set_serial", serial, "-out", out];
        site.ok(&[&begin[..], key].concat());
    };
    request(&["-new", "-key", "rsa2048.pem"], "0x100000", "ours");
    let other = |serial, out| request(&["-newkey", "rsa:2048", "-nodes", "-keyout", "other.key"], serial, out);
    other("0x10", "before");
    other("0x10000000000", "after");
    let mails: Vec<String> =
        (0..10).flat_map(|number| ["before", "after"].map(|other| format!("{other}{number}"))).collect();
    for mail in &mails {
        let other = mail.trim_end_matches(char::is_numeric);
        let encrypt = ["cms", "-encrypt", "-binary", "-aes256", "-in", "message", "-outform", "DER", "-out", mail];
        site.plain(&[&encrypt[..], &["ours", other]].concat());
    }
    let decrypt = |mail: &str| {
        let decrypt =
            ["cms", "-decrypt", "-binary", "-inform", "DER", "-in", mail, "-inkey", "rsa2048.pem", "-out", "plain"];
        decrypt.map(str::to_owned)
    };
    let mut wrong = 0;
    for mail in &mails {
        let decrypt = decrypt(mail);
        let decrypt: Vec<&str> = decrypt.iter().map(String::as_str).collect();
        site.ok(&[&decrypt[..], &["-recip", "ours"]].concat());
        assert!(is_right(&site), "{mail}");
        if mail.starts_with("after") {
            wrong += u32::from(!site.any(&decrypt).ok || !is_right(&site));
        }
    }
    // Without the recipient's certificate, the foreign recipient's key yields random bytes, and a wrong result is
    // detected only by chance.
    assert!(wrong > 0, "the message to `after` is read without its recipient being named");
    let site = site.with_explicit_errors("rsa2048");
    for mail in &mails {
        let decrypt = decrypt(mail);
        site.ok(&decrypt.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(is_right(&site), "{mail}");
    }
}

fn is_right(site: &Site) -> bool {
    fs::read(site.path("plain")).unwrap() == fs::read(site.path("message")).unwrap()
}
