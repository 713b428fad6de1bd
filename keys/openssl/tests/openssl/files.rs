//! Keys by URI and by file, and the errors for bad ones.

use crate::common::Site;
use crate::tls::Server;
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand, Kind};
use std::fs;

#[test]
fn a_private_key_does_not_leave_the_service() {
    let site = Site::with(&["rsa2048", "p256", "ed25519"]);
    for key in ["rsa2048", "p256", "ed25519"] {
        let (file, old, uri) = (format!("{key}.pem"), format!("{key}.old.pem"), format!("sidecore:{key}"));
        for from in [&file, &old, &uri] {
            // Before OpenSSL 3.2 `pkcs8` takes no URI.
            let ways = [
                &["pkey", "-in", from, "-outform", "DER"][..],
                &["pkey", "-in", from, "-aes256", "-passout", "pass:sesame"],
                &["pkcs8", "-topk8", "-nocrypt", "-in", &file],
                &["pkcs8", "-topk8", "-passout", "pass:sesame", "-in", &file],
            ];
            for way in ways {
                let told = site.fails(&[way, &["-out", "stolen"]].concat());
                assert!(told.contains("sidecore service"), "{way:?} {told}");
                assert!(!fs::read_to_string(site.path("stolen")).unwrap_or_default().contains("PRIVATE"));
            }
            // An object of the old kind has zeros for private numbers: what OpenSSL writes of it signs nothing.
            let told = site.any(&["pkey", "-in", from, "-traditional", "-out", "stolen"]);
            if told.ok {
                site.plain_fails(&["dgst", "-sha256", "-sign", "stolen", "message"]);
                fs::remove_file(site.path("stolen")).unwrap();
            }
            // The file that names the key takes the place of a private key.
            site.ok(&["pkey", "-in", from, "-out", "named"]);
            assert_eq!(fs::read_to_string(site.path("named")).unwrap(), fs::read_to_string(site.path(&file)).unwrap());
            let public = site.ok(&["pkey", "-in", from, "-pubout"]).out;
            assert_eq!(public, fs::read_to_string(site.path(&format!("{key}.pub"))).unwrap());
        }
    }
}

#[test]
fn a_uri_gives_the_part_that_is_asked_for() {
    let site = Site::with(&["p256"]);
    assert!(site.ok(&["storeutl", "-noout", "sidecore:p256"]).out.contains("Pkey"));
    assert!(site.ok(&["storeutl", "-noout", "-keys", "sidecore:p256"]).out.contains("Total found: 1"));
    assert!(site.ok(&["storeutl", "-noout", "-certs", "sidecore:p256"]).out.contains("Total found: 0"));
    assert!(site.ok(&["pkey", "-pubin", "-in", "sidecore:p256", "-text", "-noout"]).out.contains("prime256v1"));
}

#[test]
fn a_key_is_shown_with_its_name_and_its_public_part() {
    let site = Site::with(&["rsa2048", "p256", "p384", "ed25519", "x25519"]);
    for key in ["rsa2048", "p256", "p384", "ed25519", "x25519"] {
        let public = site.plain(&["pkey", "-pubin", "-in", &format!("{key}.pub"), "-text", "-noout"]).out;
        let (file, uri, expected) =
            (format!("{key}.pem"), format!("sidecore:{key}"), format!("private key in sidecore as {key}\n{public}"));
        assert_eq!(site.ok(&["pkey", "-in", &file, "-text", "-noout"]).out, expected);
        assert_eq!(site.ok(&["pkey", "-in", &file, "-text_pub", "-noout"]).out, public);
        assert!(site.ok(&["storeutl", "-text", "-noout", &uri]).out.contains(&expected));
        let stored = site.ok(&["storeutl", "-text", &uri]).out;
        assert!(stored.contains(&fs::read_to_string(site.path(&file)).unwrap()), "{stored}");
    }
    for (command, key) in [("rsa", "rsa2048"), ("ec", "p256")] {
        let shown = site.ok(&[command, "-in", &format!("{key}.pem"), "-text", "-noout"]).out;
        assert!(shown.starts_with(&format!("private key in sidecore as {key}\nPublic-Key:")), "{shown}");
    }
}

