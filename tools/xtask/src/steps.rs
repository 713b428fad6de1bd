//! `cargo xtask test`: every check of a change, each with its time. The machine is prepared first. Checks without a
//! build come next, then the count of instructions, which other programs would disturb; then all tests are built, once.
//! Programs that start services wait for them, so one runs for each two cores, and one more after all computations.
//! These, as lints, have most of the processor time that services leave.
//!
//! `cargo xtask test PART` does the same for the crates of one part, and leaves out what looks at the whole tree. In a
//! copy of the tree, `cargo xtask alone PART` runs the tests.

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
use crate::{Result, count, faults, parts, tidy};
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

/// Tests that need programs of several parts, though they stand in one: they are left out where only one is built, as whole
/// programs of tests or as modules of one. `cargo xtask test` runs all.
const OF_ALL_PARTS: [(&str, &[&str]); 3] = [
    // Wrong command lines of all programs.
    ("keys/cli/tests/wrong_inputs.rs", &[]),
    // The package for Debian, and guides: they have all programs. README's commands begin with the laboratory's.
    ("keys/cli/tests/servers/main.rs", &["debian::", "debian13::", "guides::", "readme::"]),
    // The laboratory's link stands between the machines.
    ("keys/remote/tests/remote/main.rs", &["distant::"]),
];

/// Crates with models for loom.
const MODELLED: [&str; 2] = ["sidecore-core", "sidecore-streams"];

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
pub(crate) fn run(root: &Path, part: Option<&str>) -> Result<bool> {
    let chosen = part.map(|part| Chosen::of(root, part)).transpose()?.unwrap_or_else(Chosen::all);
    let machine = Machine::prepare(root)?;
    COMPONENTS.iter().try_for_each(ensure_component)?;
    told(root, || {
        let Some(built) = prepared(root, &chosen) else { return Ok(None) };
        if !count::IS_LIMITED && part.is_none() {
            fs::write(root.join(SKIPPED), format!("cargo xtask count: {}\n", count::NOT_LIMITED))?;
        }
        let [services, beside] = tests(root, &built, &machine.path, &chosen);
        let mut computing = computations(root, &chosen)?;
        // Documentation is tested last: it would wait for the lints, which have the directory of builds.
        let last = computing.pop();
        Ok(Some([services, computing.into_iter().chain(beside).chain(last).collect()]))
    })
}

/// What is built in a copy: the tree itself has built this program.
const COPIED: [&str; 3] = [WORKSPACE, "--exclude", "xtask"];

