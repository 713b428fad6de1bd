//! `sidecore keys renew` and `keys pem --output`: all steps or none, at each failure and each kill.

use super::{Home, Serving, command, library, text};
use sidecore::keys::uri::Uri;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

struct Renewals {
    home: Home,
    serving: Serving,
}

impl Renewals {
    fn new() -> Self {
        // `sidecore` looks for the provider in its own directory.
        library::built("sidecore-openssl");
        let home = Home::new();
        let renewals = Self { serving: home.serve(), home };
        renewals.certify("old");
        renewals.certify("new");
        renewals.serving.done(&["keys", "import", "www", &renewals.file("old.key"), "--uid", "4711"]);
        renewals.serving.done(&["keys", "pem", "www", "--output", &renewals.output(), "--mode", "0640"]);
        renewals
    }

    fn file(&self, name: &str) -> String {
        self.home.path(name).to_str().unwrap().to_owned()
    }

    fn output(&self) -> String {
        self.file("www.sidecore.pem")
    }

    fn certify(&self, name: &str) {
        let mut openssl = Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            "/CN=www",
        ]);
        openssl.args(["-keyout", &self.file(&format!("{name}.key")), "-out", &self.file(&format!("{name}.crt"))]);
        assert!(openssl.output().unwrap().status.success());
    }

    fn command(&self, key: &str, certificate: &str, more: &[&str]) -> Command {
        let (key, certificate, output) = (self.file(key), self.file(certificate), self.output());
        let mut renew = command();
        renew.args(["keys", "renew", "www", &key, "--certificate", &certificate, "--output", &output]).args(more);
        renew.env("SIDECORE_SOCKET", &self.serving.socket).stdin(Stdio::null());
        renew
    }

    fn renew(&self, more: &[&str]) -> Output {
        self.command("new.key", "new.crt", more).output().unwrap()
    }

    fn refused(&self, key: &str, certificate: &str, more: &[&str]) -> String {
        let (keys, file) = (self.keys(), fs::read(self.output()).unwrap());
        let done = self.command(key, certificate, more).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{}", text(&done.stdout));
        assert_eq!(self.keys(), keys, "{}", text(&done.stderr));
        assert_eq!(fs::read(self.output()).unwrap(), file);
        self.nothing_is_left();
        text(&done.stderr)
    }

    fn nothing_is_left(&self) {
        let names = fs::read_dir(self.home.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let beside: Vec<_> = names.filter(|name| name.to_str().unwrap().starts_with(".sidecore-")).collect();
        assert!(beside.is_empty(), "{beside:?}");
    }

    fn keys(&self) -> Vec<String> {
        let listed = self.serving.done(&["keys", "list", "--json"]);
        let name = |line: &str| line.split("\"name\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        listed.lines().map(name).collect()
    }

    fn named(&self) -> String {
        Uri::from_pem(&fs::read(self.output()).unwrap()).unwrap().name().to_owned()
    }
}

#[test]
fn a_renewed_key_has_a_name_of_its_own_and_the_users_mode_and_owner_of_the_former() {
    let renewals = Renewals::new();
    let owner = fs::metadata(renewals.output()).unwrap().uid();
    let key = fs::read(renewals.file("new.key")).unwrap();
    let reload = format!("echo reloaded >>'{}'", renewals.file("reloads"));
    let done = renewals.renew(&["--reload", &reload]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains("user 4711") && said.contains("the former key www is kept"), "{said}");
    let new = renewals.named();
    assert!(new.starts_with("www.") && renewals.keys() == ["www", &new], "{new} of {:?}", renewals.keys());
    let file = fs::metadata(renewals.output()).unwrap();
    assert_eq!((file.mode() & 0o7777, file.uid()), (0o640, owner));
    assert_eq!(fs::read(renewals.file("new.key")).unwrap(), key, "certbot needs it");
    // A second run imports no further key.
    assert!(renewals.renew(&["--reload", &reload]).status.success());
    assert_eq!((renewals.keys().len(), renewals.named()), (2, new));
    assert_eq!(fs::read_to_string(renewals.file("reloads")).unwrap(), "reloaded\nreloaded\n");
    renewals.nothing_is_left();
}

#[test]
fn where_a_step_fails_all_is_as_it_was() {
    let renewals = Renewals::new();
    let reload = ["--reload", "false"];
    for (key, certificate, more, what) in [
        ("new.key", "old.crt", &[][..], "is of another key"),
        ("new.key", "none.crt", &[], "none.crt: No such file"),
        ("new.crt", "new.crt", &[], "no private key"),
        ("new.key", "new.crt", &reload, "`false` failed (exit status: 1)"),
        ("new.key", "new.crt", &["--reload", "kill -9 $$"], "SIGKILL"),
        ("new.key", "new.crt", &["--reload", "sleep 600", "--reload-timeout", "1"], "`sleep 600` took more than 1 s"),
        ("new.key", "new.crt", &["--as", "nobody-of-this-name"], "no user"),
        ("new.key", "new.crt", &["--grace", "4000"], "from 0 to 3650"),
    ] {
        let said = renewals.refused(key, certificate, more);
        assert!(said.contains(what), "{said}");
    }
    let said = renewals.refused("new.key", "new.crt", &reload);
    assert!(said.contains("is as it was; the key www.") && said.contains("is deleted again"), "{said}");
    // OpenSSL does not load the key: there is no signature.
    let (keys, mut renew) = (renewals.keys(), renewals.command("new.key", "new.crt", &[]));
    let done = renew.env("OPENSSL_CONF", "/dev/null").output().unwrap();
    assert!(done.status.code() == Some(2) && text(&done.stderr).contains("FAILED provider"), "{done:?}");
    assert_eq!((renewals.keys(), renewals.named()), (keys, "www".to_owned()));
}

#[test]
fn a_servers_file_that_is_not_of_this_name_is_refused() {
    let renewals = Renewals::new();
    fs::write(renewals.output(), Uri::new("api").unwrap().to_pem()).unwrap();
    assert!(renewals.refused("new.key", "new.crt", &[]).contains("names the key \"api\""));
    fs::copy(renewals.file("old.key"), renewals.output()).unwrap();
    assert!(renewals.refused("new.key", "new.crt", &[]).contains("it holds a private key"));
    // A stamped name is a key's own, and has no keys below it.
    let mut renew = command();
    renew.args(["keys", "renew", "www.1795621440", "x", "--certificate", "x", "--output", "x"]);
    assert!(text(&renew.output().unwrap().stderr).contains("give the name that they have in common, www"));
}

#[test]
fn where_there_was_no_file_a_failure_leaves_none() {
    let renewals = Renewals::new();
    fs::remove_file(renewals.output()).unwrap();
    assert!(!renewals.renew(&["--reload", "false"]).status.success());
    assert!(!Path::new(&renewals.output()).exists());
    assert!(renewals.renew(&["--gid", "4711"]).status.success());
    assert!(renewals.serving.done(&["keys", "list", "--json"]).contains("\"gids\":[4711]"));
}

#[test]
fn killed_while_the_server_reloads_it_is_run_again_and_finishes() {
    let renewals = Renewals::new();
    let reloads = renewals.file("reloads");
    let mut renew = renewals.command(
        "new.key",
        "new.crt",
        &["--reload", &format!("echo >'{reloads}'; exec sleep 600 >/dev/null 2>&1")],
    );
    let mut renew = renew.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !Path::new(&reloads).exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let sleeping = fs::read_to_string(format!("/proc/{0}/task/{0}/children", renew.id())).unwrap();
    renew.kill().unwrap();
    renew.wait().unwrap();
    let sleeping = rustix::process::Pid::from_raw(sleeping.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(sleeping, rustix::process::Signal::KILL).unwrap();
    // The server's file names the new key or still the old one; both are in the service.
    let new = renewals.named();
    assert_eq!(renewals.keys(), ["www", &new]);
    assert!(renewals.renew(&["--reload", "true"]).status.success());
    assert_eq!((renewals.keys(), renewals.named()), (vec!["www".to_owned(), new.clone()], new));
}

#[test]
fn of_two_at_once_one_is_refused() {
    let renewals = Renewals::new();
    let [renew, first, second] = ["renew", "first", "second"].map(|name| renewals.file(name));
    let again = renewals.command("new.key", "new.crt", &[]);
    let words: Vec<_> = again.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    fs::write(&renew, format!("'{}' {}", env!("CARGO_BIN_EXE_sidecore"), words.join(" "))).unwrap();
    let reload = format!("! sh '{renew}' 2>'{second}'");
    let done = renewals.command("new.key", "new.crt", &["--reload", &reload]).output().unwrap();
    assert!(done.status.success(), "{first}: {}", text(&done.stderr));
    assert!(fs::read_to_string(second).unwrap().contains("another renewal with this file is at work"));
}

#[test]
fn what_the_server_was_given_meanwhile_by_another_stays() {
    let renewals = Renewals::new();
    let (other, output) = (renewals.file("other.pem"), renewals.output());
    fs::write(&other, Uri::new("api").unwrap().to_pem()).unwrap();
    let done = renewals.renew(&["--reload", &format!("mv '{other}' '{output}'; false")]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("is kept"), "{}", text(&done.stderr));
    assert_eq!((renewals.named(), renewals.keys().len()), ("api".to_owned(), 2));
}

#[test]
fn former_keys_are_deleted_after_their_grace_and_those_of_other_names_never() {
    let renewals = Renewals::new();
    for name in ["www.1000000000", "www.1000000001", "www.example", "wwww", "www.123"] {
        renewals.serving.done(&["keys", "generate", name, "--kind", "ed25519"]);
    }
    let done = renewals.renew(&[]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    // Former for long enough, but used too recently.
    assert_eq!(renewals.keys().len(), 7, "{}", text(&done.stdout));
    let done = renewals.renew(&["--grace", "0"]);
    let said = text(&done.stdout);
    assert!(done.status.success() && said.contains("the former key www.1000000000 is deleted\n"), "{said}");
    assert_eq!(renewals.keys(), ["www.123", &renewals.named(), "www.example", "wwww"]);
}

#[test]
fn a_file_that_keys_pem_did_not_write_stays() {
    let renewals = Renewals::new();
    let pem = |file: &str| renewals.serving.refused(&["keys", "pem", "www", "--output", &renewals.file(file)]);
    fs::write(renewals.file("both"), format!("{}{}", renewals.named(), "-----BEGIN CERTIFICATE-----\n")).unwrap();
    symlink(renewals.file("old.key"), renewals.file("link")).unwrap();
    for (file, what) in [
        ("old.key", "it holds a private key"),
        ("old.crt", "it holds a certificate"),
        ("both", "it holds a certificate"),
        ("link", "it is a link to"),
        ("", "directory"),
    ] {
        let content = || fs::read(renewals.file(file)).unwrap_or_default();
        let (before, said) = (content(), pem(file));
        assert!(said.contains(what) && said.contains("nothing was changed"), "{file}: {said}");
        assert_eq!(content(), before);
    }
    assert!(renewals.serving.refused(&["keys", "pem", "www", "--output", "/dev/null"]).contains("a device"));
    fs::set_permissions(renewals.output(), Permissions::from_mode(0o600)).unwrap();
    renewals.serving.done(&["keys", "pem", "www", "--output", &renewals.output()]);
}
