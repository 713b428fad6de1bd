//! Programs started by another one get the library exactly if they can load it.

use super::program::{command, compiled, compiled_with, library, started};
use super::{found, same, skipped};
use sidecore_sockets::ask;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

struct Targets {
    directory: TempDir,
    found: Vec<(&'static str, PathBuf)>,
}

impl Targets {
    /// `None`: a compiler is missing.
    fn new() -> Option<Self> {
        if Command::new("musl-gcc").arg("--version").stdout(Stdio::null()).status().is_err() {
            skipped("no `musl-gcc` here: apt-get install musl-tools");
            return None;
        }
        let mut targets = Self { directory: tempfile::tempdir().unwrap(), found: Vec::new() };
        targets.compile("DYNAMIC", "cc", &[]);
        targets.compile("STATIC", "cc", &["-static"]);
        targets.compile("ASAN", "cc", &["-fsanitize=address"]);
        targets.compile("MUSL", "musl-gcc", &[]);
        let musl = targets.path("MUSL").display().to_string();
        targets.write("SCRIPT", &format!("#!{musl} of a script\n"));
        // The kernel does not know its kind; two calls let the shell run it.
        targets.write("TEXT", &format!("exec {musl} of a text\n"));
        Some(targets)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name.to_lowercase())
    }

    fn compile(&mut self, name: &'static str, compiler: &str, options: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls/target.c");
        let path = self.path(name);
        let status = Command::new(compiler).arg("-o").arg(&path).arg(source).args(options).status().unwrap();
        assert!(status.success(), "{name}");
        self.found.push((name, path));
    }

    fn write(&mut self, name: &'static str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        self.found.push((name, path));
    }

    fn started_by(&self, program: &Path, service: Option<&Path>) -> (String, String) {
        let path = format!("{}:/usr/bin:/bin", self.directory.path().display());
        let mut command = command(program, &[], service);
        command.envs(self.found.iter().map(|(name, path)| (name, path))).env("PLACE", self.directory.path());
        let output = command.env("PATH", path).output().unwrap();
        let [said, told] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{}: {said}{told}", output.status);
        (said, told)
    }
}

#[test]
fn started_programs_get_the_library_where_they_can_load_it() {
    let Some(targets) = Targets::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), &["loading.c"]);
    let (plain, _) = targets.started_by(&program, None);
    assert!(plain.matches(": 1792 ").count() > 150, "each ends with 7: {plain}");
    let socket = directory.path().join("socket");
    let _service = started(&socket);
    let mut is_seen = false;
    let (served, told) = thread::scope(|scope| {
        let served = scope.spawn(|| targets.started_by(&program, Some(&socket)));
        while !served.is_finished() {
            is_seen |= ask::rows(&socket).unwrap().iter().any(|row| row.messages > 0);
            thread::sleep(Duration::from_millis(2));
        }
        served.join().unwrap()
    });
    assert!(is_seen, "nothing went through a ring");
    assert_eq!(told, "", "nothing complains");
    let preload = format!("preload {}\n", library().display());
    let is_loaded = |line: &str| line.starts_with("DYNAMIC ");
    let lines = plain.split_inclusive('\n');
    let expected =
        lines.map(|line| line.replace("preload none\n", if is_loaded(line) { &preload } else { "preload none\n" }));
    same(&expected.collect::<String>(), &served);
}

#[test]
fn a_program_that_looks_for_lost_memory_gets_no_library() {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled_with(directory.path(), &["leaks.c"], &["-fsanitize=leak"]);
    let plain = command(&program, &[], None).output().unwrap();
    let expected = String::from_utf8(plain.stdout).unwrap();
    if !expected.contains("a child: 0") {
        return skipped("LeakSanitizer does not work here, also without the library");
    }
    let socket = directory.path().join("socket");
    let _service = started(&socket);
    same(&expected, &found(&program, Some(&socket)));
}
