//! The command lines of `wrong_inputs.md` run again; message and exit code must be the ones in its rows. With
//! `SIDECORE_WRITE_PAGES` set, as `cargo xtask golden --write` does, the file is written anew instead.

#[path = "servers/library.rs"]
mod library;

use rustix::process::{Pid, Signal, kill_process};
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wrong_inputs.md");
/// Asks for a new page.
const WRITE: &str = "SIDECORE_WRITE_PAGES";
/// How long a command may take that should fail at once, for `timeout`: what hangs is ended, and its exit code is another.
const LIMIT: &str = "60";
/// What the page promises at least.
const FEWEST: usize = 100;
/// Packages of the programs that lie beside `sidecore`, which are called as they are, and that of the provider.
const PROGRAMS: [&str; 2] = ["sidecore-lab", "sidecore-farm"];
const PROVIDER: &str = "sidecore-openssl";

/// What lies beside `sidecore`. `cargo xtask test` has built it before; what is not there is built alone, which takes cargo long.
fn beside() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_BIN_EXE_sidecore")).parent().unwrap();
    let there = |name: &str| Some(directory.join(name)).filter(|file| file.is_file());
    let programs = PROGRAMS.map(|name| there(name).unwrap_or_else(|| library::file(name, name)));
    let provider = there("libsidecore_openssl.so").unwrap_or_else(|| library::built(PROVIDER));
    programs.into_iter().chain([provider]).collect()
}

/// The directory in which everything is typed, and the services there; they end with it.
struct Place {
    scratch: TempDir,
    services: Vec<Child>,
}

impl Place {
    /// With what the page's blocks make.
    fn new(page: &str) -> Self {
        let mut place = Self { scratch: tempfile::tempdir().unwrap(), services: Vec::new() };
        // Other users come in as well.
        fs::set_permissions(place.scratch.path(), Permissions::from_mode(0o755)).unwrap();
        let bin = place.path("bin");
        fs::create_dir(&bin).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_sidecore"), bin.join("sidecore")).unwrap();
        for file in beside() {
            symlink(&file, bin.join(file.file_name().unwrap())).unwrap();
        }
        let [files, keys] = blocks(page)[..] else { panic!("two blocks make what the rows need") };
        place.prepare(files);
        for name in ["service.toml", "sockets.toml"] {
            place.serve(name);
        }
        place.prepare(keys);
        place
    }

    fn path(&self, file: &str) -> PathBuf {
        self.scratch.path().join(file)
    }

    fn bash(&self, script: &str) -> Command {
        let mut bash = Command::new("timeout");
        bash.args(["--kill-after=1", LIMIT, "bash", "-c", script]).current_dir(&self.scratch).stdin(Stdio::null());
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.path("bin").display());
        bash.env_clear().env("PATH", path).env("LC_ALL", "C").env("HOME", self.scratch.path());
        bash.env("SIDECORE_SOCKET", "socket").env("SIDECORE_SOCKETS", "sockets");
        bash
    }

    fn prepare(&self, block: &str) {
        let done = self.bash(&format!("set -e\n{block}")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn serve(&mut self, config: &str) {
        let log = fs::File::create(self.path(&format!("{config}.log"))).unwrap();
        let mut serve = Command::new(self.path("bin/sidecore"));
        serve.args(["serve", "--config", config]).current_dir(&self.scratch).stderr(log);
        self.services.push(serve.spawn().unwrap());
        let log = || fs::read_to_string(self.path(&format!("{config}.log"))).unwrap();
        for _ in 0..3000 {
            if log().contains("serving at") {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{config}: {}", log());
    }

    /// The row as it is now.
    fn row(&self, typed: &str) -> String {
        let done = self.bash(typed).output().unwrap();
        let [out, err] =
            [done.stdout, done.stderr].map(|bytes| self.without_this_machine(&String::from_utf8_lossy(&bytes)));
        let err = without_log(&err);
        let said = if err.is_empty() { out.lines().last().unwrap_or_default().to_owned() } else { without_usage(&err) };
        let code = done.status.code().map_or_else(|| "signal".to_owned(), |code| code.to_string());
        let lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).map(code_span).collect();
        format!("| {} | {} | {code} |", code_span(typed), lines.join("<br>"))
    }

    /// The directory's own path, the cores that this machine has, and what only fills a path.
    fn without_this_machine(&self, said: &str) -> String {
        let said = said.replace(self.scratch.path().to_str().unwrap(), "…").replace(&"0".repeat(119), "0…0");
        let Some((before, cores)) = said.split_once("this process may use, ") else { return said };
        let after = cores.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | ' '));
        format!("{before}this process may use, …{after}")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for service in &mut self.services {
            // It may have ended already.
            let _ = kill_process(Pid::from_child(service), Signal::TERM);
            let _ = service.wait();
        }
    }
}

