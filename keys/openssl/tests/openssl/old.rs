//! Programs that sign or decrypt through OpenSSL's objects of the old kind (`RSA`, `EC_KEY`).

use crate::common::{Site, module};
use crate::newer;
use crate::programs::{made, says};
use crate::sight::{is_root, lines, log_of, logged};
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand, read_private_key};
use sidecore_testing::skipped;
use std::fs;
use std::process::Command;

const KEYS: [&str; 4] = ["rsa2048", "p256", "p384", "p521"];

#[test]
fn an_old_object_works_in_the_service_and_no_copy_of_its_numbers_signs() {
    let site = Site::with(&KEYS);
    let program = made(&site, "old");
    for key in KEYS {
        let file = format!("{key}.pem");
        assert_eq!(says(&site, &mut Command::new(&program), &["whole", &file]), "done", "{key}");
        if let Err(why) = newer::command("openssl") {
            return skipped(&format!("no OpenSSL 3.5: {why}"));
        }
        assert_eq!(
            says(&site, &mut newer::command(program.to_str().unwrap()).unwrap(), &["whole", &file]),
            "done",
            "{key}"
        );
    }
}

#[test]
fn old_objects_work_in_threads_and_forked_children_and_are_freed_last() {
    let site = Site::with(&["rsa2048", "p256"]);
    let program = made(&site, "old");
    for file in ["rsa2048.pem", "p256.pem"] {
        for part in ["threads", "late"] {
            assert_eq!(says(&site, &mut Command::new(&program), &[part, file]), "done", "{part} {file}");
        }
    }
}

