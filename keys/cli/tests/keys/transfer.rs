//! `sidecore keys send`, `move` and `receive` between two services, with each kind of wrong input on the way.

use super::{Home, Serving, command, key, text};
use rustix::process::geteuid;
use sidecore::keys::transfer::{Received, sealed_from_pem, sealed_to_pem};
use sidecore_testing::skipped;
use std::fs;
use std::process::{Command, Output, Stdio};

/// The service that has keys, the other one, and the way between them.
pub(super) struct Machines {
    home: Home,
    pub(super) from: Serving,
    other: Home,
    to: Serving,
}

impl Machines {
    pub(super) fn new() -> Self {
        Self::with("")
    }

    fn with(more: &str) -> Self {
        let (home, other) = (Home::new(), Home::new());
        // Keys at rest keep the address.
        let first = home.serve();
        fs::write(other.path("sender.pem"), first.done(&["keys", "address"])).unwrap();
        first.end();
        let to = other.serve_with(&receives(&other));
        fs::write(home.path("other.pem"), to.done(&["keys", "address"])).unwrap();
        let from = home.serve_with(&format!("send_to = ['{}']\n{more}", home.path("other.pem").display()));
        Self { home, from, other, to }
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.home.path(name).to_str().unwrap().to_owned()
    }

    /// Stands for `ssh other sidecore keys receive`.
    pub(super) fn by(&self, more: &str) -> String {
        let (program, socket) = (env!("CARGO_BIN_EXE_sidecore"), self.to.socket.display());
        format!("SIDECORE_SOCKET='{socket}' '{program}' keys receive {more}")
    }

    fn run(&self, arguments: &[&str], by: &str) -> Output {
        let mut run = command();
        run.args(["keys"]).args(arguments).args(["--to", &self.file("other.pem"), "--by", by]);
        run.env("SIDECORE_SOCKET", &self.from.socket).stdin(Stdio::null()).output().unwrap()
    }

