//! Programs that use the library wrongly, or under rare conditions.

use crate::site::{Site, run};
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_testing::skipped;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

fn program(site: &Site) -> PathBuf {
    site.build("tests/c/hostile.c", &[])
}

fn passes(part: &str) {
    let site = Site::with(&["p256", "rsa2048", "ed25519"]);
    let output = site.command(&program(&site), &[part]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.trim() == "end", "{part}: {} {told}", output.status);
}

#[test]
fn null_pointers_are_refused() {
    passes("null");
}

#[test]
fn wrong_lengths_numbers_and_names_are_refused() {
    passes("lengths");
}

#[test]
fn a_full_queue_says_so_and_goes_on() {
    passes("full");
}

#[test]
fn a_key_may_be_freed_before_its_signatures_are_there_and_a_queue_before_its_results() {
    passes("freed");
}

#[test]
fn a_child_has_no_queue_of_its_parent_and_uses_its_keys() {
    passes("forked");
}

#[test]
fn a_queue_of_root_signs_no_more_after_the_program_became_another_user() {
    if rustix::process::geteuid().is_root() {
        passes("user");
    } else {
        skipped("only root becomes another user");
    }
}

#[test]
fn threads_sign_with_common_keys_and_even_share_a_queue_without_harm() {
    passes("threads");
}

/// A program that goes on at each line of its input.
struct Talk {
    child: Child,
    to: Option<ChildStdin>,
    from: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn with(site: &Site, arguments: &[&str]) -> Self {
        let mut command = site.command(&program(site), arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        Self { child, to, from }
    }

    fn line(&mut self) -> String {
        self.from.next().unwrap().unwrap()
    }

    fn step(&mut self) -> String {
        self.to.as_mut().unwrap().write_all(b"\n").unwrap();
        self.line()
    }

    fn ends(mut self) -> String {
        drop(self.to.take());
        let rest: Vec<String> = self.from.map(Result::unwrap).collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest:?}");
        rest.join("\n")
    }
}

#[test]
fn each_submission_has_one_result_while_services_end_and_start() {
    let mut site = Site::with(&["p256"]);
    let mut talk = Talk::with(&site, &["restarts"]);
    assert_eq!(talk.line(), "begun");
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(300));
        site.service = None;
        thread::sleep(Duration::from_millis(100));
        site.start();
    }
    thread::sleep(Duration::from_millis(300));
    let rest = talk.ends();
    assert!(rest.contains("ended 3") && !rest.contains("BAD"), "{rest}");
}

#[test]
fn a_result_says_that_the_key_was_replaced_or_lost_its_right_or_is_gone() {
    let site = Site::with(&["p256"]);
    let mut talk = Talk::with(&site, &["steps", "p256"]);
    assert_eq!(talk.step(), "0 0 ");
    site.keys(KeyCommand::SetUsage { name: "p256".to_owned(), usage: "derive".parse().unwrap() });
    let told = talk.step();
    assert!(told.starts_with("9 9 ") && told.contains("sidecore keys usage p256 sign,derive"), "{told}");
    site.keys(KeyCommand::SetUsage { name: "p256".to_owned(), usage: "sign,derive".parse().unwrap() });
    assert_eq!(talk.step(), "0 0 ");
    site.keys(KeyCommand::Delete { name: "p256".to_owned() });
    let told = talk.step();
    assert!(told.starts_with("8 8 ") && told.contains("sidecore keys list"), "{told}");
    site.keys(KeyCommand::Generate { name: "p256".to_owned(), kind: Kind::P256, acl: Acl::default() });
    let told = talk.step();
    assert!(told.starts_with("10 10 ") && told.contains("load it again"), "{told}");
    assert_eq!(talk.ends(), "end");
}

#[test]
fn ciphertexts_are_decrypted_by_each_padding() {
    let site = Site::with(&["rsa2048"]);
    let program = program(&site);
    fs::write(site.path("plain"), "a secret").unwrap();
    for (padding, options) in [
        ("1", &["rsa_padding_mode:pkcs1"][..]),
        ("2", &["rsa_padding_mode:oaep"]),
        ("3", &["rsa_padding_mode:oaep", "rsa_oaep_md:sha256"]),
        ("4", &["rsa_padding_mode:oaep", "rsa_oaep_md:sha384"]),
        ("5", &["rsa_padding_mode:oaep", "rsa_oaep_md:sha512"]),
    ] {
        let mut command = Command::new("openssl");
        command.args(["pkeyutl", "-encrypt", "-pubin", "-keyform", "DER", "-inkey", "rsa2048.der", "-in", "plain"]);
        for option in options {
            command.args(["-pkeyopt", option]);
        }
        run(command.args(["-out", "secret"]).current_dir(site.path("")));
        assert_eq!(site.says(&program, &["decrypts", padding, "secret"]), "a secret\nend", "{padding}");
    }
}
