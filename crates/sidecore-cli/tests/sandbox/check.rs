//! `sidecore check` on this machine, whatever it lacks.

use crate::service::{Place, sidecore};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// What it says of a configuration, and its exit code.
fn check(place: &Place) -> (Vec<Value>, i32) {
    let output = sidecore().args(["check", "--json", "--config"]).arg(place.config()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output.status.code().unwrap())
}

fn state<'a>(findings: &'a [Value], subject: &str) -> &'a str {
    let finding = findings.iter().find(|finding| finding["subject"] == subject).unwrap();
    finding["state"].as_str().unwrap()
}

fn broken(findings: &[Value]) -> usize {
    findings.iter().filter(|finding| finding["state"] == "lacks" && finding["breaks"] == true).count()
}

#[test]
fn a_service_that_is_shut_in_is_found_so_and_the_exit_code_goes_by_broken_promises() {
    let place = Place::new("", "seccomp = true");
    let (before, _) = check(&place);
    assert_eq!((state(&before, "service"), state(&before, "sandbox")), ("lacks", "unknown"));
    let _service = place.start();
    let (findings, code) = check(&place);
    assert!(findings.len() > 20, "{findings:?}");
    for subject in ["sealed memory", "process descriptors", "seccomp", "service", "sandbox", "socket directory"] {
        assert_eq!(state(&findings, subject), "ok", "{subject}");
    }
    assert_eq!(code, i32::from(broken(&findings) > 0), "{findings:?}");
}

#[test]
fn one_that_is_not_shut_in_and_a_directory_open_to_all_break_promises() {
    let place = Place::new("", "seccomp = false");
    let _service = place.start();
    fs::set_permissions(place.socket().parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    let (findings, code) = check(&place);
    assert_eq!((state(&findings, "sandbox"), state(&findings, "socket directory"), code), ("lacks", "lacks", 1));
}

#[test]
fn its_text_says_what_to_do_and_a_wrong_configuration_is_wrong_usage() {
    let place = Place::new("", "");
    let output = sidecore().args(["check", "--socket", place.socket().to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("lacks    service:") && text.contains("do: sidecore serve"), "{text}");
    fs::write(place.config(), "nonsense = 1").unwrap();
    assert_eq!(check(&place), (Vec::new(), 2));
}
