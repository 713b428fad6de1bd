//! `cargo xtask test`: all that a change must pass, in order, each step with its time.

mod counts;
mod skips;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::{Result, golden, tidy};
use counts::Counts;
use skips::Skips;

/// How many times loom may take the processor from a thread: its manual finds 2 or 3 enough for most bugs.
const LOOM_PREEMPTIONS: &str = "3";
/// Runs of simulated faults.
const FAULT_SEEDS: &str = "10000";
const LOOM_TESTS: &str = "crates/sidecore-core/tests";

/// Where tests say what they left out, below the workspace.
const SKIPPED: &str = "target/skipped";

/// Runs the steps up to the first that fails, and ends with what tests skipped and one line that sums them up. A step that
/// fails without a failed test, by its format or in the build, counts as one failure; so does, in CI, each skip that is not
/// accepted there.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let mut counts = Counts::default();
    // Of a run before; there may be none.
    let _ = std::fs::remove_file(root.join(SKIPPED));
    for step in STEPS {
        println!("\n==> {}", step.title);
        let start = Instant::now();
        let passed = (step.run)(root, &mut counts)?;
        println!("<== {}: {} after {:.1} s", step.title, verdict(passed), start.elapsed().as_secs_f64());
        if !passed {
            println!("stopped at {}: later steps were not run", step.title);
            counts.failed = counts.failed.max(1);
            break;
        }
    }
    let skips = Skips::read(&root.join(SKIPPED))?;
    let refused = if std::env::var("CI").is_ok_and(|ci| ci == "true") { skips.refused() } else { 0 };
    println!("\n{skips}{counts}, {} skipped", skips.count());
    if refused > 0 {
        println!("{refused} of the skips are not accepted in CI: see xtask/src/steps/skips.rs");
    }
    Ok(counts.failed + refused == 0)
}

struct Step {
    title: &'static str,
    run: fn(&Path, &mut Counts) -> Result<bool>,
}

const STEPS: [Step; 8] = [
    Step { title: "cargo fmt", run: format },
    Step { title: "cargo clippy", run: lint },
    Step { title: "cargo xtask tidy", run: |root, _| tidy::run(root) },
    Step { title: "cargo test", run: test },
    Step { title: "cargo xtask golden", run: |root, _| golden::run(root, false) },
    Step { title: "sidecore sim faults", run: faults },
    Step { title: "cargo xtask count", run: |root, _| crate::count::run(root) },
    Step { title: "loom", run: model_check },
];

fn format(root: &Path, _: &mut Counts) -> Result<bool> {
    ensure_component("fmt", "rustfmt")?;
    succeeds(cargo(root).args(["fmt", "--all", "--check"]))
}

fn lint(root: &Path, _: &mut Counts) -> Result<bool> {
    ensure_component("clippy", "clippy")?;
    succeeds(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn test(root: &Path, counts: &mut Counts) -> Result<bool> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--no-fail-fast"]).env(skips::VARIABLE, root.join(SKIPPED));
    count(&mut command, counts)
}

/// Random schedules with faults: many more than the tests have time for.
fn faults(root: &Path, _: &mut Counts) -> Result<bool> {
    let seeds = ["sim", "faults", "--seeds", FAULT_SEEDS];
    succeeds(cargo(root).args(["run", "-q", "-p", "sidecore-lab", "--"]).args(seeds))
}

/// The model checks: files `tests/loom*.rs` of core, compiled with loom's atomics, hence into a directory of their own.
fn model_check(root: &Path, counts: &mut Counts) -> Result<bool> {
    if !has_models(&root.join(LOOM_TESTS)) {
        println!("none: there is no {LOOM_TESTS}/loom*.rs");
        return Ok(true);
    }
    let mut command = cargo(root);
    command.args(["test", "-p", "sidecore-core", "--release", "--no-fail-fast", "--test", "loom*"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", root.join("target/loom"));
    count(command.env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS), counts)
}

fn has_models(tests: &Path) -> bool {
    let is_model = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("loom");
    std::fs::read_dir(tests).is_ok_and(|entries| entries.flatten().any(is_model))
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Installs a component of the toolchain where it is missing.
fn ensure_component(command: &str, component: &str) -> Result<()> {
    let is_there =
        || cargo(Path::new(".")).args([command, "--version"]).output().is_ok_and(|done| done.status.success());
    if is_there() {
        return Ok(());
    }
    let line = format!("rustup component add {component}");
    println!("cargo {command} is missing; trying: {line}");
    // Whether it worked is seen below.
    let _ = Command::new("rustup").args(["component", "add", component]).status();
    if is_there() { Ok(()) } else { Err(format!("cargo {command} is missing; run: {line}").into()) }
}

fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.status()?.success())
}

/// Runs tests, passing their output on while it is read for its counts.
fn count(command: &mut Command, counts: &mut Counts) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    if let Some(output) = child.stdout.take() {
        pass_on(BufReader::new(output), &mut std::io::stdout().lock(), counts)?;
    }
    Ok(child.wait()?.success())
}

fn pass_on(mut from: impl BufRead, to: &mut impl Write, counts: &mut Counts) -> Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        counts.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(to.flush()?)
}

fn verdict(passed: bool) -> &'static str {
    if passed { "passed" } else { "FAILED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_passes_unchanged_and_is_counted() -> Result<()> {
        let output = b"running 2 tests\n\xff\ntest result: ok. 2 passed; 0 failed; 0 ignored\nno newline";
        let (mut copy, mut counts) = (Vec::new(), Counts::default());
        pass_on(&output[..], &mut copy, &mut counts)?;
        assert_eq!(copy, output);
        assert_eq!(counts, Counts { passed: 2, failed: 0 });
        Ok(())
    }

    #[test]
    fn a_run_passes_if_its_command_does() -> Result<()> {
        let mut counts = Counts::default();
        assert!(!count(&mut Command::new("false"), &mut counts)?);
        assert!(count(&mut Command::new("true"), &mut counts)?);
        assert_eq!(counts, Counts::default());
        Ok(())
    }

    #[test]
    fn models_are_files_named_after_loom() -> Result<()> {
        let root = crate::root()?;
        assert!(!has_models(&root.join("xtask/src")));
        assert!(!has_models(&root.join("no such directory")));
        Ok(())
    }
}
