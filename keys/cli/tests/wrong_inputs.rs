//! Runs the command lines of `wrong_inputs.md` again. Messages and exit codes must match its rows.
//! `SIDECORE_WRITE_PAGES`, which `cargo xtask golden --write` sets, rewrites the file instead.

#[path = "servers/library.rs"]
mod library;

use rustix::process::{Pid, Signal, kill_process};
use sidecore_testing::{copy_program, skipped};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wrong_inputs.md");
const WRITE: &str = "SIDECORE_WRITE_PAGES";
/// Limit of a command that should fail immediately, for `timeout`. A hanging command ends with another exit code.
const LIMIT: &str = "60";
const FEWEST: usize = 100;
/// Packages of the programs in the directory of `sidecore`, with the same names, and that of the provider.
const PROGRAMS: [(&str, &str); 7] = [
    ("sidecore-lab", "sidecore-lab"),
    ("sidecore-try", "sidecore-try"),
    ("sidecore-watch", "sidecore-watch"),
    ("sidecore-farm", "sidecore-farm"),
    ("sidecore-remote", "sidecore-remote"),
    ("sidecore-agent", "sidecore-agent"),
    ("sidecore-sockets-command", "sidecore-sockets"),
];
const PROVIDER: &str = "sidecore-openssl";

/// Files in the directory of `sidecore`. `cargo xtask test` has built them before; a missing file is built alone, which
/// takes longer.
fn beside() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_BIN_EXE_sidecore")).parent().unwrap();
    let there = |name: &str| Some(directory.join(name)).filter(|file| file.is_file());
    let programs = PROGRAMS.map(|(package, name)| there(name).unwrap_or_else(|| library::file(package, name)));
    let provider = there("libsidecore_openssl.so").unwrap_or_else(|| library::built(PROVIDER));
    programs.into_iter().chain([provider]).collect()
}

struct PageFolder {
    scratch: TempDir,
    services: Vec<Child>,
}

impl PageFolder {
    fn new(page: &str) -> Self {
        let mut folder = Self { scratch: tempfile::tempdir().unwrap(), services: Vec::new() };
        // Other users need access.
        fs::set_permissions(folder.scratch.path(), Permissions::from_mode(0o755)).unwrap();
        let bin = folder.path("bin");
        fs::create_dir(&bin).unwrap();
        copy_program(env!("CARGO_BIN_EXE_sidecore"), bin.join("sidecore"));
        for file in beside() {
            symlink(&file, bin.join(file.file_name().unwrap())).unwrap();
        }
        let [files, keys] = blocks(page)[..] else { panic!("two blocks make what the rows need") };
        folder.prepare(files);
        folder.serve(&["serve"], "service.toml");
        folder.serve(&["sockets", "serve"], "sockets.toml");
        folder.prepare(keys);
        folder
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

    fn serve(&mut self, words: &[&str], config: &str) {
        let log = fs::File::create(self.path(&format!("{config}.log"))).unwrap();
        let mut serve = Command::new(self.path("bin/sidecore"));
        serve.args(words).args(["--config", config]).current_dir(&self.scratch).stderr(log);
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

    /// Replaces the directory's path, this machine's cores, and the zeros that fill a path.
    fn without_this_machine(&self, said: &str) -> String {
        let said = said.replace(self.scratch.path().to_str().unwrap(), "…").replace(&"0".repeat(119), "0…0");
        let Some((before, cores)) = said.split_once("this process may use, ") else { return said };
        let after = cores.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | ' '));
        format!("{before}this process may use, …{after}")
    }
}

impl Drop for PageFolder {
    fn drop(&mut self) {
        for service in &mut self.services {
            // The process may have ended already.
            let _ = kill_process(Pid::from_child(service), Signal::TERM);
            let _ = service.wait();
        }
    }
}

fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).filter_map(|after| after.split("```").next()).collect()
}

/// Removes log lines of a service that starts before it fails: they have the time in front, and do not concern the
/// fault.
fn without_log(said: &str) -> String {
    let is_logged = |line: &str| line.split_once('-').is_some_and(|(year, _)| year.parse::<u16>().is_ok());
    said.split_inclusive('\n').filter(|line| !is_logged(line)).collect()
}

fn without_usage(said: &str) -> String {
    let end = ["\nUsage:", "\nFor more information"].iter().filter_map(|mark| said.find(mark)).min();
    said[..end.unwrap_or(said.len())].to_owned()
}

fn code_span(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

fn typed(line: &str) -> Option<String> {
    let cell = line.strip_prefix("| ")?;
    let text = match cell.strip_prefix("`` ") {
        Some(cell) => cell.split_once(" `` |")?.0,
        None => cell.strip_prefix('`')?.split_once("` |")?.0,
    };
    Some(text.replace("\\|", "|"))
}

/// The page with current rows. Each section has a thread, because most commands only start and end.
fn again(page: &str, folder: &PageFolder) -> String {
    let row = |line: &&str| typed(line).map_or_else(|| (*line).to_owned(), |typed| folder.row(&typed)) + "\n";
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
    let now = again(&page, &PageFolder::new(&page));
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
        // `run` ends like a shell if the command does not exist or cannot be executed.
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
