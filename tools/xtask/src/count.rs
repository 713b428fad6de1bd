//! `cargo xtask count`: instructions per operation, counted by callgrind, against the limits of a page.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cargo_metadata::MetadataCommand;

use crate::{Result, built};

const LIMITS: &str = "docs/results/lane.md";
const ROUNDS: u64 = 50;
/// Requests in a round. A figure is the difference between both depths, for one request.
const DEPTHS: [u64; 2] = [128, 256];
const PROGRAMS: [&str; 2] = ["count", "count-sends"];
/// Operations that run at both depths: the number of the program, and its arguments.
const OPERATIONS: [(usize, &[&str]); 4] = [(0, &["noop"]), (0, &["aes-256-gcm"]), (0, &["library"]), (1, &[])];
const SOCKETS: &str = "SIDECORE_SOCKETS";
/// Settings of the workspace's crates: as for a release, with one unit of code each in the place of optimisation when
/// linking. The other crates have the release's settings except for assertions, and so are shared with the tests.
const AS_RELEASED: [&str; 4] = ["opt-level=3", "debug-assertions=false", "overflow-checks=false", "codegen-units=1"];

/// Most runs of each program. On a busy machine the sidecore looks at its rings more often, which only adds instructions,
/// up to 1 % of a figure. So the run with the fewest counts.
const RUNS: usize = 3;

pub(crate) const IS_LIMITED: bool = cfg!(target_arch = "x86_64");
pub(crate) const NOT_LIMITED: &str = "the limits are for x86-64: count on such a machine";

/// Instructions of client and sidecore, for each operation and depth.
type Totals = [[[u64; 2]; DEPTHS.len()]; OPERATIONS.len()];

/// Instructions of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    client: f64,
    sidecore: f64,
}

impl Cost {
    fn of([few, many]: [[u64; 2]; DEPTHS.len()]) -> Self {
        let each = |at: usize| (many[at] as f64 - few[at] as f64) / (ROUNDS * (DEPTHS[1] - DEPTHS[0])) as f64;
        Self { client: each(0), sidecore: each(1) }
    }
}

type Programs = [PathBuf; PROGRAMS.len()];

