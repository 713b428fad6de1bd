//! `sidecore run --sockets`: the environment of the command, and what it says of programs that stay on the kernel.

#[path = "../../sidecore/tests/service/skipped.rs"]
mod skipped;

use rustix::process::geteuid;
use skipped::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A directory with a file that stands for the library: the loader says that it is none, and starts programs without it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.library(), "").unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn library(&self) -> PathBuf {
        self.file("ours.so")
    }

    /// What `sidecore run --sockets` with that library does with this command.
    fn run(&self, command: &[&str]) -> Output {
        let mut run = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        run.args(["run", "--module", "/dev/null", "--sockets", "--preload"]).arg(self.library());
        run.arg("--socket-of-sockets").arg(self.file("socket")).arg("--").args(command);
        run.env_remove("LD_PRELOAD").output().unwrap()
    }

    /// A program made of this source.
    fn program(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (file, text) = (self.file(name), self.file(&format!("{name}.c")));
        fs::write(&text, source).unwrap();
        let status = Command::new("cc").arg("-o").arg(&file).arg(text).args(options).status().unwrap();
        assert!(status.success(), "{name}");
        file
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_command_has_the_library_the_socket_and_its_keys() {
    let place = Place::new();
    let output = place.run(&["sh", "-c", "echo $LD_PRELOAD; echo $SIDECORE_SOCKETS; cat $OPENSSL_CONF"]);
    let lines = format!("{}\n{}\n", place.library().display(), place.file("socket").display());
    assert!(out(&output).starts_with(&lines) && out(&output).contains("module = /dev/null"), "{}", out(&output));
    let told = told(&output);
    assert!(told.contains("no service of sockets at") && told.contains("[sockets]"), "{told}");
    assert!(!told.contains("stay on the kernel: it"), "a shell has nothing in the way: {told}");
}

#[test]
fn without_a_provider_sockets_are_served_and_without_a_library_nothing_is_run() {
    let place = Place::new();
    // Beside a command in a directory of its own lies nothing.
    let target = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = target.path().join("sidecore");
    fs::hard_link(env!("CARGO_BIN_EXE_sidecore"), &alone).unwrap();
    let run = |arguments: &[&str]| Command::new(&alone).arg("run").args(arguments).output().unwrap();
    let library = place.library();
    let shell = ["--", "sh", "-c", "echo \"[$OPENSSL_CONF]\""];
    let output = run(&[&["--sockets", "--preload", library.to_str().unwrap()][..], &shell].concat());
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "[]\n"));
    assert!(told(&output).contains("no provider beside this program"), "{}", told(&output));
    let output = run(&[&["--sockets", "--module", "/dev/null"][..], &shell].concat());
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    assert!(
        told(&output).contains("no library for sockets") && told(&output).contains("--preload"),
        "{}",
        told(&output)
    );
}

/// What is said of a program, which does what it does all the same: it ends with 7.
fn said_of(place: &Place, program: &Path) -> String {
    let output = place.run(&[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    let told = told(&output);
    let line = told.lines().find_map(|line| line.split_once("stay on the kernel: it "));
    line.map_or_else(String::new, |(_, why)| why.to_owned())
}

const SEVEN: &str = "int main(void) { return 7; }";

#[test]
fn programs_that_load_no_library_are_told_and_run() {
    let place = Place::new();
    assert_eq!(said_of(&place, &place.program("plain", SEVEN, &[])), "");
    let fixed = place.program("fixed", SEVEN, &["-static"]);
    assert!(said_of(&place, &fixed).contains("statically"));
    // With the section that the Go linker leaves.
    let source = format!("__attribute__((section(\".go.buildinfo\"), used)) int mark = 1; {SEVEN}");
    assert!(said_of(&place, &place.program("go", &source, &[])).contains("a Go program"));
    // It is the program that counts, not the script that it runs.
    let script = place.file("script");
    fs::write(&script, format!("#! {} argument\n", fixed.display())).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    assert!(said_of(&place, &script).contains("statically"));
}

#[test]
fn a_program_of_another_loader_gets_no_library() {
    let place = Place::new();
    let own =
        Command::new("sh").args(["-c", "sed -n 's|.* \\(/.*/ld-[^/]*\\)$|\\1|p' /proc/self/maps | head -1"]).output();
    let (own, other) = (out(&own.unwrap()), place.file("ld-other.so"));
    fs::copy(own.trim(), &other).unwrap();
    let option = format!("-Wl,--dynamic-linker={}", other.display());
    let source = "#include <stdlib.h>\nint main(void) { return getenv(\"LD_PRELOAD\") ? 1 : 7; }";
    let said = said_of(&place, &place.program("foreign", source, &[&option]));
    assert!(said.contains("ld-other.so") && said.contains("another C library"), "{said}");
}

#[test]
fn a_program_with_more_rights_is_told_and_run() {
    let place = Place::new();
    let program = place.program("privileged", SEVEN, &[]);
    if !geteuid().is_root() {
        skipped("only root can: a program of another user");
        return;
    }
    chown(&program, Some(65534), None).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    assert!(said_of(&place, &program).contains("more rights"));
}
