//! The audit trail: changes, and the user of each.

use crate::serving::{Home, field, number};
use rustix::process::{getegid, geteuid};
use sidecore::core::session::Op;
use sidecore::engine::crypto::{KeyMaterial, Scheme, SessionSpec};
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../service/src/keys/test-files");
/// `sha256sum` of the public parts of the two imported keys, `SubjectPublicKeyInfo` in DER.
const RSA: &str = "sha256:fa967bc8c06953838d95058fbca642375fd59d569743814f5ff01399ec959820";
const P256: &str = "sha256:9eb00c9c073dff965ad6a714cbc2c71caea9dc0c54fdc86ce875fd198ff5cd9a";
const STRANGER: u32 = 4711;

fn home() -> Home {
    let home = Home::new("");
    let config = fs::read_to_string(home.path("config")).unwrap();
    let (keys, passphrase) = (home.path("keys"), home.path("passphrase"));
    private_file(&passphrase, "open sesame\n");
    private_file(&home.path("new"), "open simsim\n");
    let section = format!("[keys]\ndirectory = '{}'\npassphrase_file = '{}'\n", keys.display(), passphrase.display());
    fs::write(home.path("config"), config + &section).unwrap();
    home
}

fn private_file(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn each_change_of_a_key_says_who_which_key_and_what_was_before() {
    let home = home();
    let service = home.serve(&["--log", "json"]);
    let [rsa, p256] = ["rsa-2048.pkcs1.pem", "p-256.pkcs8.pem"].map(|name| format!("{KEYS}/{name}"));
    let certificate = format!("{KEYS}/p-256.certificate.pem");
    let changes = [
        (vec!["import", "www", &rsa, "--uid", "33"], "key-imported", RSA, "uid:33"),
        (vec!["import", "www", &p256, "--replace"], "key-replaced", P256, "uid:33"),
        (vec!["rename", "www", "shop"], "key-renamed", P256, "uid:33"),
        (vec!["rename", "shop", "www"], "key-renamed", P256, "uid:33"),
        (vec!["acl", "www", "--add", "--gid", "7"], "key-users-changed", P256, "uid:33,gid:7"),
        (vec!["remote", "www", "--also"], "key-site-changed", P256, "uid:33,gid:7"),
        (vec!["usage", "www", "sign"], "key-usage-changed", P256, "uid:33,gid:7"),
        (vec!["limit", "www", "100/s"], "key-limit-changed", P256, "uid:33,gid:7"),
        (vec!["cert", "www", &certificate], "key-certificates-changed", P256, "uid:33,gid:7"),
        (vec!["delete", "www"], "key-deleted", P256, "uid:33,gid:7"),
    ];
    for (arguments, event, fingerprint, users) in changes {
        let arguments: Vec<&str> = ["keys"].into_iter().chain(arguments).collect();
        let pid = service.done(&arguments);
        let line = service.wait_for(event);
        let name = if arguments.ends_with(&["shop"]) { "shop" } else { "www" };
        assert_eq!((field(&line, "level"), field(&line, "key")), ("notice".to_owned(), name.to_owned()));
        assert_eq!((field(&line, "fingerprint"), field(&line, "users")), (fingerprint.to_owned(), users.to_owned()));
        let who = (number(&line, "uid"), number(&line, "gid"), number(&line, "pid"), field(&line, "from"));
        let own = (u64::from(geteuid().as_raw()), u64::from(getegid().as_raw()), pid, "socket".to_owned());
        assert_eq!(who, own, "{line}");
        let before = [
            ("fingerprint_before", "key-replaced", RSA),
            ("users_before", "key-users-changed", "uid:33"),
            // What each kind does: the other key agrees on secrets and decrypts nothing.
            ("usage_before", "key-replaced", "sign,decrypt"),
            ("usage_before", "key-usage-changed", "sign,derive"),
            ("limit_before", "key-limit-changed", "none"),
        ];
        for name in ["fingerprint_before", "users_before", "usage_before", "limit_before"] {
            let was =
                before.iter().find(|(field, only, _)| (*field, *only) == (name, event)).map_or("", |found| found.2);
            assert_eq!(field(&line, name), was, "{line}");
        }
    }
    let pid = service.done(&["keys", "generate", "api", "--kind", "ed25519"]);
    let made = service.wait_for("key-generated");
    assert_eq!((field(&made, "kind"), number(&made, "pid")), ("ed25519".to_owned(), pid));
    let new = home.path("new").display().to_string();
    let pid = service.done(&["keys", "passphrase", "--new-passphrase-file", &new]);
    assert_eq!(number(&service.wait_for("passphrase-changed"), "pid"), pid);
    service.end();
}

#[test]
fn a_request_that_is_refused_in_a_lane_is_told_with_its_key_and_the_reason() {
    let home = home();
    let service = home.serve(&["--log", "json"]);
    service.done(&["keys", "generate", "www", "--kind", "ed25519"]);
    let mut client = service.client();
    let spec = SessionSpec { scheme: Scheme::Ed25519, key: KeyMaterial::Stored("www".to_owned()) };
    let session = client.open_session(&spec).unwrap();
    // One by one, as a program does that has another idea of its session.
    assert!(client.call(session, Op::Decrypt, 0, b"text", 64).is_err());
    let line = service.wait_for("refused");
    let said = field(&line, "message");
    assert!(
        said.contains("a request with the key www was refused: this session's algorithm or key cannot do"),
        "{line}"
    );
    let who = (field(&line, "reason"), number(&line, "uid"), number(&line, "pid"));
    let own = (u64::from(geteuid().as_raw()), u64::from(std::process::id()));
    assert_eq!(who, ("request".to_owned(), own.0, own.1));
    // A crowd of them is a few lines.
    for _ in 0..2000 {
        assert!(client.call(session, Op::Decrypt, 0, b"text", 64).is_err());
    }
    drop(client);
    let log = service.end();
    let told = log.iter().filter(|line| field(line, "reason") == "request").count();
    assert!(told < 200, "{told} lines");
}

#[test]
fn a_setting_says_who_what_was_in_force_and_what_is() {
    let home = Home::new("");
    let service = home.serve(&["--log", "json"]);
    let pid = service.done(&["set", "notify.client=park"]);
    let line = service.wait_for("set");
    let told = ["setting", "before", "now"].map(|name| field(&line, name));
    assert_eq!(told, ["notify.client=park", "notify.client=break-even", "notify.client=park"]);
    assert_eq!((number(&line, "uid"), number(&line, "pid")), (u64::from(geteuid().as_raw()), pid));
    service.done(&["set", "device={name='w',kind='worker'}"]);
    assert_eq!(field(&service.wait_for("set"), "setting"), "device={name='w',kind='worker'}");
    let log = service.end();
    assert!(log.iter().all(|line| field(line, "event") != "set"), "{log:?}");
}

#[test]
fn what_is_refused_changes_nothing_and_says_whom_and_why() {
    if !geteuid().is_root() {
        return skipped("only root can become the user who is refused");
    }
    let home = home();
    home.lets_others_in();
    let service = home.serve(&["--log", "json"]);
    service.done(&["keys", "generate", "www", "--kind", "ed25519"]);
    service.wait_for("key-generated");
    let stranger = |arguments: &[&str]| {
        let mut command = Command::new(home.path("sidecore"));
        command.args(arguments).env("SIDECORE_SOCKET", home.socket()).uid(STRANGER).gid(STRANGER);
        assert_eq!(command.output().unwrap().status.code(), Some(2));
    };
    for arguments in [&["keys", "delete", "www"][..], &["set", "balance=sed"], &["keys", "pem", "www"]] {
        stranger(arguments);
        let line = service.wait_for("refused");
        assert_eq!((field(&line, "reason"), number(&line, "uid")), ("not-allowed".to_owned(), u64::from(STRANGER)));
    }
    let log = service.end();
    assert!(log.iter().all(|line| !["set", "key-deleted"].contains(&field(line, "event").as_str())), "{log:?}");
}
