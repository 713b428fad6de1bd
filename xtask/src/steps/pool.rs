//! Programs that are run, some of them beside each other. Of each only its output and its verdict count, never how long it
//! took.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A program to run.
pub(super) struct Program {
    pub(super) title: String,
    pub(super) command: Command,
}

/// What became of it.
pub(super) struct Ended {
    pub(super) title: String,
    pub(super) passed: bool,
    /// What it wrote, on both of its outputs.
    pub(super) output: String,
    pub(super) took: Duration,
}

/// Runs all, so many at a time. Each that has ended is told. Output goes to files of this directory meanwhile, each named as
/// its program, so that nobody waits for a program that was left running.
pub(super) fn run(programs: Vec<Program>, at_a_time: usize, directory: &Path, tell: impl FnMut(Ended) + Send) {
    let (programs, tell) = (Mutex::new(programs.into_iter()), Mutex::new(tell));
    let work = || {
        loop {
            let next = programs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(program) = next else { return };
            let file = directory.join(program.title.replace('/', "-"));
            let ended = program.run(&file);
            tell.lock().unwrap_or_else(PoisonError::into_inner)(ended);
        }
    };
    thread::scope(|scope| (0..at_a_time).for_each(|_| drop(scope.spawn(work))));
}

impl Program {
    fn run(mut self, file: &Path) -> Ended {
        let start = Instant::now();
        let ran = File::create(file).and_then(|output| {
            let errors = output.try_clone()?;
            self.command.stdin(Stdio::null()).stdout(output).stderr(errors).status()
        });
        let (passed, wrong) = match ran {
            Ok(status) if status.success() => (true, String::new()),
            Ok(status) => (false, format!("{status}\n")),
            Err(error) => (false, format!("{error}\n")),
        };
        let output = String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned() + &wrong;
        Ended { title: self.title, passed, output, took: start.elapsed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;

    #[test]
    fn each_is_run_once_and_told_with_both_outputs() -> Result<()> {
        let directory = std::env::temp_dir().join(format!("sidecore-pool-{}", std::process::id()));
        let program = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Program { title: script.to_owned(), command }
        };
        let none = Program { title: "none".to_owned(), command: Command::new("/no such program") };
        fs::create_dir_all(&directory)?;
        let mut told = Vec::new();
        run(
            vec![program("echo a; echo b >&2"), program("exit 3"), program("/bin/true"), none],
            2,
            &directory,
            |ended| {
                told.push((ended.title, ended.passed, ended.output));
            },
        );
        told.sort();
        let told: Vec<_> = told.iter().map(|(title, passed, output)| (&**title, *passed, &**output)).collect();
        assert_eq!(told[0], ("/bin/true", true, ""));
        assert_eq!(told[1], ("echo a; echo b >&2", true, "a\nb\n"));
        assert_eq!(told[2], ("exit 3", false, "exit status: 3\n"));
        assert!(told[3].0 == "none" && !told[3].1 && told[3].2.contains("No such file"));
        assert_eq!(fs::read_to_string(directory.join("echo a; echo b >&2"))?, "a\nb\n");
        assert!(directory.join("-bin-true").exists());
        fs::remove_dir_all(&directory)?;
        Ok(())
    }
}
