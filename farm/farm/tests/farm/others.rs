//! Words of `sidecore farm` that other programs answer, here scripts in their place.

use sidecore_testing::copy_program;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SCRIPT: &str = "#!/bin/sh\necho \"$(basename $0) $*\"\nexit 7\n";

/// A directory with the farm's program and these others.
fn installed(others: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy_program(env!("CARGO_BIN_EXE_sidecore-farm"), directory.path().join("sidecore-farm"));
    let script = directory.path().join("script");
    fs::write(&script, SCRIPT).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    for other in others {
        copy_program(&script, directory.path().join(other));
    }
    directory
}

fn ran(directory: &Path, arguments: &[&str], shell: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(directory.join("sidecore-farm"));
    let Output { status, stdout, stderr } =
        command.args(arguments).envs(shell.map(|shell| ("SIDECORE_COMPLETE", shell))).output().unwrap();
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn they_get_the_arguments_and_the_exit_code_is_theirs() {
    let directory = installed(&["sidecore-remote", "sidecore-lab"]);
    for (arguments, said) in [
        (&["gateway", "--device", "far"][..], "sidecore-remote gateway --device far\n"),
        (&["key-server", "--help"], "sidecore-remote key-server --help\n"),
        (&["help", "gateway"], "sidecore-remote help gateway\n"),
        (&["bench", "tail", "--quick"], "sidecore-lab farm bench tail --quick\n"),
        (&["try", "--help"], "sidecore-lab farm try --help\n"),
        (&["help", "try"], "sidecore-lab farm help try\n"),
    ] {
        assert_eq!(ran(directory.path(), arguments, None), (Some(7), said.to_owned()), "{arguments:?}");
    }
    let asked = ["--", "sidecore", "farm", "gateway", "--de"];
    let answered = "sidecore-remote -- sidecore farm gateway --de\n".to_owned();
    assert_eq!(ran(directory.path(), &asked, Some("fish")), (Some(7), answered));
}

#[test]
fn without_them_it_is_said_how_to_get_them_and_the_farm_does_the_rest() {
    let directory = installed(&[]);
    for (word, package) in [("gateway", "sidecore"), ("bench", "sidecore-lab")] {
        let (code, said) = ran(directory.path(), &[word], None);
        assert_eq!(code, Some(2), "{said}");
        let remedy = format!("sidecore farm {word} is not installed here: apt-get install {package}, or");
        assert!(said.contains(&remedy) && said.contains("cargo build --release"), "{said}");
    }
    let (code, help) = ran(directory.path(), &["--help"], None);
    assert_eq!(code, Some(0));
    for line in ["  try       Show the farm's main job", "  bench     Measure the farm", "  dispatch  Hand"] {
        assert!(help.contains(line), "{line} in {help}");
    }
}
