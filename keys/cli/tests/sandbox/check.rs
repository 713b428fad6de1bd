//! `sidecore check` on this machine, independent of its properties.

use crate::service::{ServiceFolder, sidecore};
use serde_json::Value;
use sidecore_daemon::sys::cpu;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

fn check(folder: &ServiceFolder) -> (Vec<Value>, i32) {
    let output = sidecore().args(["check", "--json", "--config"]).arg(folder.config()).output().unwrap();
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
    let folder = ServiceFolder::new("", "seccomp = true");
    let (before, _) = check(&folder);
    assert_eq!((state(&before, "service"), state(&before, "sandbox")), ("lacks", "unknown"));
    let _service = folder.start();
    let (findings, code) = check(&folder);
    assert!(findings.len() > 20, "{findings:?}");
    for subject in ["sealed memory", "process descriptors", "seccomp", "service", "sandbox", "socket directory"] {
        assert_eq!(state(&findings, subject), "ok", "{subject}");
    }
    assert_eq!(code, i32::from(broken(&findings) > 0), "{findings:?}");
}

#[test]
fn one_that_is_not_shut_in_and_a_directory_open_to_all_break_promises() {
    let folder = ServiceFolder::new("", "seccomp = false");
    let _service = folder.start();
    fs::set_permissions(folder.socket().parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    let (findings, code) = check(&folder);
    assert_eq!((state(&findings, "sandbox"), state(&findings, "socket directory"), code), ("lacks", "lacks", 1));
}

fn found<'a>(findings: &'a [Value], subject: &str) -> &'a str {
    let finding = findings.iter().find(|finding| finding["subject"] == subject).unwrap();
    finding["found"].as_str().unwrap()
}

#[test]
fn policies_are_told_as_they_are_in_force_by_the_configuration_and_then_by_the_service() {
    let allowed = cpu::allowed();
    let last = allowed[allowed.len() - 1];
    let folder = ServiceFolder::new(&format!("[sidecores]\ncpus = [{last}]"), "");
    let parks = format!("service break-even (parks: core {last} is shared), to device break-even, ");
    let (before, _) = check(&folder);
    assert!(found(&before, "policies in force").starts_with(&parks), "{before:?}");
    assert!(before.iter().all(|finding| finding["subject"] != "owned cores"), "{before:?}");
    let service = folder.start();
    assert!(service.said().contains(&format!("notify: {parks}")), "{}", service.said());
    assert!(folder.run(&["set", "notify=timer(1ms)"]).status.success());
    let (findings, _) = check(&folder);
    assert_eq!(state(&findings, "policies in force"), "ok");
    assert!(found(&findings, "policies in force").starts_with("service timer(1ms), "), "{findings:?}");
    drop(service);
    let folder = ServiceFolder::new(&format!("[sidecores]\ncpus = [{last}]\nowned = true"), "");
    let (findings, _) = check(&folder);
    assert!(found(&findings, "policies in force").starts_with("service break-even, "), "{findings:?}");
    // This test's process may run on that core.
    assert_eq!(state(&findings, "owned cores"), "lacks", "{findings:?}");
}

#[test]
fn the_round_trip_is_measured_where_there_are_two_cores_and_told_to_be_missing_on_one() {
    let folder = ServiceFolder::new("", "");
    let (findings, _) = check(&folder);
    if cpu::allowed().len() > 1 && state(&findings, "round trip") != "unknown" {
        assert!(found(&findings, "round trip").contains(" and back "), "{findings:?}");
    }
    let on_one = || {
        cpu::pin(cpu::allowed()[0]).unwrap();
        check(&folder).0
    };
    let findings = thread::scope(|scope| scope.spawn(on_one).join().unwrap());
    assert_eq!((state(&findings, "cores"), state(&findings, "round trip")), ("lacks", "unknown"));
    assert!(found(&findings, "round trip").starts_with("one core"), "{findings:?}");
}

#[test]
fn its_text_says_what_to_do_and_a_wrong_configuration_is_wrong_usage() {
    let folder = ServiceFolder::new("", "");
    let output = sidecore().args(["check", "--socket", folder.socket().to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("lacks    service:") && text.contains("do: sidecore serve"), "{text}");
    fs::write(folder.config(), "nonsense = 1").unwrap();
    assert_eq!(check(&folder), (Vec::new(), 2));
}