/// Builds the programs, and prints their figures with the limits. `false`: one is above its limit.
pub(crate) fn run(root: &Path) -> Result<bool> {
    if !IS_LIMITED {
        return Err(NOT_LIMITED.into());
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("valgrind is missing; run: sudo apt-get install valgrind".into());
    }
    let page = fs::read_to_string(root.join(LIMITS))?;
    let limits = limits(&page)?;
    let programs = build(root)?;
    let mut fewest: Totals = [[[u64::MAX; 2]; DEPTHS.len()]; OPERATIONS.len()];
    for _ in 0..RUNS {
        count(&programs, &root.join("target/callgrind"), &mut fewest)?;
        let [noop, aes, library, send] = fewest.map(Cost::of);
        let figures = [noop.sidecore, noop.client, aes.sidecore - library.client, send.client];
        if limits.len() != figures.len() {
            return Err(format!("{LIMITS} has {} limits, counted are {}", limits.len(), figures.len()).into());
        }
        let (table, held) = compared(&limits, &figures);
        println!("{table}");
        println!(
            "not limited: AES-256-GCM of 64 bytes costs the library {:.0}, the sidecore {:.0}, the client {:.0}",
            library.client, aes.sidecore, aes.client
        );
        if held {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Builds the programs. The workspace's crates get settings of their own, in the directory of the tests. The services'
/// other programs there have the same settings until everything is built again.
fn build(root: &Path) -> Result<Programs> {
    let mut cargo = built::cargo(root);
    for package in MetadataCommand::new().current_dir(root).no_deps().exec()?.packages {
        for setting in AS_RELEASED {
            cargo.arg("--config").arg(format!("profile.dev.package.{}.{setting}", package.name));
        }
    }
    cargo.env("SIDECORE_SLOW_CLOCK", "1").env("CARGO_INCREMENTAL", "0");
    let built = built::tests(&mut cargo, &PROGRAMS.map(|name| ["--bench", name]).concat())?;
    let [count, sends] = PROGRAMS.map(|name| built::program(&built, name));
    Ok([count?, sends?])
}

/// Keeps the lower totals. Only both depths run in parallel: more programs would disturb each other on two cores.
fn count(programs: &Programs, directory: &Path, fewest: &mut Totals) -> Result<()> {
    let _ = fs::remove_dir_all(directory);
    for (number, ((program, arguments), fewest)) in OPERATIONS.into_iter().zip(fewest).enumerate() {
        let runs = DEPTHS.map(|depth| {
            let mut program = Command::new(&programs[program]);
            program.args(arguments).args([ROUNDS, depth].map(|number| number.to_string()));
            Run::start(&program, &directory.join(format!("{number}-{depth}")))
        });
        for (run, fewest) in runs.into_iter().zip(fewest) {
            for (total, fewest) in run?.end()?.into_iter().zip(fewest) {
                *fewest = total.min(*fewest);
            }
        }
    }
    Ok(())
}

struct Run {
    child: Child,
    directory: PathBuf,
}

impl Run {
    fn start(program: &Command, directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let mut command = Command::new("valgrind");
        command.args(["-q", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"]);
        command.arg(format!("--callgrind-out-file={}", directory.join("out").display()));
        command.env(SOCKETS, directory.join("socket"));
        command.arg(program.get_program()).args(program.get_args());
        Ok(Self { child: command.stdin(Stdio::null()).spawn()?, directory: directory.to_owned() })
    }

    /// Instructions of the first thread, which is the client, and of all others, where only the sidecore works.
    fn end(mut self) -> Result<[u64; 2]> {
        if !self.child.wait()?.success() {
            return Err("the program to count failed under valgrind".into());
        }
        let mut counted = [0; 2];
        for entry in fs::read_dir(&self.directory)? {
            let (thread, total) = thread_total(&fs::read_to_string(entry?.path())?).unwrap_or_default();
            counted[usize::from(thread != 1)] += total;
        }
        if counted[0] == 0 { Err("callgrind counted nothing".into()) } else { Ok(counted) }
    }
}

/// Number and total of the thread of one callgrind file. The file of the whole process names no thread.
fn thread_total(profile: &str) -> Option<(u64, u64)> {
    let field = |name: &str| profile.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((field("thread:")?, field("totals:")?))
}

/// Names and limits: the rows of the page's table that end in a number.
fn limits(page: &str) -> Result<Vec<(&str, f64)>> {
    let limits: Vec<_> = page.lines().filter_map(limit).collect();
    if limits.is_empty() { Err(format!("{LIMITS} has no limits").into()) } else { Ok(limits) }
}

fn limit(line: &str) -> Option<(&str, f64)> {
    let (name, limit) = line.strip_prefix('|')?.strip_suffix('|')?.split_once('|')?;
    Some((name.trim(), limit.trim().parse().ok()?))
}

/// The figures as a table, and whether all hold.
fn compared(limits: &[(&str, f64)], figures: &[f64]) -> (String, bool) {
    let mut table = "| What | Instructions | At most | |\n|---|---|---|---|".to_owned();
    let mut held = true;
    for ((name, limit), figure) in limits.iter().zip(figures) {
        let holds = figure <= limit;
        held &= holds;
        let _ = write!(table, "\n| {name} | {figure:.0} | {limit} | {} |", if holds { "held" } else { "EXCEEDED" });
    }
    (table, held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_above_its_limit_is_found() -> Result<()> {
        let page = "Text | with a bar.\n\n| What | At most |\n|---|---|\n| no-op, client | 130 |\n| other | 7.5 |\n";
        let limits = limits(page)?;
        assert_eq!(limits, [("no-op, client", 130.0), ("other", 7.5)]);
        assert!(compared(&limits, &[130.0, 7.0]).1);
        let (table, held) = compared(&limits, &[130.4, 7.0]);
        assert!(!held);
        assert!(table.contains("| no-op, client | 130 | 130 | EXCEEDED |\n| other | 7 | 7.5 | held |"), "{table}");
        Ok(())
    }

    #[test]
    fn a_page_without_limits_is_an_error() {
        assert!(limits("| What | At most |\n|---|---|\n").is_err());
    }

    #[test]
    fn the_page_limits_each_figure() -> Result<()> {
        assert_eq!(limits(&fs::read_to_string(crate::root()?.join(LIMITS))?)?.len(), 4);
        Ok(())
    }

    #[test]
    fn a_profile_says_whose_it_is() {
        let profile = "version: 1\npid: 7\nthread: 2\n\nfn=(1) f\n1 2\ntotals: 12891667\n";
        assert_eq!(thread_total(profile), Some((2, 12_891_667)));
        assert_eq!(thread_total("totals: 5\n"), None);
    }
}
