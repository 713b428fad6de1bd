//! `sidecore keys rename`: what stays with the key, and what no longer counts.

use super::transfer::{Machines, import_www, list, public};
use super::{Home, STRANGER, key, text};
use rustix::process::geteuid;
use sidecore::client::{Client, Options};
use sidecore::core::session::Op;
use sidecore::engine::crypto::{KeyMaterial, Scheme, SessionSpec};
use sidecore_testing::skipped;
use std::fs;

fn spec(name: &str) -> SessionSpec {
    SessionSpec { scheme: Scheme::EcdsaRaw, key: KeyMaterial::Stored(name.to_owned()) }
}

#[test]
fn a_renamed_key_keeps_users_terms_certificates_and_open_sessions_also_over_a_restart() {
    let home = Home::new();
    let service = home.serve();
    import_www(&service);
    service.done(&["keys", "generate", "taken", "--kind", "ed25519"]);
    let options = Options { socket: service.socket.clone(), ..Options::default() };
    let mut client = Client::connect(&options).unwrap();
    let open = client.open_session(&spec("www")).unwrap();
    let before = list(&service).replace("\"www\"", "\"shop\"");
    let said = service.done(&["keys", "rename", "www", "shop"]);
    assert!(said.contains("keys pem shop"), "{said}");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&list(&service)), sorted(&before));
    client.call(open, Op::SignDigest, 0, &[7; 32], 256).unwrap();
    assert!(client.open_session(&spec("www")).unwrap_err().to_string().contains("no key \"www\""));
    client.open_session(&spec("shop")).unwrap();
    // The former name is free, and the session stays the renamed key's.
    service.done(&["keys", "generate", "www", "--kind", "p-256"]);
    client.call(open, Op::SignDigest, 0, &[7; 32], 256).unwrap();
    service.done(&["keys", "delete", "www"]);
    client.call(open, Op::SignDigest, 0, &[7; 32], 256).unwrap();
    drop(client);
    let log = service.end();
    let line = log.lines().find(|line| line.contains("key-renamed: ")).unwrap();
    assert!(line.contains(" key=shop ") && line.contains(" key_before=www ") && line.contains(" uid="), "{log}");
    let service = home.serve();
    assert_eq!(sorted(&list(&service)), sorted(&before));
    assert_eq!(home.files().len(), 3, "{:?}", home.files());
}

#[test]
fn a_name_that_is_taken_or_none_is_refused_and_so_are_others_than_administrators() {
    let home = Home::new();
    home.lets_others_in();
    let service = home.serve();
    import_www(&service);
    service.done(&["keys", "generate", "taken", "--kind", "ed25519"]);
    service.done(&["keys", "import", "far", "--remote", "--public", &key("x25519.spki.der")]);
    let before = list(&service);
    for (name, new, says) in [
        ("www", "taken", "\"taken\""),
        ("www", "www", "\"www\""),
        ("none", "new", "no key \"none\""),
        ("www", "../new", "letters, digits"),
        ("far", "near", "also on other machines"),
    ] {
        let said = service.refused(&["keys", "rename", name, new]);
        assert!(said.contains(says), "{said}");
    }
    if geteuid().is_root() {
        service.done(&["keys", "acl", "www", "--add", "--uid", &STRANGER.to_string()]);
        let refused = service.as_stranger(&["keys", "rename", "www", "mine"]);
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("only root"), "{refused:?}");
        service.done(&["keys", "acl", "www", "--remove", "--uid", &STRANGER.to_string()]);
    } else {
        skipped("only root can become the user who is refused");
    }
    assert_eq!(list(&service), before);
    service.end();
}

#[test]
fn receipts_of_the_former_name_delete_nothing_and_the_new_name_is_sent() {
    let machines = Machines::new();
    import_www(&machines.from);
    let by = machines.by("--replace");
    assert_eq!(machines.done(&["send", "--all"], &by), "www: sent (new)\n");
    machines.from.done(&["keys", "rename", "www", "shop"]);
    assert_eq!(machines.done(&["send", "--all"], &by), "shop: sent (new)\n");
    let pem = public(&machines.from, "shop");
    // It is renamed while its sealed form is on the way.
    let (program, socket) = (env!("CARGO_BIN_EXE_sidecore"), machines.from.socket.display());
    let renamed = format!("{{ '{program}' keys rename shop www --socket '{socket}' >&2; {by}; }}");
    let said = machines.refused(&["move", "shop"], &renamed);
    assert!(said.contains("shop"), "{said}");
    assert_ne!(public(&machines.from, "www"), pem, "the file has the name");
    // Also where another key has the name by then.
    let swapped = format!(
        "{{ '{program}' keys rename www shop --socket '{socket}' >&2; \
         '{program}' keys generate www --kind p-256 --socket '{socket}' >&2; {by}; }}"
    );
    machines.refused(&["move", "www"], &swapped);
    let names: Vec<String> = list(&machines.from)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["shop", "www"]);
    assert_eq!(public(&machines.from, "shop"), pem);
    fs::remove_file(machines.file("other.pem")).unwrap();
}