/// Builds all that is in a copy of the tree, and runs the tests of these parts. The machine gets no packages for it: most
/// are for tests of other parts.
///
/// Without parts it only builds.
pub(crate) fn run_copy(root: &Path, copy: &Path, parts: &[&'static str]) -> Result<bool> {
    let machine = Machine::as_it_is(root)?;
    let chosen = Chosen { parts: parts.to_vec(), packages: vec![WORKSPACE.to_owned()] };
    told(copy, || {
        let built = timed("cargo test --no-run", || built::all_of(copy, &COPIED).map(Some));
        let tests = |built: Vec<_>| {
            if parts.is_empty() { [vec![], vec![]] } else { tests(copy, &built, &machine.path, &chosen) }
        };
        Ok(built.map(tests))
    })
}

/// What is tested.
struct Chosen {
    /// Empty: all, also what needs several parts.
    parts: Vec<&'static str>,
    /// As cargo takes them.
    packages: Vec<String>,
}

const WORKSPACE: &str = "--workspace";

impl Chosen {
    fn all() -> Self {
        Self { parts: Vec::new(), packages: vec![WORKSPACE.to_owned()] }
    }

    fn of(root: &Path, part: &str) -> Result<Self> {
        let names = parts::packages(root, part)?;
        let parts = parts::names().filter(|name| *name == part).collect();
        Ok(Self { parts, packages: names.into_iter().flat_map(|name| ["-p".to_owned(), name]).collect() })
    }

    fn packages(&self) -> Vec<&str> {
        self.packages.iter().map(String::as_str).collect()
    }

    /// Whether all is tested, or this part among others.
    fn has(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// What has to be built: tests of the laboratory start programs of all parts.
    fn needed(&self) -> Vec<&str> {
        if self.parts.contains(&parts::LABORATORY) { vec![WORKSPACE] } else { self.packages() }
    }
}

/// Runs what is prepared: programs that start services, and computations. `None`: the preparation failed, and said so.
fn told(root: &Path, prepare: impl FnOnce() -> Result<Option<[Vec<Program>; 2]>>) -> Result<bool> {
    let mut counts = Counts::default();
    let (skipped, output) = (root.join(SKIPPED), root.join(OUTPUT));
    // From an earlier run; they may not exist.
    let _ = (fs::remove_file(&skipped), fs::remove_dir_all(&output));
    fs::create_dir_all(&output)?;
    match prepare()? {
        Some([services, beside]) => {
            let beside = beside.into_iter().map(Program::at_rest).collect();
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

fn prepared(root: &Path, chosen: &Chosen) -> Option<Vec<Artifact>> {
    for (title, step) in STEPS {
        timed(title, || Ok(step(root)?.then_some(())))?;
    }
    // First, since it leaves programs of the tests' names, and the tests need theirs.
    if count::IS_LIMITED && chosen.parts.is_empty() {
        timed("cargo xtask count", || Ok(count::run(root)?.then_some(())))?;
    }
    timed("cargo test --no-run", || built::all_of(root, &chosen.needed()).map(Some))
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

/// The last is that of documentation.
fn computations(root: &Path, chosen: &Chosen) -> Result<Vec<Program>> {
    let mut golden = Command::new(std::env::current_exe()?);
    golden.arg("golden").current_dir(root);
    let mut lints = cargo(root);
    lints.arg("clippy").args(chosen.packages()).args(["--all-targets", "--", "-D", "warnings"]);
    let mut doc = cargo(root);
    doc.args(["test", "--doc"]).args(chosen.packages());
    let golden = chosen.has(parts::LABORATORY).then_some(("cargo xtask golden", golden));
    let loom = models(root, chosen).map(|models| ("loom", models));
    let all = [loom, golden, Some(("cargo clippy", lints)), Some(("cargo test --doc", doc))];
    Ok(all.into_iter().flatten().map(|(title, command)| Program { title: title.to_owned(), command }).collect())
}

fn tests(root: &Path, built: &[Artifact], path: &OsStr, chosen: &Chosen) -> [Vec<Program>; 2] {
    let own = built.iter().filter(|artifact| {
        let folder = artifact.manifest_path.strip_prefix(root).map_or("", |path| path.as_str());
        chosen.has(parts::of(folder))
    });
    let tests = own.filter_map(|artifact| test(root, artifact, path));
    let mut tests: Vec<(bool, Program)> = if chosen.parts.is_empty() {
        tests.collect()
    } else {
        tests.filter_map(|(has_services, test)| Some((has_services, of_one_part(test)?))).collect()
    };
    tests.sort_by(|(_, one), (_, other)| one.title.cmp(&other.title));
    let (services, beside): (Vec<_>, Vec<_>) = tests.into_iter().partition(|(has_services, _)| *has_services);
    [services, beside].map(|tests| tests.into_iter().map(|(_, program)| program).collect())
}

/// The program without what needs several parts, if anything is left of it.
fn of_one_part(mut test: Program) -> Option<Program> {
    let Some((source, modules)) = OF_ALL_PARTS.iter().find(|(source, _)| *source == test.title) else {
        return Some(test);
    };
    if modules.is_empty() {
        println!("left out: {source}, which needs several parts");
        return None;
    }
    println!("left out: {} in {source}, which need several parts", modules.join(", "));
    test.command.args(modules.iter().flat_map(|module| ["--skip", module]));
    Some(test)
}

/// The model checks: `tests/loom.rs` of these crates, compiled with loom's atomics, hence into a directory of their own.
fn models(root: &Path, chosen: &Chosen) -> Option<Command> {
    let is_chosen = |name: &str| chosen.parts.is_empty() || chosen.packages.iter().any(|chosen| chosen == name);
    let packages: Vec<_> = MODELLED.iter().filter(|name| is_chosen(name)).flat_map(|name| ["-p", name]).collect();
    let mut command = cargo(root);
    command.arg("test").args(&packages).args(["--profile", "models"]);
    command.args(["--no-fail-fast", "--test", "loom"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", root.join("target/loom"));
    command.env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS);
    (!packages.is_empty()).then_some(command)
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
    fn a_part_has_the_computations_of_its_crates() -> Result<()> {
        let root = crate::root()?;
        let (lints, doc) = ("cargo clippy", "cargo test --doc");
        for (part, titles) in [
            ("base", &["loom", lints, doc][..]),
            ("sockets", &["loom", lints, doc]),
            ("farm", &[lints, doc]),
            ("lab", &["cargo xtask golden", lints, doc]),
        ] {
            let computations = computations(&root, &Chosen::of(&root, part)?)?;
            assert_eq!(computations.iter().map(|program| &*program.title).collect::<Vec<_>>(), titles, "{part}");
            let models = computations.iter().find(|program| program.title == "loom");
            let names = |name: &str| models.is_some_and(|models| models.command.get_args().any(|word| word == name));
            assert_eq!([names("sidecore-core"), names("sidecore-streams")], [part == "base", part == "sockets"]);
        }
        let all = computations(&root, &Chosen::all())?;
        let words: Vec<_> = all.iter().flat_map(|program| program.command.get_args()).collect();
        assert!(all.len() == 4 && MODELLED.iter().all(|name| words.contains(&OsStr::new(name))));
        assert_eq!(Chosen::of(&root, "lab")?.needed(), [WORKSPACE]);
        assert!(!Chosen::of(&root, "sockets")?.needed().contains(&"sidecore"));
        Ok(())
    }

    #[test]
    fn what_needs_several_parts_is_there_and_left_out_of_one() -> Result<()> {
        let root = crate::root()?;
        let program = |title: &str| Program { title: title.to_owned(), command: Command::new("true") };
        for (source, modules) in OF_ALL_PARTS {
            assert!(root.join(source).is_file(), "{source}");
            let missing = |module: &&&str| {
                let file = root.join(source).with_file_name(module.trim_end_matches("::")).with_extension("rs");
                !file.is_file()
            };
            assert_eq!(modules.iter().find(missing), None);
            let left: Option<Vec<_>> = of_one_part(program(source))
                .map(|test| test.command.get_args().filter(|word| *word != "--skip").map(OsStr::to_owned).collect());
            assert_eq!(left.unwrap_or_default(), modules);
        }
        assert!(of_one_part(program("keys/cli/tests/keys.rs")).is_some());
        Ok(())
    }

    #[test]
    fn a_step_that_fails_or_cannot_be_made_is_none() {
        assert_eq!(timed("step", || Ok(Some(7))), Some(7));
        assert_eq!(timed("step", || Ok(None::<u8>)), None);
        assert_eq!(timed("step", || Err::<Option<u8>, _>("cannot".into())), None);
    }
}