/// The texts of the blocks marked `sh`.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).filter_map(|after| after.split("```").next()).collect()
}

/// What a service logs before it finds out that it cannot begin has the time in front, and is not about what is wrong.
fn without_log(said: &str) -> String {
    let is_logged = |line: &str| line.split_once('-').is_some_and(|(year, _)| year.parse::<u16>().is_ok());
    said.split_inclusive('\n').filter(|line| !is_logged(line)).collect()
}

/// What help says about usage is the same everywhere.
fn without_usage(said: &str) -> String {
    let end = ["\nUsage:", "\nFor more information"].iter().filter_map(|mark| said.find(mark)).min();
    said[..end.unwrap_or(said.len())].to_owned()
}

/// As code in a cell of a table.
fn code_span(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// What is typed in that line of the page, if it is a row.
fn typed(line: &str) -> Option<String> {
    let cell = line.strip_prefix("| ")?;
    let text = match cell.strip_prefix("`` ") {
        Some(cell) => cell.split_once(" `` |")?.0,
        None => cell.strip_prefix('`')?.split_once("` |")?.0,
    };
    Some(text.replace("\\|", "|"))
}

/// The page with its rows as they are now. Each section has a thread, for most commands only start and end.
fn again(page: &str, place: &Place) -> String {
    let row = |line: &&str| typed(line).map_or_else(|| (*line).to_owned(), |typed| place.row(&typed)) + "\n";
    let lines: Vec<&str> = page.lines().collect();
    let sections = lines.chunk_by(|_, next| !next.starts_with("## "));
    thread::scope(|scope| {
        let running: Vec<_> =
            sections.map(|section| scope.spawn(move || section.iter().map(row).collect::<String>())).collect();
        running.into_iter().map(|section| section.join().unwrap()).collect()
    })
}

#[test]
fn each_wrong_input_has_the_message_and_the_exit_code_of_the_page() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can type as another user");
    }
    let page = fs::read_to_string(PAGE).unwrap();
    let now = again(&page, &Place::new(&page));
    if std::env::var_os(WRITE).is_some() {
        return fs::write(PAGE, now).unwrap();
    }
    let differ = page.lines().zip(now.lines()).filter(|(page, now)| page != now);
    let differ: Vec<_> = differ.map(|(page, now)| format!("page: {page}\nnow:  {now}\n")).collect();
    assert!(differ.is_empty(), "{}if that is meant: cargo xtask golden --write", differ.concat());
    assert_eq!(page, now);
}

#[test]
fn the_page_has_every_command_and_no_message_is_a_panic() {
    let page = fs::read_to_string(PAGE).unwrap();
    let rows: Vec<(String, &str)> = page.lines().filter_map(|line| Some((typed(line)?, line))).collect();
    assert!(rows.len() >= FEWEST, "{}", rows.len());
    for (typed, row) in &rows {
        let code = row.trim_end_matches(" |").rsplit(' ').next().unwrap();
        // `run` ends as shells do where there is no such command, or none that can be run.
        let fits = matches!(code, "1" | "2") || typed.starts_with("sidecore run") && matches!(code, "126" | "127");
        assert!(fits && !row.contains("panicked") && !row.contains("RUST_BACKTRACE"), "{row}");
        assert!(!row.contains("| | "), "nothing is said: {row}");
    }
    beside();
    for of in ["", "keys ", "sim ", "net ", "farm "] {
        for command in commands(of) {
            let name = format!("sidecore {of}{command}");
            assert!(rows.iter().any(|(typed, _)| typed.contains(&name)), "no row is about `{name}`");
        }
    }
}

/// What help lists behind that word.
fn commands(of: &str) -> Vec<String> {
    let mut help = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    let help = help.args(of.split_whitespace()).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.split("Commands:\n").nth(1).unwrap_or_else(|| panic!("{help}"));
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}
