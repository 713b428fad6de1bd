//! The unit for systemd.

use crate::service::sidecore;
use crate::skipped::skipped;
use std::fs;
use std::io;
use std::process::{Command, Output};

const UNIT: &str = include_str!("../../../../packaging/sidecore.service");
/// Worst exposure that is accepted, as `systemd-analyze` counts in tenths: 0 to 100.
const EXPOSURE: &str = "15";

fn value(key: &str) -> &'static str {
    UNIT.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap()
}

/// What systemd says to it. `None`, said aloud: it is not here.
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

/// Its text with this build of the command, and without the credential, which is not on this machine.
fn with_this_build() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let text = UNIT.replace("/usr/bin/sidecore", sidecore().get_program().to_str().unwrap());
    fs::write(scratch.path().join("sidecore.service"), text).unwrap();
    scratch
}

#[test]
fn the_unit_starts_what_there_is() {
    let words: Vec<&str> = value("ExecStart").split_whitespace().collect();
    assert_eq!(words[..2], ["/usr/bin/sidecore", "serve"]);
    let help = String::from_utf8(sidecore().args(["serve", "--help"]).output().unwrap().stdout).unwrap();
    let options: Vec<&&str> = words.iter().filter(|word| word.starts_with("--")).collect();
    assert_eq!(options.len(), 2);
    assert!(options.iter().all(|option| help.contains(**option)), "{help}");
}

#[test]
fn systemd_understands_each_line_of_the_unit() {
    let scratch = with_this_build();
    let file = scratch.path().join("sidecore.service");
    let Some(output) = analyze(&["verify", "--man=no", file.to_str().unwrap()]) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("sidecore.service")).collect();
    assert!(about_it.is_empty(), "{about_it:#?}");
}

#[test]
fn the_unit_leaves_little_exposed() {
    let scratch = with_this_build();
    let file = scratch.path().join("sidecore.service");
    let threshold = format!("--threshold={EXPOSURE}");
    let Some(output) = analyze(&["security", "--offline=true", &threshold, file.to_str().unwrap()]) else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let exposure = said.lines().last().unwrap_or_default();
    assert!(output.status.success() && exposure.contains("exposure level"), "{exposure}");
}
