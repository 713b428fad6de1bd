//! `cargo xtask test`: every check of a change, each with its time. The machine is prepared first. Checks without a
//! build come next, then the count of instructions, which other programs would disturb; then all tests are built, once.
//! Programs that start services wait for them, so one runs for each two cores, and one more after all computations.
//! These, as lints, have most of the processor time that services leave.

mod counts;
mod machine;
mod packages;
mod pool;
mod skips;

use std::ffi::OsStr;
use std::fs;
use std::iter;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use cargo_metadata::Artifact;

use crate::built::{self, cargo};
use crate::{Result, count, faults, tidy};
use counts::Counts;
use machine::Machine;
use pool::{Ended, Program, Queue};
use skips::Skips;

/// How many times loom may take the processor from a thread: its manual finds 2 or 3 enough for most bugs.
const LOOM_PREEMPTIONS: &str = "3";
const FAULT_SEEDS: &str = "10000";

/// Folders of crates whose tests only compute. Tests of other crates start services and programs, and wait for them.
const BESIDE: [&str; 13] = [
    "base/core",
    "base/nodes",
    "sockets/streams",
    "farm/assign",
    "base/ipc",
    "keys/client",
    "lab/measure",
    "keys/counters",
    "sockets/program",
    "lab/sim",
    "tools/libcrypto",
    "tools/xtask",
    "keys/fuzz",
];

/// Time after which a program counts as hanging: the longest takes ten minutes on two quiet cores.
const LIMIT: Duration = Duration::from_secs(25 * 60);
/// The same for a computation, which may get little processor time before the last service has ended.
const LIMIT_BESIDE: Duration = LIMIT.saturating_mul(2);

/// Commands of cargo, and the components that have them.
const COMPONENTS: [[&str; 2]; 2] = [["fmt", "rustfmt"], ["clippy", "clippy"]];

/// Tells tests that all programs and libraries are built.
const BUILT: &str = "SIDECORE_TESTS_BUILT";

/// File for tests' reports of skips, and directory for output of running programs, below the workspace.
const SKIPPED: &str = "target/skipped";
const OUTPUT: &str = "target/output";

/// Runs the steps up to the first failure, then all programs. Ends with the skips of tests, one line of totals and one
/// for each program that failed. A failure without a failed test, of the format or the build, counts as one failure. In CI, so does each skip that is
/// not accepted there.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let machine = Machine::prepare(root)?;
    COMPONENTS.iter().try_for_each(ensure_component)?;
    let mut counts = Counts::default();
    let (skipped, output) = (root.join(SKIPPED), root.join(OUTPUT));
    // From an earlier run; they may not exist.
    let _ = (fs::remove_file(&skipped), fs::remove_dir_all(&output));
    fs::create_dir_all(&output)?;
    match prepared(root) {
        Some(built) => {
            if !count::IS_LIMITED {
                fs::write(&skipped, format!("cargo xtask count: {}\n", count::NOT_LIMITED))?;
            }
            let (services, beside) = tests(root, &built, &machine.path);
            let mut computing = computations(root)?;
            // Documentation is tested last: it would wait for the lints, which have the directory of builds.
            let last = computing.pop();
            let beside = computing.into_iter().chain(beside).chain(last).map(Program::at_rest).collect();
            let at_a_time = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
            let (services, beside) = (Queue::new(services, LIMIT), Queue::new(beside, LIMIT_BESIDE));
            let (computes, serves) = ([&beside, &services], [&services]);
            let mut workers = vec![&computes[..1], &computes];
            workers.extend(iter::repeat_n(&serves[..], at_a_time));
            pool::run(&workers, &output, |ended| tell(&ended, &mut counts));
        }
        None => counts.failed = 1,
    }
    let skips = Skips::read(&skipped)?;
    let refused = if std::env::var("CI").is_ok_and(|ci| ci == "true") { skips.refused() } else { 0 };
    println!("\n{skips}{counts}, {} skipped", skips.count());
    counts.programs.iter().for_each(|failed| println!("{failed}"));
    if refused > 0 {
        println!("{refused} of the skips are not accepted in CI: see tools/xtask/src/steps/skips.rs");
    }
    Ok(counts.failed + refused == 0)
}