#[test]
fn an_old_object_outlives_its_provider_and_then_only_fails() {
    let site = Site::with(&["rsa2048", "p256"]);
    let program = made(&site, "old");
    for file in ["rsa2048.pem", "p256.pem"] {
        let mut command = Command::new(&program);
        command.env("SIDECORE_SOCKET", site.path("socket"));
        command.args(["unloaded", file, module().to_str().unwrap()]).current_dir(site.path(""));
        let ended = command.env("OPENSSL_CONF", "/dev/null").output().unwrap();
        assert!(ended.status.success(), "{file}: {} {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    }
}

#[test]
fn an_old_object_says_why_it_cannot_sign() {
    let mut site = Site::with(&["rsa2048", "p256"]);
    let program = made(&site, "old");
    site.service = None;
    for file in ["rsa2048.pem", "p256.pem"] {
        let told = says(&site, &mut Command::new(&program), &["fails", file]);
        assert!(told.starts_with("sidecore: no sidecore service answers at its socket"), "{told}");
    }
}

#[test]
fn valgrind_finds_no_fault_with_old_objects() {
    let site = Site::with(&["rsa2048", "p256"]);
    let program = made(&site, "old");
    for file in ["rsa2048.pem", "p256.pem"] {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9"]).arg(&program);
        assert_eq!(says(&site, &mut valgrind, &["whole", file]), "done");
    }
}

#[test]
fn the_log_names_old_objects_and_old_settings_once_a_process() {
    if !is_root() {
        return skipped("only root can give a program another /dev");
    }
    let site = Site::with(&["rsa2048", "p256"]);
    let program = made(&site, "old");
    let log = log_of(&site);
    let cnf = fs::read_to_string(site.path("openssl.cnf")).unwrap();
    for (setting, file, object) in [("none", "rsa2048", "RSA object"), ("placeholder", "p256", "EC_KEY object")] {
        fs::write(site.path("openssl.cnf"), cnf.replace("socket = ", &format!("legacy = {setting}\nsocket = ")))
            .unwrap();
        let whole = ["whole", &format!("{file}.pem")];
        assert_eq!(says(&site, &mut logged(program.to_str().unwrap()), &whole), "done");
        let told = lines(&log);
        let (first, rest) = told.split_first().unwrap();
        assert!(
            first.starts_with("<29>sidecore[") && first.contains(&format!(": legacy = {setting} has no effect")),
            "{first}"
        );
        let is = |part: &str| rest.iter().filter(|line| line.contains(part)).count();
        let of_key =
            format!(": old, user 0, key {file}: the program has the {object} of the key. It signs in the service.");
        assert_eq!(is(&of_key), 1, "{told:?}");
        assert_eq!(
            is("the service signs no number that it has not padded"),
            usize::from(file == "rsa2048"),
            "{told:?}"
        );
    }
    fs::write(site.path("openssl.cnf"), cnf.replace("socket = ", "legacy = all\nsocket = ")).unwrap();
    let mut loading = Command::new(&program);
    loading.args(["fails", "p256.pem"]).current_dir(site.path("")).env("OPENSSL_CONF", "openssl.cnf");
    let refused = String::from_utf8(loading.output().unwrap().stderr).unwrap();
    assert!(refused.contains("legacy = all: this setting is gone, remove the line"), "{refused}");
}

const MESSAGE: &str = "From: a@example.org\r\nTo: b@example.org\r\nSubject: x\r\nDate: Thu, 01 Jan 2026 00:00:00 +0000\r\n\
                       Message-ID: <1@example.org>\r\n\r\nbody\r\n";

#[test]
fn opendkim_makes_the_signature_of_the_key_in_a_file() {
    let site = Site::with(&[]);
    site.plain(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "dkim.key"]);
    let pkcs8 = read_private_key(&fs::read(site.path("dkim.key")).unwrap(), None).unwrap();
    site.admin().keys(KeyCommand::Import { name: "dkim".to_owned(), pkcs8, acl: Acl::default() }).unwrap();
    fs::write(site.path("dkim.pem"), Uri::new("dkim").unwrap().to_pem()).unwrap();
    fs::write(site.path("message"), MESSAGE).unwrap();
    let signed = |key: &str| {
        let mut opendkim = Command::new("opendkim-testmsg");
        opendkim.args(["-d", "example.org", "-s", "sel", "-k", key]).env("OPENSSL_CONF", "openssl.cnf");
        opendkim.current_dir(site.path("")).stdin(fs::File::open(site.path("message")).unwrap());
        let ended = opendkim.output().expect("opendkim-testmsg, which tools/xtask/packages.txt names");
        assert!(ended.status.success(), "{key}: {} {}", ended.status, String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    };
    // PKCS#1 v1.5 signs the same bytes in the same way. They have the time, in seconds.
    let second = |signed: &str| signed.split("t=").nth(1).map(|rest| rest[..10].to_owned());
    let both = || (signed("dkim.pem"), signed("dkim.key"));
    let same_second = |(stored, file): &(String, String)| second(stored) == second(file);
    let (stored, file) = std::iter::repeat_with(both).find(same_second).unwrap();
    assert!(stored.starts_with("DKIM-Signature:") && stored == file, "{stored}\n{file}");
}

/// Starts h2o, whose program for keys is on, and shakes hands with these options.
const H2O: &str = r#"
ip link set lo up
printf 'listen:\n  port: 8443\n  host: 127.0.0.1\n  ssl:\n    certificate-file: %s\n    key-file: %s\nuser: root\nnum-threads: 1\n' "$1.crt" "$1.pem" >h2o.conf
printf 'hosts:\n  "localhost":\n    paths:\n      /:\n        file.dir: .\n' >>h2o.conf
h2o -c h2o.conf >h2o.log 2>&1 &
trap 'kill $!' EXIT
for try in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/8443) 2>/dev/null && break; sleep 0.1; done
OPENSSL_CONF=/dev/null openssl s_client -connect 127.0.0.1:8443 -CAfile "$1.crt" -brief $2 </dev/null 2>&1 || true
"#;

#[test]
fn h2os_process_for_keys_signs_by_the_service_and_the_log_says_where_it_pads_itself() {
    if !is_root() {
        return skipped("only root can give a program a network and a /dev of its own");
    }
    let site = Site::with(&["rsa2048", "p256"]);
    let log = log_of(&site);
    let handshake = |key: &str, options: &str| {
        site.ok(&[
            "req",
            "-x509",
            "-new",
            "-key",
            &format!("{key}.pem"),
            "-subj",
            "/CN=localhost",
            "-out",
            &format!("{key}.crt"),
        ]);
        let mut h2o = logged("unshare");
        h2o.args(["--net", "bash", "-ec", H2O, "bash", key, options]).current_dir(site.path(""));
        let ended = h2o.env("OPENSSL_CONF", "openssl.cnf").output().unwrap();
        let told = String::from_utf8_lossy(&ended.stdout).into_owned();
        (told.contains("Verification: OK"), told + &fs::read_to_string(site.path("h2o.log")).unwrap())
    };
    for (key, options) in [("p256", ""), ("rsa2048", "-tls1_2 -sigalgs RSA+SHA256")] {
        let (good, told) = handshake(key, options);
        assert!(good, "{key}: {told}");
    }
    lines(&log);
    let (good, told) = handshake("rsa2048", "");
    assert!(!good, "{told}");
    let told = lines(&log);
    let why = |line: &String| {
        line.contains(": h2o, user 0, key rsa2048: an RSA signature that the program has padded itself")
    };
    assert!(told.iter().any(why), "{told:?}");
}