    pub(super) fn done(&self, arguments: &[&str], by: &str) -> String {
        let done = self.run(arguments, by);
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    pub(super) fn refused(&self, arguments: &[&str], by: &str) -> String {
        let done = self.run(arguments, by);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", text(&done.stdout));
        text(&done.stderr)
    }

    fn sealed(&self, name: &str) -> String {
        let file = self.file("sealed");
        self.from.done(&["keys", "send", name, "--to", &self.file("other.pem"), "--output", &file]);
        file
    }

    fn lists(&self) -> [String; 2] {
        [&self.from, &self.to].map(list)
    }
}

/// Lines of the section `[keys]`.
fn receives(home: &Home) -> String {
    format!("receive_from = ['{}']\n", home.path("sender.pem").display())
}

pub(super) fn list(service: &Serving) -> String {
    service.done(&["keys", "list", "--json"])
}

pub(super) fn public(service: &Serving, name: &str) -> String {
    service.done(&["keys", "pem", name])
}

/// A key with users and all terms.
pub(super) fn import_www(service: &Serving) {
    service.done(&["keys", "import", "www", &key("p-256.pkcs8.pem"), "--uid", "33", "--gid", "4711"]);
    service.done(&["keys", "usage", "www", "sign"]);
    service.done(&["keys", "limit", "www", "100/s"]);
    service.done(&["keys", "cert", "www", &key("p-256.certificate.pem")]);
}

#[test]
fn a_key_moves_with_its_users_and_terms_and_is_at_rest_there() {
    let machines = Machines::new();
    import_www(&machines.from);
    machines.from.done(&["keys", "import", "shop", &key("rsa-2048.pkcs1.pem")]);
    let ([before, _], pem) = (machines.lists(), public(&machines.from, "www"));
    assert_eq!(machines.done(&["move", "www", "shop"], &machines.by("")), "shop: moved (new)\nwww: moved (new)\n");
    assert_eq!(machines.lists(), [String::new(), before.clone()]);
    assert!(machines.refused(&["move", "www"], &machines.by("")).contains("no key \"www\""));
    let Machines { from, other, to, .. } = machines;
    let (said, heard) = (from.end(), to.end());
    for event in ["key-sealed: ", "key-sent: ", "key-deleted: "] {
        assert_eq!(said.matches(event).count(), 2, "{said}");
    }
    assert!(heard.contains("key-received: a key of another service was stored key="), "{heard}");
    assert_eq!(heard.matches(" peer=\"MCowBQYDK2VuAyEA").count(), 2, "{heard}");
    let to = other.serve();
    assert_eq!((list(&to), public(&to, "www")), (before, pem));
    // The service has the private part: it signs with it.
    sign_and_verify(&other, &to);
}

fn sign_and_verify(home: &Home, service: &Serving) {
    let example = super::library::file("sidecore-client", "examples/sign");
    fs::write(home.path("message"), "an order").unwrap();
    let mut sign = Command::new(&example);
    sign.args(["www", "p-256"]).env("SIDECORE_SOCKET", &service.socket);
    let signed = sign.stdin(fs::File::open(home.path("message")).unwrap()).output().unwrap();
    assert!(signed.status.success(), "{}", text(&signed.stderr));
    fs::write(home.path("signature"), signed.stdout).unwrap();
    let mut verify = Command::new("openssl");
    verify.args(["dgst", "-sha256", "-prverify", &key("p-256.pkcs8.pem"), "-signature"]).arg(home.path("signature"));
    let verified = verify.arg(home.path("message")).output().unwrap();
    assert_eq!(text(&verified.stdout), "Verified OK\n", "{}", text(&verified.stderr));
}

#[test]
fn all_keys_are_sent_again_and_again_and_only_changes_travel() {
    let machines = Machines::new();
    import_www(&machines.from);
    machines.from.done(&["keys", "generate", "api", "--kind", "ed25519"]);
    machines.from.done(&["keys", "import", "far", "--remote", "--public", &key("x25519.spki.der")]);
    let by = machines.by("--replace");
    let all = |more: &[&str]| machines.done(&[&["send", "--all"], more].concat(), &by);
    assert_eq!(all(&[]), "api: sent (new)\nwww: sent (new)\n");
    assert!(all(&[]).starts_with("nothing to send"), "receipts are known");
    assert_eq!(all(&["--again"]), "api: sent (same)\nwww: sent (same)\n");
    machines.from.done(&["keys", "acl", "www", "--remove", "--uid", "33"]);
    assert_eq!(all(&[]), "www: sent (replaced)\n");
    machines.from.done(&["keys", "import", "api", &key("p-256.sec1.pem"), "--replace"]);
    assert_eq!(all(&[]), "api: sent (replaced)\n");
    machines.from.done(&["keys", "delete", "far"]);
    let [here, there] = machines.lists();
    assert_eq!(here, there);
    assert_eq!(public(&machines.from, "api"), public(&machines.to, "api"));
    // A deletion is not sent.
    machines.from.done(&["keys", "delete", "api"]);
    assert!(all(&[]).starts_with("nothing to send"));
    assert_eq!(machines.lists()[1], there);
}

#[test]
fn no_key_is_sealed_to_an_address_that_the_configuration_does_not_name() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let third = Home::new();
    let serving = third.serve();
    fs::write(third.path("third.pem"), serving.done(&["keys", "address"])).unwrap();
    let own = third.path("own.pem");
    fs::write(&own, machines.from.done(&["keys", "address"])).unwrap();
    let to = |file: &str| machines.from.refused(&["keys", "send", "www", "--to", file, "--output", "/dev/null"]);
    let said = to(third.path("third.pem").to_str().unwrap());
    assert!(said.contains("third.pem") && said.contains("send_to = [\"FILE\"] under [keys]"), "{said}");
    assert!(to(own.to_str().unwrap()).contains("the service's own"), "its receipts would delete the only copy");
    assert!(to("no/such/file").contains("sidecore keys address"));
    assert!(to(&key("p-256.pkcs8.pem")).contains("no address of a service"));
    // A service without recipients.
    serving.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let file = machines.file("other.pem");
    assert!(serving.refused(&["keys", "send", "www", "--to", &file, "--output", "/dev/null"]).contains("send_to"));
    // A start with a file that others may write.
    serving.end();
    let open = third.path("open.pem");
    fs::copy(third.path("third.pem"), &open).unwrap();
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let keys = format!("[keys]\ndirectory = '{}'\nsend_to = ['{}']\n", third.path("keys").display(), open.display());
    let started = third.command(&keys).output().unwrap();
    let said = text(&started.stderr);
    assert!(started.status.code() == Some(2) && said.contains("open.pem: others may write it"), "{said}");
}

