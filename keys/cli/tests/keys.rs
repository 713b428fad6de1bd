//! `sidecore keys` as an administrator types it, against a service with keys at rest.

#[path = "servers/library.rs"]
mod library;
#[path = "keys/rename.rs"]
mod rename;
#[path = "keys/renew.rs"]
mod renew;
#[path = "keys/terms.rs"]
mod terms;
#[path = "keys/transfer.rs"]
mod transfer;

use rustix::process::{Pid, Signal, kill_process};
use sidecore_testing::{copy_program, skipped};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../service/src/keys/test-files");

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn private_file(path: &Path, content: &str) -> PathBuf {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    path.to_owned()
}

struct Home(TempDir);

struct Serving {
    child: Child,
    socket: PathBuf,
}

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        private_file(&home.path("passphrase"), "open sesame\n");
        home
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn lets_others_in(&self) {
        fs::set_permissions(self.0.path(), Permissions::from_mode(0o755)).unwrap();
        copy_program(env!("CARGO_BIN_EXE_sidecore"), self.path("sidecore"));
    }

    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.path("keys")).unwrap();
        files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn command(&self, keys: &str) -> Command {
        let config = format!("socket = '{}'\nsocket_mode = '0666'\n{keys}", self.path("run/socket").display());
        fs::write(self.path("config"), config).unwrap();
        let mut serve = command();
        serve.arg("serve").arg("--config").arg(self.path("config")).stderr(Stdio::piped());
        serve.arg("--passphrase-file").arg(self.path("passphrase"));
        serve
    }

    fn serve(&self) -> Serving {
        self.serve_with("")
    }

    fn serve_with(&self, more: &str) -> Serving {
        let keys = format!("[keys]\ndirectory = '{}'\n{more}", self.path("keys").display());
        self.start(self.command(&keys))
    }

    fn serve_in_memory(&self, more: &str) -> Serving {
        self.command(&format!("[keys]\n{more}"));
        let mut serve = command();
        serve.arg("serve").arg("--config").arg(self.path("config")).stderr(Stdio::piped());
        self.start(serve)
    }

    fn start(&self, mut serve: Command) -> Serving {
        let serving = Serving { child: serve.spawn().unwrap(), socket: self.path("run/socket") };
        for _ in 0..1000 {
            if serving.run(&["set", "notify=park"]).status.success() {
                return serving;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no service at {}", serving.socket.display());
    }
}

impl Serving {
    fn run(&self, arguments: &[&str]) -> Output {
        command().args(arguments).env("SIDECORE_SOCKET", &self.socket).output().unwrap()
    }

    fn as_stranger(&self, arguments: &[&str]) -> Output {
        let copy = self.socket.ancestors().nth(2).unwrap().join("sidecore");
        let mut command = Command::new(copy);
        command.args(arguments).env("SIDECORE_SOCKET", &self.socket).uid(STRANGER).gid(STRANGER);
        command.output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(file: &str) -> String {
    format!("{KEYS}/{file}")
}

#[test]
fn the_clients_example_signs_with_a_stored_key() {
    let home = Home::new();
    let serving = home.serve();
    let example = library::file("sidecore-client", "examples/sign");
    let message = home.path("message");
    fs::write(&message, "an order").unwrap();
    for (name, kind, file) in [("shop", "p-256", "p-256.pkcs8.pem"), ("www", "rsa", "rsa-2048.pkcs1.pem")] {
        serving.done(&["keys", "import", name, &key(file)]);
        let mut sign = Command::new(&example);
        sign.args([name, kind]).env("SIDECORE_SOCKET", &serving.socket).stdin(fs::File::open(&message).unwrap());
        let signed = sign.output().unwrap();
        assert!(signed.status.success(), "{}", text(&signed.stderr));
        fs::write(home.path("signature"), signed.stdout).unwrap();
        let mut verify = Command::new("openssl");
        verify.args(["dgst", "-sha256", "-prverify", &key(file), "-signature"]).arg(home.path("signature"));
        let verified = verify.arg(&message).output().unwrap();
        assert_eq!(text(&verified.stdout), "Verified OK\n", "{}", text(&verified.stderr));
    }
    let wrong = |arguments: &[&str]| {
        let mut sign = Command::new(&example);
        sign.args(arguments).env("SIDECORE_SOCKET", &serving.socket).stdin(Stdio::null());
        let output = sign.output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(wrong(&["shop"]).contains("usage: sign KEY"));
    assert!(wrong(&["shop", "ed25519"]).contains("write rsa or p-256"));
    assert!(wrong(&["none", "rsa"]).contains("none"));
}

#[test]
fn keys_are_imported_made_listed_and_deleted_and_survive_a_restart() {
    let home = Home::new();
    let service = home.serve();
    let sesame = private_file(&home.path("sesame"), "sesame");
    let sesame = sesame.to_str().unwrap();
    let said = service.done(&["keys", "import", "www", &key("rsa-2048.pkcs1.pem"), "--uid", "root", "--gid", "4711"]);
    assert!(said.contains("www is a key of kind rsa-2048; user root (0), group 4711"), "{said}");
    service.done(&["keys", "import", "shop", &key("p-256.p12"), "--passphrase-file", sesame]);
    service.done(&["keys", "import", "mail", &key("p-256.encrypted.pem"), "--passphrase-file", sesame]);
    service.done(&["keys", "import", "pq", &key("ml-kem-768.pem")]);
    assert!(service.done(&["keys", "generate", "new", "--kind", "ed25519"]).contains("ed25519"));
    service.done(&["keys", "acl", "new", "--set", "--uid", "12", "--uid", "3", "--uid", "12"]);
    service.done(&["keys", "delete", "mail"]);
    let before = service.done(&["keys", "list", "--json"]);
    service.end();

    let service = home.serve();
    assert_eq!(service.done(&["keys", "list", "--json"]), before);
    let lines: Vec<&str> = before.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        lines[0],
        r#"{"at_rest":true,"certificates":0,"gids":[],"kind":"ed25519","limit":null,"name":"new","owner":null,"private_part":"here","uids":[3,12],"usage":["sign"]}"#
    );
    let list = service.done(&["keys", "list"]);
    assert!(list.contains("ml-kem-768") && list.contains("at rest") && !list.contains("mail"), "{list}");
    service.end();
}

/// The user that the refusals of these tests name. Every Linux has it.
const STRANGER: u32 = 65534;

#[test]
fn a_shell_completes_names_of_stored_keys() {
    let home = Home::new();
    let serving = home.serve();
    for name in ["web", "www"] {
        serving.done(&["keys", "generate", name, "--kind", "p-256"]);
    }
    let offered = |words: &[&str]| {
        let mut asks = command();
        asks.args(["--", "sidecore", "keys"]).args(words).env("SIDECORE_COMPLETE", "fish");
        text(&asks.env("SIDECORE_SOCKET", &serving.socket).output().unwrap().stdout)
    };
    assert_eq!(offered(&["delete", "w"]), "web\nwww\n");
    assert_eq!(offered(&["pem", "ww"]), "www\n");
    assert_eq!(offered(&["generate", "w"]), "", "a new name");
    assert_eq!(offered(&["acl", "x"]), "");
}

#[test]
fn following_the_advice_of_a_refusal_takes_no_right_from_others() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can start a program of another user");
    }
    let home = Home::new();
    home.lets_others_in();
    let service = home.serve();
    service.done(&["keys", "generate", "www", "--kind", "p-256", "--uid", "33", "--gid", "4711"]);
    let refused = service.as_stranger(&["keys", "pem", "www"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let said = text(&refused.stderr);
    let advice = said.split('`').nth(1).unwrap();
    let words: Vec<&str> = advice.split(' ').collect();
    assert_eq!(words[0], "sidecore", "{said}");
    service.done(&words[1..]);
    assert!(service.as_stranger(&["keys", "pem", "www"]).status.success());
    let list = || service.done(&["keys", "list", "--json"]);
    assert!(list().contains(r#""uids":[33,65534]"#) && list().contains(r#""gids":[4711]"#), "{}", list());
    // Names work too, and only the named users and groups are removed.
    service.done(&["keys", "acl", "www", "--remove", "--uid", "nobody", "--gid", "root"]);
    assert!(list().contains(r#""uids":[33]"#) && list().contains(r#""gids":[4711]"#), "{}", list());
    assert_eq!(service.as_stranger(&["keys", "pem", "www"]).status.code(), Some(2));
    service.done(&["keys", "acl", "www", "--nobody"]);
    assert!(list().contains(r#""gids":[]"#) && list().contains(r#""uids":[]"#), "{}", list());
}

#[test]
fn the_file_for_a_server_names_the_key() {
    let home = Home::new();
    let service = home.serve();
    service.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let pem = service.done(&["keys", "pem", "www"]);
    let uri = sidecore::keys::uri::Uri::from_pem(pem.as_bytes()).unwrap();
    assert_eq!(uri.to_string(), "sidecore:www");
    assert!(uri.public().is_some_and(|public| public.len() == 91), "a P-256 key's SubjectPublicKeyInfo");
    assert!(service.refused(&["keys", "pem", "wwww"]).contains("no key \"wwww\""));
    assert!(service.refused(&["keys", "pem", "../www"]).contains("letters, digits"));
}

#[test]
fn a_servers_file_is_tried_step_by_step_as_the_servers_user() {
    // `sidecore` looks for the provider in its own directory.
    library::built("sidecore-openssl");
    let home = Home::new();
    let serving = home.serve();
    let (file, certificate) = (home.path("www.key"), home.path("www.crt"));
    let (file, certificate) = (file.to_str().unwrap(), certificate.to_str().unwrap());
    let tried = |arguments: &[&str]| {
        let done = serving.run(&[&["keys", "test"], arguments].concat());
        (done.status.code(), text(&done.stdout))
    };
    serving.done(&["keys", "generate", "www", "--kind", "p-256"]);
    serving.done(&["keys", "pem", "www", "--output", file, "--mode", "0640"]);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(text(&fs::read(file).unwrap()), serving.done(&["keys", "pem", "www"]));
    let (code, said) = tried(&[file]);
    assert!(code == Some(0) && said.contains("ok     signature: one was made by the service"), "{code:?} {said}");
    // The file has its point in another form than the service.
    let given = |name: &str| format!("{}/../service/src/keys/test-files/{name}", env!("CARGO_MANIFEST_DIR"));
    serving.done(&["keys", "import", "compressed", &given("p-256.compressed.pem")]);
    serving.done(&["keys", "pem", "compressed", "--output", certificate]);
    let (code, said) = tried(&[certificate, "--certificate", &given("p-256.compressed.spki.der")]);
    assert!(code == Some(0) && said.contains("ok     certificate: it is of this key"), "{code:?} {said}");
    // A certificate of another key, and the file of another key.
    let mut other = Command::new("openssl");
    other.args([
        "req",
        "-x509",
        "-newkey",
        "ed25519",
        "-nodes",
        "-subj",
        "/CN=www",
        "-keyout",
        "/dev/null",
        "-out",
        certificate,
    ]);
    assert!(other.output().unwrap().status.success());
    let (code, said) = tried(&[file, "--certificate", certificate]);
    assert!(code == Some(1) && said.contains("FAILED certificate: it is of another key"), "{said}");
    let (code, said) = tried(&[certificate]);
    assert!(code == Some(1) && said.contains("FAILED file: no key of the service is named in it"), "{said}");
    serving.done(&["keys", "delete", "www"]);
    let (code, said) = tried(&[file]);
    assert!(code == Some(1) && said.contains("FAILED key: there is no key \"www\""), "{said}");
    serving.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let (code, said) = tried(&[file]);
    assert!(code == Some(1) && said.contains("FAILED public part: it is that of another key"), "{said}");
    serving.done(&["keys", "pem", "www", "--output", file]);
    assert_eq!(tried(&[file]).0, Some(0));
    for (server, says) in [
        ("no-such-host.invalid:443", "FAILED server: the name no-such-host.invalid does not resolve"),
        ("no-such-host.invalid", "FAILED server: --server no-such-host.invalid: write HOST:PORT"),
        ("127.0.0.1:9", "FAILED server: no TLS handshake with 127.0.0.1:9: Connection refused"),
    ] {
        let (code, said) = tried(&[file, "--server", server]);
        assert!(code == Some(1) && said.contains(says), "{said}");
    }
    let (code, said) = tried(&[file, "--as", "nobody-of-this-name"]);
    assert!(code == Some(2) && said.is_empty(), "{said}");
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can try it as another user");
    }
    home.lets_others_in();
    let (code, said) = tried(&[file, "--as", "nobody"]);
    assert!(code == Some(1) && said.contains("FAILED key: user ") && said.contains("may not use key"), "{said}");
    serving.done(&["keys", "acl", "www", "--add", "--uid", "nobody"]);
    let (_, said) = tried(&[file, "--as", "nobody"]);
    assert!(said.contains("ok     key: of kind p-256, which this user may use"), "{said}");
    drop(serving);
    let done = command().args(["keys", "test", file, "--socket"]).arg(home.path("run/socket")).output().unwrap();
    assert!(done.status.code() == Some(1) && text(&done.stdout).contains("FAILED service: no service at"), "{done:?}");
}

#[test]
fn a_key_is_replaced_in_one_step_and_keeps_its_users() {
    let home = Home::new();
    let service = home.serve();
    service.done(&["keys", "generate", "www", "--kind", "ed25519", "--uid", "7"]);
    let before = service.done(&["keys", "pem", "www"]);
    let said = service.done(&["keys", "import", "www", &key("p-256.sec1.pem"), "--replace"]);
    assert!(said.contains("sidecore keys pem www --output"), "{said}");
    let listed = service.done(&["keys", "list", "--json"]);
    assert!(listed.contains("p-256") && listed.contains("\"uids\":[7]") && listed.lines().count() == 1, "{listed}");
    let after = service.done(&["keys", "pem", "www"]);
    assert_ne!(before, after);
    // A failed command changes nothing.
    assert!(
        service.refused(&["keys", "import", "none", &key("p-256.sec1.pem"), "--replace"]).contains("no key \"none\"")
    );
    assert!(
        service.refused(&["keys", "import", "www", &key("x25519.spki.der"), "--replace"]).contains("no private key")
    );
    let both = ["keys", "import", "www", &key("p-256.sec1.pem"), "--replace", "--uid", "8"];
    assert!(service.refused(&both).contains("cannot be used with"));
    assert_eq!(service.done(&["keys", "list", "--json"]), listed);
    service.end();
    // The new key is still there after a restart.
    let service = home.serve();
    assert_eq!(service.done(&["keys", "pem", "www"]), after);
}

#[test]
fn what_cannot_be_done_is_said_with_what_to_do() {
    let home = Home::new();
    let service = home.serve();
    service.done(&["keys", "generate", "www", "--kind", "p-256"]);
    for (arguments, what) in [
        (&["keys", "import", "www", &key("p-256.sec1.pem")][..], "`sidecore keys import www FILE --replace`"),
        (&["keys", "import", "x", &key("p-256.sec1.pem"), "--gid", "4294967295"], "stands for no user and no group"),
        (&["keys", "acl", "www", "--add", "--uid", "4294967295"], "stands for no user and no group"),
        (&["keys", "import", "x", &key("p-256.p12")], "--passphrase-file"),
        (&["keys", "import", "x", &key("x25519.spki.der")], "no private key"),
        (&["keys", "import", "x", "no/such/file"], "no/such/file"),
        (&["keys", "import", "a/b", &key("p-256.sec1.pem")], "letters, digits"),
        (&["keys", "generate", "x", "--kind", "rsa-1024"], "rsa-2048"),
        (&["keys", "generate", "x", "--kind", "p-256", "--uid", "nobody-of-this-name"], "no such user"),
        (&["keys", "delete", "nobody"], "sidecore keys list"),
        (&["keys", "acl", "www"], "--nobody"),
        (&["keys", "acl", "www", "--uid", "12"], "--add"),
        (&["keys", "acl", "www", "--add"], "--uid"),
        (&["keys", "acl", "www", "--add", "--set", "--uid", "12"], "cannot be used with"),
        (&["keys", "acl", "www", "--nobody", "--uid", "12"], "cannot be used with"),
        (&["keys", "acl", "nobody", "--nobody"], "no key"),
    ] {
        let said = service.refused(arguments);
        assert!(said.contains(what), "{arguments:?}: {said}");
    }
    assert_eq!(service.done(&["keys", "list", "--json"]).lines().count(), 1);
}

#[test]
fn a_fifo_in_the_place_of_a_file_is_an_error_without_a_writer_and_a_file_with_one() {
    let home = Home::new();
    let service = home.serve();
    service.done(&["keys", "import", "www", &key("p-256.pkcs8.pem")]);
    let path = home.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let fifo = path.to_str().unwrap();
    let (good, output) = (key("p-256.pkcs8.pem"), home.path("pem").display().to_string());
    for (arguments, says) in [
        (&["keys", "import", "new", fifo][..], "no program writes"),
        (&["keys", "import", "www", fifo, "--replace"], "no program writes"),
        (&["keys", "import", "new", &good, "--passphrase-file", fifo], "no program writes"),
        (&["keys", "import", "new", "--remote", "--public", fifo], "no program writes"),
        (&["keys", "cert", "www", fifo], "no program writes"),
        (&["keys", "passphrase", "--new-passphrase-file", fifo], "no program writes"),
        (&["keys", "renew", "www", fifo, "--certificate", &good, "--output", &output], "no program writes"),
        (&["keys", "renew", "www", &good, "--certificate", fifo, "--output", &output], "no program writes"),
        (&["keys", "receive", fifo], "no program writes"),
        (&["keys", "send", "www", "--to", fifo, "--output", &output], "no program writes"),
        (&["check", "--config", fifo], "no program writes"),
        (&["serve", "--config", fifo], "no program writes"),
    ] {
        // A command that waits for a writer waits forever.
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_sidecore")]).args(arguments).env("SIDECORE_SOCKET", &service.socket);
        let done = command.stdin(Stdio::null()).output().unwrap();
        let said = text(&done.stderr) + &text(&done.stdout);
        assert!(
            done.status.code() != Some(124) && !done.status.success() && said.contains(says),
            "{arguments:?}: {said}"
        );
    }
    let done = Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_sidecore"), "keys", "test", fifo])
        .env("SIDECORE_SOCKET", &service.socket)
        .output()
        .unwrap();
    assert!(text(&done.stdout).contains("no program writes"), "{done:?}");
    // A shell's <(command) is one with a writer.
    let import = format!("'{}' keys import substituted <(sleep 0.2; cat '{good}')", env!("CARGO_BIN_EXE_sidecore"));
    let mut shell = Command::new("bash");
    let done = shell.args(["-c", &import]).env("SIDECORE_SOCKET", &service.socket).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    service.end();
}

#[test]
fn a_service_with_a_wrong_passphrase_does_not_start() {
    let home = Home::new();
    home.serve().end();
    private_file(&home.path("passphrase"), "open simsim\n");
    let keys = format!("[keys]\ndirectory = '{}'\n", home.path("keys").display());
    let output = home.command(&keys).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the passphrase is not the one"), "{}", text(&output.stderr));
    let output = home.command("").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("keys.directory"), "{}", text(&output.stderr));
}

#[test]
fn a_key_that_was_made_is_said_to_exist_where_nothing_can_be_printed() {
    let home = Home::new();
    let service = home.serve();
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    let told = |output: Stdio, code: i32, arguments: &[&str]| {
        let mut command = command();
        command.args(arguments).env("SIDECORE_SOCKET", &service.socket).stdout(output).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    let pem = key("rsa-2048.pkcs1.pem");
    let said = told(full(), 2, &["keys", "import", "www", &pem]);
    assert!(said.contains("the key www was imported, but") && said.contains("No space left"), "{said}");
    let said = told(closed(), 2, &["keys", "generate", "api", "--kind", "p-256"]);
    assert!(said.contains("the key api was made, but") && said.contains("pipe"), "{said}");
    for arguments in [&["keys", "list"][..], &["keys", "list", "--json"], &["keys", "pem", "www"], &["top", "--once"]] {
        assert!(told(full(), 2, arguments).contains("cannot write to standard output"));
        assert_eq!(told(closed(), 0, arguments), "");
    }
    let said = told(full(), 2, &["set", "notify=park"]);
    assert!(said.contains("what was set is in force, but") && said.contains("No space left"), "{said}");
    assert_eq!(told(closed(), 0, &["set", "notify=park"]), "");
    // These commands print nothing.
    for arguments in [&["keys", "acl", "www", "--nobody"][..], &["keys", "delete", "www"]] {
        assert_eq!(told(full(), 0, arguments), "");
    }
    assert_eq!(service.done(&["keys", "list", "--json"]).lines().count(), 1);
}

#[test]
fn the_passphrase_is_changed_and_only_the_new_one_opens_the_keys() {
    let home = Home::new();
    let service = home.serve();
    service.done(&["keys", "generate", "www", "--kind", "p-256", "--uid", "33"]);
    service.done(&["keys", "generate", "api", "--kind", "ed25519"]);
    let before = (service.done(&["keys", "list", "--json"]), home.files());
    let new = private_file(&home.path("new"), "open simsim\n");
    let (new, old) = (new.to_str().unwrap(), home.path("passphrase"));
    let said = service.done(&["keys", "passphrase", "--new-passphrase-file", new]);
    assert!(said.contains(old.to_str().unwrap()) && said.contains("at its next start"), "{said}");
    // Keys and their users are the same, but all files changed.
    assert_eq!(service.done(&["keys", "list", "--json"]), before.0);
    assert!(home.files().iter().all(|file| *file == "master" || !before.1.contains(file)), "{:?}", home.files());
    service.done(&["keys", "acl", "api", "--add", "--uid", "7"]);
    let before = service.done(&["keys", "list", "--json"]);
    service.end();

    let keys = format!("[keys]\ndirectory = '{}'\n", home.path("keys").display());
    let output = home.command(&keys).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the passphrase is not the one"), "{}", text(&output.stderr));
    fs::rename(new, old).unwrap();
    let service = home.serve();
    assert_eq!(service.done(&["keys", "list", "--json"]), before);
    assert!(service.refused(&["keys", "passphrase", "--new-passphrase-file", "no/such/file"]).contains("no/such/file"));
    service.end();
}

#[test]
fn an_old_directory_of_keys_is_refused_at_start_and_can_be_accepted() {
    let home = Home::new();
    let serve = || home.serve_with(&format!("changes_file = '{}'\n", home.path("count/number").display()));
    let service = serve();
    service.done(&["keys", "generate", "www", "--kind", "p-256"]);
    service.done(&["keys", "generate", "api", "--kind", "p-256"]);
    let copied = Command::new("cp").arg("-a").args([home.path("keys"), home.path("copy")]).status().unwrap();
    assert!(copied.success());
    service.done(&["keys", "delete", "api"]);
    assert!(service.end().contains("keys at rest are of change 0"));
    assert!(serve().end().contains("keys at rest are of change 3"));
    fs::remove_dir_all(home.path("keys")).unwrap();
    fs::rename(home.path("copy"), home.path("keys")).unwrap();
    let mut again = command();
    again.arg("serve").arg("--config").arg(home.path("config")).arg("--passphrase-file").arg(home.path("passphrase"));
    let output = again.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("this is an old copy, of change 2") && said.contains("count/number"), "{said}");
    fs::remove_file(home.path("count/number")).unwrap();
    let service = serve();
    assert_eq!(service.done(&["keys", "list", "--json"]).lines().count(), 2);
    service.end();
}

#[test]
fn the_limit_of_keys_says_what_to_do() {
    let home = Home::new();
    let service = home.serve_with("[limits]\nkeys = 1\n");
    service.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let said = service.refused(&["keys", "generate", "more", "--kind", "p-256"]);
    assert!(said.contains("there are 1 keys already (limits.keys): delete those that no program uses"), "{said}");
}