fn shapes(pem: &str) -> Vec<String> {
    let lines: Vec<&str> = pem.lines().collect();
    let [begin, body @ .., end] = &lines[..] else { panic!("no PEM: {pem}") };
    let base64 = body.concat();
    let width = |width: usize| {
        let lines: Vec<_> = base64.as_bytes().chunks(width).map(|line| String::from_utf8_lossy(line)).collect();
        format!("{begin}\n{}\n{end}\n", lines.join("\n"))
    };
    let mut shapes: Vec<String> = [1, 5, 63, 65, 76, 254, 255, 100_000].into_iter().map(width).collect();
    shapes.extend([
        pem.replace('\n', "\r\n"),
        pem.replace('\n', " \t\n"),
        format!("\u{feff}{pem}"),
        format!("\u{feff}{}", width(100_000).replace('\n', "\r\n")),
        format!("text\n\n{}", pem.trim_end()),
        format!("{begin}\n  {}\n{end}\n", body.join(" \n\t")),
    ]);
    shapes
}

#[test]
fn a_key_file_has_every_shape_that_openssl_reads() {
    let site = Site::with(&["rsa2048"]);
    let theirs = shapes(&site.plain(&["genpkey", "-algorithm", "rsa"]).out);
    let ours = shapes(&fs::read_to_string(site.path("rsa2048.pem")).unwrap());
    let public = fs::read_to_string(site.path("rsa2048.pub")).unwrap();
    for (theirs, ours) in theirs.iter().zip(&ours) {
        fs::write(site.path("theirs"), theirs).unwrap();
        fs::write(site.path("ours"), ours).unwrap();
        site.plain(&["pkey", "-in", "theirs", "-noout"]);
        assert_eq!(site.ok(&["pkey", "-in", "ours", "-pubout"]).out, public, "{ours:?}");
        // The same code reads keys to import.
        let read = sidecore::keys::read_private_key(theirs.as_bytes(), None);
        assert!(read.is_ok(), "{theirs:?}");
    }
}

#[test]
fn key_and_certificate_in_one_file_are_both_found() {
    let site = Site::with(&["p256"]);
    site.ok(&["req", "-x509", "-new", "-key", "p256.pem", "-subj", "/CN=bundle", "-out", "certificate"]);
    let read = |name: &str| fs::read_to_string(site.path(name)).unwrap();
    let (certificate, key) = (read("certificate"), read("p256.pem"));
    let other = site.plain(&["genpkey", "-algorithm", "ed25519"]).out;
    site.plain(&["dgst", "-sha256", "-binary", "-out", "digest", "message"]);
    for bundle in [format!("{certificate}{key}"), format!("{key}{certificate}"), format!("text\n{certificate}\n{key}")]
    {
        fs::write(site.path("bundle"), &bundle).unwrap();
        site.ok(&["x509", "-in", "bundle", "-noout"]);
        site.ok(&["pkeyutl", "-sign", "-inkey", "bundle", "-in", "digest", "-out", "signature"]);
        site.plain(&["pkeyutl", "-verify", "-pubin", "-inkey", "p256.pub", "-in", "digest", "-sigfile", "signature"]);
        let found = site.ok(&["storeutl", "-noout", "bundle"]).out;
        assert!(found.contains("Certificate") && found.contains("Pkey"), "{found}");
    }
    // Other keys are read as before.
    fs::write(site.path("other"), other).unwrap();
    site.ok(&["pkey", "-in", "other", "-noout"]);
    site.ok(&["req", "-x509", "-new", "-key", "other", "-subj", "/CN=other", "-out", "certificate"]);
}