#[test]
fn a_sealed_key_that_was_changed_or_cut_or_is_for_another_service_stores_nothing() {
    let machines = Machines::new();
    import_www(&machines.from);
    fs::write(machines.file("sealed"), "an earlier one").unwrap();
    fs::set_permissions(machines.file("sealed"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let file = machines.sealed("www");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let sealed = fs::read(&file).unwrap();
    let [key] = &sealed_from_pem(&sealed).unwrap()[..] else { panic!("one key was sealed") };
    let receive = |bytes: &[u8]| {
        fs::write(machines.home.path("changed"), bytes).unwrap();
        machines.to.refused(&["keys", "receive", &machines.file("changed")])
    };
    for at in [0, 30, 70, 100, key.len() / 2, key.len() - 1] {
        let mut changed = key.clone();
        changed[at] ^= 1;
        let said = receive(sealed_to_pem(&changed).as_bytes());
        assert!(
            said.contains("sealed key 1 of 1: ") && (said.contains("send it ") || said.contains("receives no key")),
            "{at}: {said}"
        );
    }
    assert!(receive(sealed_to_pem(&key[..key.len() - 1]).as_bytes()).contains("damaged or forged"));
    assert!(receive(sealed_to_pem(&[]).as_bytes()).contains("sealed key 1 of it is cut off or damaged"));
    // Of two keys, the first one stands whole before the cut.
    let cut = [&sealed[..], &sealed[..sealed.len() - 5]].concat();
    assert!(receive(&cut).contains("sealed key 2 of it is cut off"));
    assert!(receive(b"").contains("there is no sealed key in it"));
    assert!(machines.from.refused(&["keys", "receive", &file]).contains("it is sealed to address MCow"));
    assert_eq!(list(&machines.to), "");
    machines.to.done(&["keys", "receive", &file]);
    assert_eq!(machines.lists()[0], machines.lists()[1]);
}

#[test]
fn a_key_stays_unless_a_right_receipt_came_and_a_second_run_finishes() {
    let machines = Machines::new();
    import_www(&machines.from);
    machines.from.done(&["keys", "generate", "api", "--kind", "ed25519"]);
    let [before, _] = machines.lists();
    let moved = |by: &str| {
        let said = machines.refused(&["move", "www", "api", "--timeout", "2"], by);
        assert_eq!(list(&machines.from), before, "{by}: {said}");
        said
    };
    let forged = "echo sidecore-receipt www new 0000000000000000000000000000000000000000000000000000000000000000";
    assert!(moved("false").contains("no receipt came for api, www, which stay here; `false` failed"));
    assert!(moved("exec sleep 600").contains("took more than 2 s"));
    assert!(moved("cat").contains("no receipt came"));
    assert!(moved(forged).contains("key \"www\": the receipt is wrong: the key stays here"));
    assert_eq!(list(&machines.to), "", "nothing arrived yet");
    // Right receipts under each other's name.
    let swapped = format!("{} | sed 's/ www / x /; s/ api / www /; s/ x / api /'", machines.by(""));
    assert!(moved(&swapped).matches("the receipt is wrong").count() == 2);
    // The receiver has the keys now, and dies before its receipts arrive.
    assert!(moved(&format!("{} >/dev/null; kill -9 $$", machines.by(""))).contains("no receipt came"));
    assert_eq!(list(&machines.to), before);
    // Receipts of an earlier seal.
    let old = machines.file("old");
    let kept = format!("{} | tee '{old}'", machines.by(""));
    machines.done(&["send", "www", "api"], &kept);
    assert!(moved(&format!("cat '{old}'")).matches("the receipt is wrong").count() == 2);
    assert_eq!(machines.done(&["move", "www", "api"], &machines.by("")), "api: moved (same)\nwww: moved (same)\n");
    assert_eq!(machines.lists(), [String::new(), before]);
}

/// Two services that each send to the other and receive from it.
fn partners() -> (Machines, String) {
    let mut machines = Machines::new();
    let address = |home: &Home, name: &str| home.path(name).display().to_string();
    let to_other = address(&machines.home, "other.pem");
    let to_first = address(&machines.other, "sender.pem");
    machines.from.end();
    machines.to.end();
    machines.from = machines.home.serve_with(&format!("send_to = ['{to_other}']\nreceive_from = ['{to_other}']\n"));
    machines.to = machines.other.serve_with(&format!("send_to = ['{to_first}']\nreceive_from = ['{to_first}']\n"));
    let (program, to, from) =
        (env!("CARGO_BIN_EXE_sidecore"), machines.to.socket.display(), machines.from.socket.display());
    let back = format!(
        "SIDECORE_SOCKET='{to}' '{program}' keys move www --to '{to_first}' --by \
         \"SIDECORE_SOCKET='{from}' '{program}' keys receive\""
    );
    (machines, back)
}

#[test]
fn a_key_that_is_moved_back_while_its_move_hangs_stays_in_one_service() {
    let (machines, back) = partners();
    import_www(&machines.from);
    let [before, _] = machines.lists();
    // The other service has it, and its receipt is on the way, when the operator moves it back.
    let said = machines.refused(&["move", "www"], &format!("r=$({}); {back} >&2; echo \"$r\"", machines.by("")));
    assert!(said.contains("www: moved (same)"), "the way back: {said}");
    assert!(said.contains("key \"www\" stays here") && said.contains("gave another one a receipt for it"), "{said}");
    assert_eq!(machines.lists(), [before.clone(), String::new()]);
    // It is as movable as before.
    assert_eq!(machines.done(&["move", "www"], &machines.by("")), "www: moved (new)\n");
    assert_eq!(machines.lists(), [String::new(), before]);
}

#[test]
fn two_services_that_move_one_key_to_each_other_do_not_both_delete_it() {
    let (machines, back) = partners();
    import_www(&machines.from);
    machines.done(&["send", "www"], &machines.by(""));
    let [before, there] = machines.lists();
    assert_eq!(before, there);
    // Both seal, both keys arrive, and both receipts are given before either service is shown one.
    let (sealed, receipt, courier) = (machines.file("sealed"), machines.file("receipt"), machines.file("courier"));
    let (program, from) = (env!("CARGO_BIN_EXE_sidecore"), machines.from.socket.display());
    let received = format!("r=$(SIDECORE_SOCKET='{from}' '{program}' keys receive) && {}", machines.by(""));
    fs::write(&courier, format!("{received} <'{sealed}' >'{receipt}' && echo \"$r\"\n")).unwrap();
    let (back, _) = back.split_once(" --by ").unwrap();
    let both = format!("cat >'{sealed}'; {back} --by \"sh '{courier}'\" >&2; cat '{receipt}'");
    let said = machines.refused(&["move", "www"], &both);
    assert_eq!(said.matches("gave another one a receipt for it").count(), 2, "{said}");
    assert_eq!(machines.lists(), [before.clone(), before]);
}

#[test]
fn users_travel_by_name_and_those_who_lack_are_named() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256", "--uid", "www-data", "--uid", "4711"]);
    machines.from.done(&["keys", "acl", "www", "--add", "--gid", "shadow"]);
    let file = machines.sealed("www");
    // A machine with other numbers: its databases of users and groups stand in the place of this one's.
    let there = |users: &str, groups: &str, more: &[&str]| {
        fs::write(machines.home.path("passwd"), format!("root:x:0:0::/:/bin/sh\n{users}")).unwrap();
        fs::write(machines.home.path("group"), format!("root:x:0:\n{groups}")).unwrap();
        let files = [("passwd", "/etc/passwd"), ("group", "/etc/group")];
        let binds = files.map(|(from, to)| format!("mount --bind '{}' {to}", machines.file(from)));
        let program = env!("CARGO_BIN_EXE_sidecore");
        let script = format!("{} && {} && exec '{program}' keys receive '{file}' \"$@\"", binds[0], binds[1]);
        let mut run = Command::new("unshare");
        run.args(["--mount", "sh", "-c", &script, "sh"]).args(more);
        run.env("SIDECORE_SOCKET", &machines.to.socket).output().unwrap()
    };
    if !geteuid().is_root() {
        return skipped("only root can put other users in the place of this machine's");
    }
    let lacks = there("nginx:x:101:101::/:/bin/sh\n", "", &[]);
    let said = text(&lacks.stderr);
    assert_eq!(lacks.status.code(), Some(2), "{said}");
    for what in ["user \"www-data\" (create it, or name another by --map-user www-data=LOCAL)", "group \"shadow\""] {
        assert!(said.contains("key \"www\" was not stored") && said.contains(what), "{said}");
    }
    assert_eq!(list(&machines.to), "");
    let stored = there("nginx:x:101:101::/:/bin/sh\n", "shadow:x:15:\n", &["--map-user", "www-data=nginx"]);
    assert!(stored.status.success(), "{}", text(&stored.stderr));
    assert!(list(&machines.to).contains(r#""gids":[15]"#), "{}", list(&machines.to));
    assert!(list(&machines.to).contains(r#""uids":[101,4711]"#), "a number without a name stays what it is");
    for wrong in ["www-data", "www-data=no-such-user"] {
        assert_eq!(there("", "", &["--map-user", wrong]).status.code(), Some(2));
    }
}

#[test]
fn a_key_that_was_changed_while_it_travelled_stays() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let (program, socket) = (env!("CARGO_BIN_EXE_sidecore"), machines.from.socket.display());
    let change =
        format!("SIDECORE_SOCKET='{socket}' '{program}' keys import www '{}' --replace", key("p-256.sec1.pem"));
    let by = format!("{change} >/dev/null && {}", machines.by(""));
    assert!(machines.refused(&["move", "www"], &by).contains("was changed since it was sealed"));
    let (here, there) = (public(&machines.from, "www"), public(&machines.to, "www"));
    assert_ne!(here, there, "the only copy of the new key");
    assert!(machines.refused(&["move", "www"], &machines.by("")).contains("no receipt came"), "another key is there");
    assert_eq!(public(&machines.to, "www"), there);
    assert_eq!(machines.done(&["move", "www"], &machines.by("--replace")), "www: moved (replaced)\n");
    assert_eq!(public(&machines.to, "www"), here);
}

#[test]
fn a_key_sealed_earlier_replaces_no_later_one() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256", "--uid", "33"]);
    let old = machines.sealed("www");
    let receive = |more: &[&str]| machines.to.run(&[&["keys", "receive", &old], more].concat());
    assert!(receive(&[]).status.success());
    machines.from.done(&["keys", "import", "www", &key("p-256.sec1.pem"), "--replace"]);
    machines.done(&["send", "www"], &machines.by("--replace"));
    let kept = list(&machines.to);
    let refused = |service: &Serving, what: &str| {
        for more in [&[][..], &["--replace"]] {
            let said = service.refused(&[&["keys", "receive", &old], more].concat());
            assert!(said.contains(what), "{said}");
        }
        assert_eq!(list(service), kept);
    };
    refused(&machines.to, "key \"www\" here is newer");
    // Nor after a restart, nor a change of users there.
    let Machines { home, from, other, to } = machines;
    to.end();
    let to = other.serve_with(&receives(&other));
    refused(&to, "key \"www\" here is newer");
    let machines = Machines { home, from, other, to };
    let newer = machines.sealed("www");
    machines.to.done(&["keys", "acl", "www", "--nobody"]);
    assert!(machines.to.refused(&["keys", "receive", &newer, "--replace"]).contains("here is newer"));
    // Nor does one that is sealed later, whatever the clocks say: it is the state that is older.
    assert!(machines.refused(&["send", "www"], &machines.by("--replace")).contains("no receipt came"));
    assert!(machines.to.refused(&["keys", "receive", &machines.sealed("www"), "--replace"]).contains("here is newer"));
    assert!(list(&machines.to).contains(r#""uids":[]"#));
    machines.done(&["send", "www"], &machines.by("--force"));
    assert_eq!(machines.lists()[0], machines.lists()[1]);
    // What was forced takes the sender's next changes without force.
    machines.from.done(&["keys", "limit", "www", "7/s"]);
    assert_eq!(machines.done(&["send", "www"], &machines.by("--replace")), "www: sent (replaced)\n");
}

#[test]
fn a_seal_that_was_kept_back_counts_no_more_once_the_same_key_came_again() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256", "--uid", "33"]);
    machines.done(&["send", "www"], &machines.by(""));
    machines.from.done(&["keys", "acl", "www", "--add", "--uid", "34"]);
    let kept = machines.sealed("www");
    machines.from.done(&["keys", "acl", "www", "--remove", "--uid", "34"]);
    assert_eq!(machines.done(&["send", "www"], &machines.by("")), "www: sent (same)\n");
    let refused = |service: &Serving| {
        assert!(service.refused(&["keys", "receive", &kept, "--replace"]).contains("key \"www\" here is newer"));
        assert!(list(service).contains(r#""uids":[33]"#));
    };
    refused(&machines.to);
    machines.to.end();
    refused(&machines.other.serve_with(&receives(&machines.other)));
}

#[test]
fn a_seal_from_before_a_change_there_replaces_nothing_after_a_restart_there() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let old = machines.sealed("www");
    machines.to.done(&["keys", "import", "www", &key("p-256.sec1.pem")]);
    let there = public(&machines.to, "www");
    machines.to.end();
    let to = machines.other.serve_with(&receives(&machines.other));
    let said = to.refused(&["keys", "receive", &old, "--replace"]);
    assert!(said.contains("changed independently") && said.contains("receive --force"), "{said}");
    assert_eq!(public(&to, "www"), there, "the only copy of the new key");
}

#[test]
fn a_sender_that_the_configuration_does_not_name_replaces_and_plants_nothing() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256"]);
    machines.done(&["send", "www"], &machines.by(""));
    let before = list(&machines.to);
    // Somebody on the way has a service of its own, and the recipient's address stands in each sealed key.
    let third = Home::new();
    let serving = third.serve_with(&format!("send_to = ['{}']\n", machines.file("other.pem")));
    let sealed = third.path("sealed");
    let sealed = sealed.to_str().unwrap();
    for name in ["www", "planted"] {
        serving.done(&["keys", "generate", name, "--kind", "p-256"]);
        serving.done(&["keys", "send", name, "--to", &machines.file("other.pem"), "--output", sealed]);
        let said = machines.to.refused(&["keys", "receive", sealed, "--replace"]);
        assert!(said.contains("receives no key") && said.contains("receive_from = [\"FILE\"] under [keys]"), "{said}");
        assert_eq!(list(&machines.to), before);
    }
    let own = list(&machines.from);
    let by = format!("cat - '{sealed}' | {}", machines.by("--replace"));
    assert!(machines.run(&["move", "www"], &by).status.success(), "what came with it was refused");
    assert_eq!(list(&machines.to), own);
}

#[test]
fn the_keys_that_did_move_do_not_stop_a_second_run() {
    let machines = Machines::new();
    for name in ["shop", "www"] {
        machines.from.done(&["keys", "generate", name, "--kind", "ed25519"]);
    }
    machines.to.done(&["keys", "generate", "www", "--kind", "p-256"]);
    assert!(machines.refused(&["move", "shop", "www"], &machines.by("--replace")).contains("no receipt came for www"));
    let said = machines.run(&["move", "shop", "www"], &machines.by("--force"));
    assert_eq!((text(&said.stdout).as_str(), said.status.code()), ("www: moved (replaced)\n", Some(2)));
    assert!(text(&said.stderr).contains("there is no key \"shop\""), "{}", text(&said.stderr));
    assert!(machines.refused(&["move", "shop", "www"], &machines.by("")).contains("there is no key \"www\""));
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let to = machines.file("other.pem");
    let file = machines.file("sealed");
    let said = machines.from.refused(&["keys", "send", "shop", "www", "--to", &to, "--output", &file]);
    assert!(said.contains("there is no key \"shop\"") && machines.home.path("sealed").exists(), "{said}");
}

#[test]
fn a_key_there_is_replaced_only_on_demand() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256", "--uid", "33"]);
    machines.to.done(&["keys", "generate", "www", "--kind", "ed25519", "--uid", "7"]);
    let (here, there) = (list(&machines.from), list(&machines.to));
    let file = machines.sealed("www");
    for more in [&[][..], &["--replace"]] {
        let said = machines.to.refused(&[&["keys", "receive", &file], more].concat());
        assert!(said.contains("changed independently") && said.contains("receive --force"), "{said}");
        assert_eq!(list(&machines.to), there);
    }
    let printed = machines.to.done(&["keys", "receive", &file, "--force"]);
    assert_eq!(Received::from_line(&printed).unwrap().name, "www");
    assert_eq!(list(&machines.to), here);
    machines.from.done(&["keys", "import", "www", &key("p-256.sec1.pem"), "--replace"]);
    let said = machines.to.refused(&["keys", "receive", &machines.sealed("www")]);
    assert!(said.contains("another key \"www\" here: `sidecore keys receive --replace`"), "{said}");
    assert_eq!(list(&machines.to), here);
    machines.done(&["send", "www"], &machines.by("--replace"));
    let here = list(&machines.to);
    machines.from.done(&["keys", "acl", "www", "--add", "--uid", "34"]);
    assert!(machines.refused(&["send", "www"], &machines.by("")).contains("no receipt came"));
    assert_eq!(list(&machines.to), here, "other users are no reason to change them unasked");
}

#[test]
fn a_service_without_a_directory_gives_no_receipt_that_deletes_a_key_at_rest() {
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256"]);
    let Machines { home, from, other, to } = machines;
    to.end();
    let to = other.serve_in_memory(&receives(&other));
    fs::write(home.path("memory.pem"), to.done(&["keys", "address"])).unwrap();
    from.end();
    let recipients = format!("send_to = ['{}']\n", home.path("memory.pem").display());
    let from = home.serve_with(&recipients);
    fs::copy(home.path("memory.pem"), home.path("other.pem")).unwrap();
    let machines = Machines { home, from, other, to };
    let said = machines.refused(&["move", "www"], &machines.by(""));
    assert!(said.contains("in memory only (no keys.directory): the key stays here"), "{said}");
    assert_eq!(machines.done(&["send", "www"], &machines.by("")), "www: sent (same)\n");
    assert!(list(&machines.from).contains("www") && list(&machines.to).contains(r#""at_rest":false"#));
}

#[test]
fn only_root_and_the_services_user_send_and_receive() {
    if !geteuid().is_root() {
        return skipped("only root can start a program of another user");
    }
    let machines = Machines::new();
    machines.from.done(&["keys", "generate", "www", "--kind", "p-256", "--uid", "65534"]);
    let (file, address) = (machines.sealed("www"), machines.file("other.pem"));
    machines.home.lets_others_in();
    machines.other.lets_others_in();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let is_refused = |service: &Serving, arguments: &[&str]| {
        let done = service.as_stranger(arguments);
        let said = text(&done.stderr);
        assert!(done.status.code() == Some(2) && said.contains("only root and the service's own user"), "{said}");
    };
    is_refused(&machines.from, &["keys", "address"]);
    is_refused(&machines.from, &["keys", "send", "www", "--to", &address, "--by", "cat"]);
    is_refused(&machines.from, &["keys", "move", "www", "--to", &address, "--by", "cat"]);
    let done = machines.to.as_stranger(&["keys", "receive", &file]);
    assert!(done.status.code() == Some(2) && text(&done.stderr).contains("only root and the service's own user"));
    assert_eq!(list(&machines.to), "");
}

#[test]
fn an_address_is_that_of_the_passphrases_master_key() {
    let home = Home::new();
    let address = |service: &Serving| service.done(&["keys", "address"]);
    let service = home.serve();
    let first = address(&service);
    service.end();
    let service = home.serve();
    assert_eq!(address(&service), first);
    let new = super::private_file(&home.path("new"), "open simsim\n");
    service.done(&["keys", "passphrase", "--new-passphrase-file", new.to_str().unwrap()]);
    assert_ne!(address(&service), first);
}
