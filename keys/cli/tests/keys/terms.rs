//! `sidecore keys usage`, `limit`, `cert`, and keys that users have made for themselves.

use super::{Home, STRANGER, key, library, text};
use rustix::process::geteuid;
use sidecore_testing::skipped;
use std::fs;
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

fn openssl(arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).output().unwrap();
    assert!(done.status.success(), "openssl {arguments:?}: {}", text(&done.stderr));
}

#[test]
fn a_restriction_a_limit_and_a_chain_are_set_listed_and_survive_a_restart() {
    let home = Home::new();
    let service = home.serve();
    service.done(&["keys", "import", "www", &key("rsa-2048.pkcs1.pem")]);
    service.done(&["keys", "import", "ec", &key("p-256.pkcs8.pem")]);
    service.done(&["keys", "usage", "www", "sign"]);
    service.done(&["keys", "limit", "www", "100/s"]);
    service.done(&["keys", "cert", "ec", &key("p-256.certificate.pem")]);
    let before = service.done(&["keys", "list", "--json"]);
    service.end();

    let service = home.serve();
    assert_eq!(service.done(&["keys", "list", "--json"]), before);
    let lines: Vec<serde_json::Value> = before.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told =
        |line: usize| ["name", "usage", "limit", "certificates", "owner"].map(|name| lines[line][name].to_string());
    assert_eq!(told(0), [r#""ec""#, r#"["sign","derive"]"#, "null", "1", "null"]);
    assert_eq!(told(1), [r#""www""#, r#"["sign"]"#, "100", "0", "null"]);
    let list = service.done(&["keys", "list"]);
    assert!(list.contains("used for") && list.contains("100/s"), "{list}");
    // A replacement keeps both, and drops the certificates of the old key.
    service.done(&["keys", "import", "ec", &key("p-256.sec1.pem"), "--replace"]);
    service.done(&["keys", "limit", "www", "--remove"]);
    service.done(&["keys", "usage", "www", "sign,decrypt"]);
    // A key that is meant for SSH signs, and is unrestricted otherwise where it was.
    service.done(&["keys", "usage", "ec", "ssh"]);
    assert!(service.done(&["keys", "list", "--json"]).contains(r#""usage":["sign","ssh"]"#));
    service.done(&["keys", "usage", "ec", "sign,derive,ssh"]);
    assert!(service.done(&["keys", "list", "--json"]).contains(r#""usage":["sign","derive","ssh"]"#));
    service.done(&["keys", "generate", "kem", "--kind", "ml-kem-768"]);
    let said = service.refused(&["keys", "usage", "kem", "derive,ssh"]);
    assert!(said.contains("never for sign,ssh: use derive"), "{said}");
    let after = service.done(&["keys", "list", "--json"]);
    assert!(!after.contains(r#""limit":100"#) && after.contains(r#""usage":["sign","decrypt"]"#), "{after}");
    assert!(!after.contains(r#""certificates":1"#), "{after}");
    service.end();
}

#[test]
fn a_chain_is_stored_in_its_order_and_of_its_key_only() {
    let home = Home::new();
    let service = home.serve();
    let file = |name: &str| home.path(name).to_str().unwrap().to_owned();
    let [root_key, root, leaf_key, request, leaf] = ["ca.key", "ca.crt", "leaf.key", "leaf.csr", "leaf.crt"].map(file);
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let subject = |name| ["-subj", name];
    openssl(&[&["req", "-x509"], &new_key[..], &subject("/CN=ca"), &["-keyout", &root_key, "-out", &root]].concat());
    openssl(&[&["req"], &new_key[..], &subject("/CN=www"), &["-keyout", &leaf_key, "-out", &request]].concat());
    openssl(&["x509", "-req", "-in", &request, "-CA", &root, "-CAkey", &root_key, "-set_serial", "7", "-out", &leaf]);
    service.done(&["keys", "import", "www", &leaf_key]);
    let joined = |name: &str, parts: &[&str]| {
        let whole: String = parts.iter().map(|part| fs::read_to_string(part).unwrap()).collect();
        fs::write(home.path(name), whole).unwrap();
        file(name)
    };
    // The private key between them is ignored.
    service.done(&["keys", "cert", "www", &joined("chain", &[&leaf, &leaf_key, &root])]);
    assert!(service.done(&["keys", "list", "--json"]).contains(r#""certificates":2"#));
    let wrong = [
        (joined("turned", &[&root, &leaf]), "certificate 2 is not of the issuer of the one before"),
        (joined("twice", &[&leaf, &leaf]), "certificate 2 is not of the issuer of the one before"),
        (root.clone(), "the first certificate is of another key"),
        (joined("long", &[&leaf, &root, &root, &root, &root]), "at most 4 certificates"),
        (leaf_key.clone(), "no certificate in it that can be read"),
    ];
    for (chain, why) in wrong {
        let said = service.refused(&["keys", "cert", "www", &chain]);
        assert!(said.contains(why) && said.contains(&chain), "{said}");
        assert!(service.done(&["keys", "list", "--json"]).contains(r#""certificates":2"#));
    }
    service.done(&["keys", "cert", "www", "--remove"]);
    assert!(service.done(&["keys", "list", "--json"]).contains(r#""certificates":0"#));
    service.end();
}

#[test]
fn a_renewed_key_has_the_restrictions_of_the_former_one() {
    library::built("sidecore-openssl");
    let home = Home::new();
    let service = home.serve();
    let file = |name: &str| home.path(name).to_str().unwrap().to_owned();
    for name in ["old", "new"] {
        let (key, certificate) = (file(&format!("{name}.key")), file(&format!("{name}.crt")));
        openssl(&[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=www",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ]);
    }
    service.done(&["keys", "import", "www", &file("old.key"), "--uid", "4711"]);
    service.done(&["keys", "usage", "www", "sign"]);
    service.done(&["keys", "limit", "www", "50/s"]);
    let output = file("www.key");
    service.done(&["keys", "pem", "www", "--output", &output]);
    service.done(&["keys", "renew", "www", &file("new.key"), "--certificate", &file("new.crt"), "--output", &output]);
    let list = service.done(&["keys", "list", "--json"]);
    let renewed = list.lines().find(|line| line.contains(r#""name":"www.1"#)).unwrap_or_else(|| panic!("{list}"));
    for has in [r#""usage":["sign"]"#, r#""limit":50"#, r#""uids":[4711]"#] {
        assert!(renewed.contains(has), "{renewed}");
    }
    // A run that was killed after its import, with the server's file from before.
    service.done(&["keys", "pem", "www", "--output", &output]);
    service.done(&["keys", "delete", renewed.split('"').find(|part| part.starts_with("www.")).unwrap()]);
    service.done(&["keys", "import", "www.1700000000", &file("new.key")]);
    service.done(&["keys", "renew", "www", &file("new.key"), "--certificate", &file("new.crt"), "--output", &output]);
    let list = service.done(&["keys", "list", "--json"]);
    let resumed = list.lines().find(|line| line.contains("www.1700000000")).unwrap_or_else(|| panic!("{list}"));
    for has in [r#""usage":["sign"]"#, r#""limit":50"#, r#""uids":[4711]"#] {
        assert!(resumed.contains(has), "{resumed}");
    }
    service.end();
}

/// A user's key with such a name would give its users to the new key, or its time to the next name, and the names of the
/// next seconds would leave none for the renewal.
#[test]
fn a_user_who_may_make_keys_cannot_take_the_names_of_a_renewal() {
    if !geteuid().is_root() {
        return skipped("only root can start a program of another user");
    }
    library::built("sidecore-openssl");
    let home = Home::new();
    home.lets_others_in();
    let service = home.serve_with(&format!("creators = {{ gids = [{STRANGER}] }}\n"));
    let file = |name: &str| home.path(name).to_str().unwrap().to_owned();
    let (key, certificate) = (file("new.key"), file("new.crt"));
    let kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=www"];
    openssl(&[&["req", "-x509"], &kind[..], &["-keyout", &key, "-out", &certificate]].concat());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for seconds in [now, now + 1, now + 5, now + 20, 9_999_999_999] {
        let said = failed(&service.as_stranger(&["keys", "generate", &format!("www.{seconds}"), "--kind", "p-256"]));
        assert!(said.contains("are for renewals of administrators' keys"), "{said}");
    }
    service.done(&["keys", "renew", "www", &key, "--certificate", &certificate, "--output", &file("www.pem")]);
    let list = service.done(&["keys", "list", "--json"]);
    let renewed = list.lines().find(|line| line.contains(r#""name":"www.1"#)).unwrap_or_else(|| panic!("{list}"));
    assert!(renewed.contains(r#""uids":[]"#), "{list}");
    service.end();
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn users_of_a_group_have_keys_made_for_themselves() {
    if !geteuid().is_root() {
        return skipped("only root can start a program of another user");
    }
    let home = Home::new();
    home.lets_others_in();
    let service = home.serve_with(&format!("creators = {{ gids = [{STRANGER}], per_user = 1 }}\n"));
    service.done(&["keys", "import", "www", &key("p-256.pkcs8.pem")]);
    let made = service.as_stranger(&["keys", "generate", "mine", "--kind", "ed25519"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains("mine is a key of kind ed25519"), "{}", text(&made.stdout));
    let said = failed(&service.as_stranger(&["keys", "generate", "more", "--kind", "ed25519"]));
    assert!(said.contains("has 1 keys already (keys.creators.per_user)"), "{said}");
    let said = failed(&service.as_stranger(&["keys", "delete", "www"]));
    assert!(said.contains("only root and the service's own user"), "{said}");
    let listed = service.done(&["keys", "list", "--json"]);
    assert!(listed.contains(&format!(r#""name":"mine","owner":{STRANGER},"#)), "{listed}");
    assert!(service.as_stranger(&["keys", "delete", "mine"]).status.success());
    service.end();
    // A directory has the owner of each key.
    let service = home.serve_with(&format!("creators = {{ gids = [{STRANGER}], per_user = 1 }}\n"));
    assert!(service.as_stranger(&["keys", "generate", "kept", "--kind", "p-256"]).status.success());
    service.end();
    let service = home.serve_with(&format!("creators = {{ gids = [{STRANGER}], per_user = 1 }}\n"));
    failed(&service.as_stranger(&["keys", "generate", "more", "--kind", "p-256"]));
    service.end();
}

/// A certificate of a new key, valid from and until these dates of `openssl ca`.
fn dated(home: &Home, name: &str, begins: &str, ends: &str) -> (String, String) {
    let file = |name: String| home.path(&name).to_str().unwrap().to_owned();
    let (key, certificate) = (file(format!("{name}.key")), file(format!("{name}.crt")));
    if !home.path(&format!("{name}.key")).exists() {
        openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key]);
    }
    certify(home, &key, &certificate, begins, ends);
    (key, certificate)
}

fn certify(home: &Home, key: &str, certificate: &str, begins: &str, ends: &str) {
    let file = |name: &str| home.path(name).to_str().unwrap().to_owned();
    let [configuration, index, serial, request] = ["ca.cnf", "ca.index", "ca.serial", "ca.csr"].map(file);
    let text = format!(
        "[ca]\ndefault_ca=d\n[d]\ndatabase={index}\nserial={serial}\nnew_certs_dir={}\ndefault_md=sha256\npolicy=p\n\
         unique_subject=no\n[p]\ncommonName=supplied\n[req]\ndistinguished_name=n\n[n]\n",
        file("")
    );
    fs::write(&configuration, text).unwrap();
    fs::write(&index, "").unwrap();
    fs::write(&serial, "01\n").unwrap();
    openssl(&["req", "-new", "-config", &configuration, "-key", key, "-subj", "/CN=www", "-out", &request]);
    let dates = ["-startdate", begins, "-enddate", ends];
    let ca = ["ca", "-batch", "-config", &configuration, "-selfsign", "-keyfile", key, "-in", &request, "-notext"];
    openssl(&[&ca[..], &dates, &["-out", certificate]].concat());
}

const NEVER_ENDS: &str = "20900101000000Z";

#[test]
fn a_certificate_that_has_expired_or_begins_later_or_is_older_is_stored_only_if_asked() {
    let home = Home::new();
    let service = home.serve();
    let (key, present) = dated(&home, "www", "20250601000000Z", NEVER_ENDS);
    service.done(&["keys", "import", "www", &key]);
    service.done(&["keys", "cert", "www", &present]);
    let certificate = home.path("other.crt").to_str().unwrap().to_owned();
    for (begins, ends, said) in [
        ("20200101000000Z", "20210101000000Z", "was valid until 2021-01-01T00:00:00Z, and it is 20"),
        ("20800101000000Z", NEVER_ENDS, "is valid from 2080-01-01T00:00:00Z, and it is 20"),
        ("20250531000000Z", NEVER_ENDS, "from 2025-05-31T00:00:00Z, and the present one from 2025-06-01T00:00:00Z"),
    ] {
        certify(&home, &key, &certificate, begins, ends);
        let stored = service.done(&["keys", "list", "--json"]);
        let refused = service.refused(&["keys", "cert", "www", &certificate]);
        assert!(refused.contains(said) && refused.contains("--allow-expired"), "{refused}");
        assert_eq!(service.done(&["keys", "list", "--json"]), stored);
        service.done(&["keys", "cert", "www", &certificate, "--allow-expired"]);
        service.done(&["keys", "cert", "www", &present, "--allow-expired"]);
    }
    // The same one again, and a later one.
    service.done(&["keys", "cert", "www", &present]);
    certify(&home, &key, &certificate, "20250602000000Z", NEVER_ENDS);
    service.done(&["keys", "cert", "www", &certificate]);
    service.end();
}

#[test]
fn a_renewal_takes_a_certificate_that_has_expired_or_begins_later_or_is_older_only_if_asked() {
    library::built("sidecore-openssl");
    let home = Home::new();
    let service = home.serve();
    let (key, present) = dated(&home, "www", "20250601000000Z", NEVER_ENDS);
    let output = home.path("www.key.pem").to_str().unwrap().to_owned();
    service.done(&["keys", "import", "www", &key]);
    service.done(&["keys", "cert", "www", &present]);
    service.done(&["keys", "pem", "www", "--output", &output]);
    let renew = |(key, certificate): &(String, String), more: &[&str]| {
        let renew = ["keys", "renew", "www", key, "--certificate", certificate, "--output", &output];
        service.run(&[&renew[..], more].concat())
    };
    for (name, begins, ends, said) in [
        ("ended", "20200101000000Z", "20210101000000Z", "was valid until 2021-01-01T00:00:00Z, and it is 20"),
        ("later", "20800101000000Z", NEVER_ENDS, "is valid from 2080-01-01T00:00:00Z, and it is 20"),
        ("older", "20250531000000Z", NEVER_ENDS, "and the present one from 2025-06-01T00:00:00Z"),
    ] {
        let new = dated(&home, name, begins, ends);
        let (listed, file) = (service.done(&["keys", "list", "--json"]), fs::read(&output).unwrap());
        let reload = format!("touch '{}'", home.path("reloaded").display());
        let done = renew(&new, &["--reload", &reload]);
        let refused = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{refused}");
        for part in [said, "--allow-expired", "nothing was changed"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!((service.done(&["keys", "list", "--json"]), fs::read(&output).unwrap()), (listed, file));
        assert!(!home.path("reloaded").exists());
    }
    let older = dated(&home, "older", "20250531000000Z", NEVER_ENDS);
    assert!(renew(&older, &["--allow-expired"]).status.success());
    // The renewed key has its certificate, as the former one had.
    let list = service.done(&["keys", "list", "--json"]);
    assert_eq!(list.matches(r#""certificates":1"#).count(), 2, "{list}");
    // The former key does not come back by mistake, which its certificate of a later date would permit.
    let done = renew(&(key.clone(), present.clone()), &[]);
    assert!(text(&done.stderr).contains("is of the former key www, and www.1"), "{}", text(&done.stderr));
    assert!(renew(&(key, present), &["--allow-expired"]).status.success());
    service.end();
}

#[test]
fn a_renewal_without_a_servers_file_stores_key_and_chain_for_programs_that_follow_the_name() {
    let home = Home::new();
    let service = home.serve();
    let (key, present) = dated(&home, "www", "20250601000000Z", NEVER_ENDS);
    service.done(&["keys", "import", "www", &key, "--uid", "4711"]);
    service.done(&["keys", "cert", "www", &present]);
    let (new_key, new) = dated(&home, "new", "20250602000000Z", NEVER_ENDS);
    let renew = ["keys", "renew", "www", &new_key, "--certificate", &new];
    let failed = service.refused(&[&renew[..], &["--reload", "false"]].concat());
    assert!(
        failed.contains("`false` failed (exit status: 1); the key www.1") && failed.contains("is deleted"),
        "{failed}"
    );
    let said = service.done(&renew);
    assert!(said.contains("the key www.1") && said.contains("user 4711"), "{said}");
    assert_eq!(service.done(&["keys", "list", "--json"]).matches(r#""certificates":1"#).count(), 2);
    service.end();
}
