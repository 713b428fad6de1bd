//! OpenSSH's own programs, and git.

use crate::site::{KEYS, Site};
use sidecore::keys::Kind;
use std::fs;

#[test]
fn keys_of_each_kind_are_listed_and_sign_what_openssh_verifies() {
    let site = Site::with(&KEYS);
    let agent = site.agent(&[]);
    let listed = site.run(&agent, "ssh-add", &["-L"], "");
    assert_eq!(listed.lines().count(), KEYS.len(), "{listed}");
    for (name, _) in KEYS {
        let line = listed.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        fs::write(site.path("key.pub"), line).unwrap();
        fs::write(site.path("allowed"), format!("me {line}\n")).unwrap();
        let signature = site.run(&agent, "ssh-keygen", &["-Y", "sign", "-f", "key.pub", "-n", "file"], "a text");
        fs::write(site.path("signature"), signature).unwrap();
        let verify = ["-Y", "verify", "-f", "allowed", "-I", "me", "-n", "file", "-s", "signature"];
        assert!(site.run(&agent, "ssh-keygen", &verify, "a text").contains("Good"), "{name}");
        assert!(!site.output(&agent, "ssh-keygen", &verify, "another text").status.success(), "{name}");
        // OpenSSH's own test of an agent's key: with RSA it asks for SHA-1.
        let tested = site.output(&agent, "ssh-add", &["-T", "key.pub"], "").status.success();
        assert_eq!(tested, name != "rsa", "{name}: {}", agent.said());
    }
}

#[test]
fn keys_are_neither_added_nor_removed_by_clients() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let agent = site.agent(&[]);
    site.run(&agent, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", "other"], "");
    fs::write(site.path("known"), format!("far {}", fs::read_to_string(site.path("other.pub")).unwrap())).unwrap();
    for (arguments, says) in [
        (&["other"][..], "ssh-add FILE: this agent takes no key: store it with sidecore keys import"),
        (&["-t", "60", "other"], "ssh-add FILE: this agent takes no key"),
        (&["-H", "known", "-h", "far", "other"], "ssh-add -h: this agent restricts no key to destinations"),
        (&["-D"], "ssh-add -d or -D: clients remove no key: use sidecore keys delete"),
        (&["-s", "/usr/lib/none.so"], "ssh-add -s or -e: this agent loads no PKCS#11 module"),
        (&["-x"], "ssh-add -x or -X: this agent has no lock"),
    ] {
        let before = agent.said().matches(says).count();
        assert!(!site.output(&agent, "ssh-add", arguments, "x\nx\n").status.success(), "{arguments:?}");
        assert!(agent.said().matches(says).count() > before, "{arguments:?}: {}", agent.said());
    }
    assert_eq!(site.run(&agent, "ssh-add", &["-L"], "").lines().count(), 1);
}

#[test]
fn git_signs_commits_and_verifies_them() {
    let site = Site::with(&[("git", Kind::P256)]);
    let agent = site.agent(&[]);
    let line = site.run(&agent, "ssh-add", &["-L"], "");
    fs::write(site.path("allowed"), format!("me@example.org {line}")).unwrap();
    site.run(&agent, "git", &["init", "--quiet", "tree"], "");
    let key = format!("user.signingkey=key::{}", line.trim());
    let git = |arguments: &[&str]| {
        let common = ["-C", "tree", "-c", "gpg.format=ssh", "-c", &key, "-c", "gpg.ssh.allowedSignersFile=../allowed"];
        let user = ["-c", "user.name=Me", "-c", "user.email=me@example.org"];
        site.output(&agent, "git", &[&common[..], &user, arguments].concat(), "")
    };
    let commit = git(&["commit", "--quiet", "--allow-empty", "-S", "-m", "one"]);
    assert!(commit.status.success(), "{commit:?} {}", agent.said());
    let verified = git(&["verify-commit", "HEAD"]);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.contains("Good \"git\" signature for me@example.org"), "{said}");
}
