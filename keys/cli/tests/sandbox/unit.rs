//! The units for systemd.

use crate::service::sidecore;
use sidecore_testing::skipped;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

const UNITS: [(&str, &str); 2] = [
    ("sidecore.service", include_str!("../../../../packaging/sidecore.service")),
    ("sidecore-sockets.service", include_str!("../../../../packaging/sidecore-sockets.service")),
];
/// Highest accepted exposure, in tenths as `systemd-analyze` counts: 0 to 100.
const EXPOSURE: &str = "15";

fn value<'a>(unit: &'a str, key: &str) -> &'a str {
    unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap()
}

/// Output of `systemd-analyze`. `None`: it is not installed, and the test is reported as skipped.
fn analyze(arguments: &[&str]) -> Option<Output> {
    match Command::new("systemd-analyze").args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            skipped(&format!("systemd-analyze is not installed: {arguments:?}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn with_this_build() -> (TempDir, [(&'static str, PathBuf); 2]) {
    let scratch = tempfile::tempdir().unwrap();
    let files = UNITS.map(|(name, unit)| {
        let program = sidecore().get_program().to_str().unwrap().to_owned();
        let text = unit.replace("/usr/lib/sidecore/sidecore-sockets", &program).replace("/usr/bin/sidecore", &program);
        let file = scratch.path().join(name);
        fs::write(&file, text).unwrap();
        (name, file)
    });
    (scratch, files)
}

#[test]
fn the_units_start_what_there_is() {
    let help = String::from_utf8(sidecore().args(["serve", "--help"]).output().unwrap().stdout).unwrap();
    // That of sockets starts another program, which has this test too.
    let [(_, unit), _] = UNITS;
    let words: Vec<&str> = value(unit, "ExecStart").split_whitespace().collect();
    assert_eq!(words[..2], ["/usr/bin/sidecore", "serve"]);
    let options: Vec<&&str> = words.iter().filter(|word| word.starts_with("--")).collect();
    assert_eq!(options.len(), 2);
    assert!(options.iter().all(|option| help.contains(**option)), "{help}");
}

#[test]
fn the_services_are_different_users_in_different_directories() {
    for key in ["User", "Group", "RuntimeDirectory"] {
        let [one, other] = UNITS.map(|(_, unit)| value(unit, key));
        assert_ne!(one, other, "{key}");
    }
}

/// Without this setting systemd ignores the service's request to keep its socket.
#[test]
fn systemd_holds_the_socket_of_the_service_of_keys() {
    let (_, unit) = UNITS[0];
    assert_eq!([value(unit, "Type"), value(unit, "FileDescriptorStoreMax")], ["notify", "1"]);
}

#[test]
fn systemd_understands_each_line_of_the_units() {
    let (_scratch, files) = with_this_build();
    for (name, file) in files {
        let Some(output) = analyze(&["verify", "--man=no", file.to_str().unwrap()]) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        let about_it: Vec<&str> = said.lines().filter(|line| line.contains(name)).collect();
        assert!(about_it.is_empty(), "{about_it:#?}");
    }
}

#[test]
fn the_units_leave_little_exposed() {
    let (_scratch, files) = with_this_build();
    let threshold = format!("--threshold={EXPOSURE}");
    for (name, file) in files {
        let Some(output) = analyze(&["security", "--offline=true", &threshold, file.to_str().unwrap()]) else { return };
        let said = String::from_utf8_lossy(&output.stdout);
        let exposure = said.lines().last().unwrap_or_default();
        assert!(output.status.success() && exposure.contains("exposure level"), "{name}: {exposure}");
    }
}