type Step = (&'static str, fn(&Path) -> Result<bool>);

const STEPS: [Step; 2] = [("cargo fmt", format), ("cargo xtask tidy", tidy::run)];

fn prepared(root: &Path) -> Option<Vec<Artifact>> {
    for (title, step) in STEPS {
        timed(title, || Ok(step(root)?.then_some(())))?;
    }
    // First, since it leaves programs of the tests' names, and the tests need theirs.
    if count::IS_LIMITED {
        timed("cargo xtask count", || Ok(count::run(root)?.then_some(())))?;
    }
    timed("cargo test --no-run", || built::everything(root).map(Some))
}

/// Runs a step. `None`: it failed.
fn timed<T>(title: &str, step: impl FnOnce() -> Result<Option<T>>) -> Option<T> {
    println!("\n==> {title}");
    let start = Instant::now();
    let done = step().unwrap_or_else(|error| {
        println!("{error}");
        None
    });
    println!("{}", verdict(title, done.is_some(), start.elapsed()));
    if done.is_none() {
        println!("stopped at {title}: later steps were not run");
    }
    done
}

fn verdict(title: &str, passed: bool, took: Duration) -> String {
    format!("<== {title}: {} after {:.1} s", if passed { "passed" } else { "FAILED" }, took.as_secs_f64())
}

fn format(root: &Path) -> Result<bool> {
    succeeds(cargo(root).args(["fmt", "--all", "--check"]))
}

fn ensure_component([command, component]: &[&str; 2]) -> Result<()> {
    let is_there =
        || cargo(Path::new(".")).args([command, "--version"]).output().is_ok_and(|done| done.status.success());
    if is_there() {
        return Ok(());
    }
    let line = format!("rustup component add {component}");
    println!("cargo {command} is missing; trying: {line}");
    // The check below shows the result.
    let _ = Command::new("rustup").args(["component", "add", component]).status();
    if is_there() { Ok(()) } else { Err(format!("cargo {command} is missing; run: {line}").into()) }
}

fn computations(root: &Path) -> Result<Vec<Program>> {
    let mut golden = Command::new(std::env::current_exe()?);
    golden.arg("golden").current_dir(root);
    let mut lints = cargo(root);
    lints.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    let mut doc = cargo(root);
    doc.args(["test", "--workspace", "--doc"]);
    let all =
        [("loom", models(root)), ("cargo xtask golden", golden), ("cargo clippy", lints), ("cargo test --doc", doc)];
    Ok(all.map(|(title, command)| Program { title: title.to_owned(), command }).into())
}

fn tests(root: &Path, built: &[Artifact], path: &OsStr) -> (Vec<Program>, Vec<Program>) {
    let mut tests: Vec<(bool, Program)> = built.iter().filter_map(|artifact| test(root, artifact, path)).collect();
    tests.sort_by(|(_, one), (_, other)| one.title.cmp(&other.title));
    let (services, beside): (Vec<_>, Vec<_>) = tests.into_iter().partition(|(has_services, _)| *has_services);
    let programs = |tests: Vec<(bool, Program)>| tests.into_iter().map(|(_, program)| program).collect();
    (programs(services), programs(beside))
}

/// The model checks: `tests/loom.rs` of these crates, compiled with loom's atomics, hence into a directory of their own.
fn models(root: &Path) -> Command {
    let mut command = cargo(root);
    command.args(["test", "-p", "sidecore-core", "-p", "sidecore-streams", "--profile", "models"]);
    command.args(["--no-fail-fast", "--test", "loom"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", root.join("target/loom"));
    command.env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS);
    command
}

fn test(root: &Path, artifact: &Artifact, path: &OsStr) -> Option<(bool, Program)> {
    let program = artifact.executable.as_ref().filter(|_| artifact.profile.test)?;
    let directory = artifact.manifest_path.parent()?;
    let mut command = Command::new(program);
    command.current_dir(directory).env("PATH", path).env(skips::VARIABLE, root.join(SKIPPED)).env(BUILT, "1");
    command.env(faults::VARIABLE, FAULT_SEEDS);
    let source = artifact.target.src_path.as_std_path();
    let title = source.strip_prefix(root).unwrap_or(source).display().to_string();
    let has_services = !directory.strip_prefix(root).is_ok_and(|folder| BESIDE.contains(&folder.as_str()));
    Some((has_services, Program { title, command }))
}

fn tell(ended: &Ended, counts: &mut Counts) {
    let Ended { title, passed, output, took } = ended;
    println!("\n==> {title}\n{output}{}", verdict(title, *passed, *took));
    let before = counts.failed;
    output.lines().for_each(|line| counts.add(line));
    if !passed {
        counts.failed = counts.failed.max(before + 1);
        counts.programs.push(counts::failure(title, output));
    }
}

fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.status()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_without_a_failed_test_counts_as_one() {
        let mut counts = Counts::default();
        let mut end = |passed, output: &str| {
            let (title, output) = (String::new(), output.to_owned());
            tell(&Ended { title, passed, output, took: Duration::ZERO }, &mut counts);
            (counts.passed, counts.failed)
        };
        assert_eq!(end(true, "test result: ok. 2 passed; 0 failed; 0 ignored\n"), (2, 0));
        assert_eq!(end(false, "running 3 tests\n"), (2, 1));
        assert_eq!(end(false, "test result: FAILED. 1 passed; 2 failed; 0 ignored\n"), (3, 3));
    }

    #[test]
    fn each_crate_whose_tests_only_compute_is_there() -> Result<()> {
        let root = crate::root()?;
        let missing: Vec<_> = BESIDE.iter().filter(|folder| !root.join(folder).join("Cargo.toml").is_file()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        Ok(())
    }

    #[test]
    fn a_step_that_fails_or_cannot_be_made_is_none() {
        assert_eq!(timed("step", || Ok(Some(7))), Some(7));
        assert_eq!(timed("step", || Ok(None::<u8>)), None);
        assert_eq!(timed("step", || Err::<Option<u8>, _>("cannot".into())), None);
    }
}