#[test]
fn what_is_wrong_with_a_key_is_said() {
    let mut site = Site::with(&["p256"]);
    let told = site.ok(&["storeutl", "sidecore:nobody"]).err;
    assert!(told.contains("nobody") && told.contains("sidecore keys list"), "{told}");
    let told = site.fails(&["storeutl", "sidecore:../p256"]);
    assert!(told.contains("letters, digits"), "{told}");
    let read = |name: &str| fs::read_to_string(site.path(name)).unwrap();
    let (old, new) = (read("p256.old.pem"), read("p256.pem"));
    let unknown = Uri::new("nobody").unwrap().to_pem();
    let changed = |pem: &str| pem.replacen("-----\nM", "-----\nN", 1);
    let cut = |pem: &str| pem[..60].to_owned();
    let no_key = Uri::new("p256").unwrap().with_public(vec![0x30, 0]).unwrap().to_pem();
    let files = [unknown, no_key, changed(&old), changed(&new), cut(&old), cut(&new)];
    for contents in files {
        fs::write(site.path("bad"), contents).unwrap();
        let _ = site.fails(&["pkey", "-in", "bad", "-pubout"]);
    }
    site.service = None;
    let told = site.ok(&["storeutl", "sidecore:p256"]).err;
    assert!(told.contains("no service at") && told.contains("sidecore serve"), "{told}");
}

#[test]
fn a_key_is_loaded_without_a_service_and_only_signing_needs_one() {
    let mut site = Site::with(&["rsa2048", "p256", "ed25519"]);
    site.plain(&["dgst", "-sha256", "-binary", "-out", "digest", "message"]);
    site.ok(&["req", "-x509", "-new", "-key", "p256.pem", "-subj", "/CN=localhost", "-out", "certificate"]);
    site.service = None;
    for key in ["rsa2048", "p256", "ed25519"] {
        let public = site.ok(&["pkey", "-in", &format!("{key}.pem"), "-pubout"]).out;
        assert_eq!(public, fs::read_to_string(site.path(&format!("{key}.pub"))).unwrap());
    }
    let _ = site.fails(&["pkey", "-in", "p256.old.pem", "-pubout"]);
    let sign = ["pkeyutl", "-sign", "-inkey", "p256.pem", "-in", "digest", "-out", "signature"];
    let told = site.fails(&sign);
    assert!(told.contains("no service at"), "{told}");
    // A server compares key and certificate when it starts.
    let server = Server::with_certificate(&site, "p256", &[]);
    site.plain_fails(&server.connect(&[]));
    site.restart();
    site.plain(&server.connect(&[]));
    site.ok(&sign);
}

#[test]
fn a_key_that_openssl_has_made_stays_in_the_service() {
    let site = Site::with(&[]);
    let curve: &[&str] = &["-pkeyopt", "group:P-256"];
    for (algorithm, options) in [("RSA", &[][..]), ("EC", curve), ("ED25519", &[])] {
        let made = [&["genpkey", "-algorithm", algorithm][..], options].concat();
        for out in [&["-outform", "PEM"][..], &["-outform", "DER"], &["-out", "made"]] {
            let said = site.preferred_fails(&[&made, out].concat());
            assert!(!said.out.contains("PRIVATE KEY") && said.err.contains("does not leave"), "{}", said.err);
            assert!(said.out.is_empty() && fs::read(site.path("made")).unwrap_or_default().is_empty());
        }
    }
    // A request for a certificate does not reveal it either.
    let _ =
        site.preferred_fails(&["req", "-x509", "-newkey", "rsa:2048", "-noenc", "-keyout", "made", "-subj", "/CN=x"]);
    assert!(fs::read(site.path("made")).unwrap_or_default().is_empty());
}

#[test]
fn a_key_that_is_gone_is_loaded_and_signing_says_why_it_fails() {
    let site = Site::with(&["p256"]);
    site.plain(&["dgst", "-sha256", "-binary", "-out", "digest", "message"]);
    site.admin().keys(KeyCommand::Delete { name: "p256".to_owned() }).unwrap();
    site.ok(&["pkey", "-in", "p256.pem", "-pubout"]);
    let sign = ["pkeyutl", "-sign", "-inkey", "p256.pem", "-in", "digest", "-out", "signature"];
    let told = site.fails(&sign);
    assert!(told.contains("no key \"p256\""), "{told}");
    let command = KeyCommand::Generate { name: "p256".to_owned(), kind: Kind::P256, acl: Acl::default() };
    site.admin().keys(command).unwrap();
    let told = site.fails(&sign);
    assert!(told.contains("was replaced by another"), "{told}");
}
