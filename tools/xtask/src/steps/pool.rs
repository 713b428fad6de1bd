//! Runs programs, some of them in parallel. Output and verdict of each count. Its time does not, but a program that
//! hangs is ended.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

/// The value of `nice` with which a program gets a tenth of a core that others keep busy.
const LOW_PRIORITY: &str = "10";
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Program {
    pub(super) title: String,
    pub(super) command: Command,
}

pub(super) struct Ended {
    pub(super) title: String,
    pub(super) passed: bool,
    pub(super) output: String,
    pub(super) took: Duration,
}

/// Programs in their order, each with the same time limit.
pub(super) struct Queue {
    programs: Mutex<IntoIter<Program>>,
    limit: Duration,
}

impl Queue {
    pub(super) fn new(programs: Vec<Program>, limit: Duration) -> Self {
        Self { programs: Mutex::new(programs.into_iter()), limit }
    }

    fn next(&self) -> Option<Program> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// Runs all, and reports each end. Each worker runs one program at a time, of the first of its queues that has any.
/// Output goes to files of this directory, each named after its program, so that a process left behind does not block
/// the end.
pub(super) fn run(workers: &[&[&Queue]], directory: &Path, tell: impl FnMut(Ended) + Send) {
    let tell = Mutex::new(tell);
    let work = |queues: &[&Queue]| {
        while let Some((program, limit)) = queues.iter().find_map(|queue| Some((queue.next()?, queue.limit))) {
            let file = directory.join(program.title.replace('/', "-"));
            let ended = program.run(&file, limit);
            tell.lock().unwrap_or_else(PoisonError::into_inner)(ended);
        }
    };
    thread::scope(|scope| workers.iter().for_each(|queues| drop(scope.spawn(|| work(queues)))));
}

impl Program {
    /// The same at a low priority. At the lowest it would get nothing where others keep all cores busy.
    pub(super) fn at_rest(self) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", LOW_PRIORITY]).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = self.command.get_current_dir() {
            command.current_dir(directory);
        }
        Self { command, ..self }
    }

    fn run(mut self, file: &Path, limit: Duration) -> Ended {
        let start = Instant::now();
        let ran = File::create(file).and_then(|output| {
            let errors = output.try_clone()?;
            let child = self.command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()?;
            ended(child, start + limit)
        });
        let (passed, wrong) = match ran {
            Ok(Some(status)) if status.success() => (true, String::new()),
            Ok(Some(status)) => (false, format!("{status}\n")),
            Ok(None) => (false, format!("killed: it had not ended after {} s\n", limit.as_secs())),
            Err(error) => (false, format!("{error}\n")),
        };
        let output = String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned() + &wrong;
        Ended { title: self.title, passed, output, took: start.elapsed() }
    }
}

/// Its exit status, if it ended by itself until then. Otherwise it is killed.
fn ended(mut child: Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use std::path::PathBuf;

    fn directory(name: &str) -> Result<PathBuf> {
        let directory = std::env::temp_dir().join(format!("sidecore-pool-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    #[test]
    fn each_is_run_once_and_told_with_both_outputs() -> Result<()> {
        let directory = directory("each")?;
        let program = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Program { title: script.to_owned(), command }
        };
        let none = Program { title: "none".to_owned(), command: Command::new("/no such program") };
        let mut told = Vec::new();
        let queue = |programs| Queue::new(programs, Duration::from_secs(60));
        let (one, other) = (queue(vec![program("echo a; echo b >&2")]), queue(vec![program("exit 3"), none]));
        let (both, first) = ([&one, &other], queue(vec![program("/bin/true")]));
        run(&[&both, &[&first], &[]], &directory, |ended| told.push((ended.title, ended.passed, ended.output)));
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

    #[test]
    fn a_program_at_rest_is_the_same_with_a_low_priority() -> Result<()> {
        let directory = directory("rest")?;
        let mut command = Command::new("sh");
        command.args(["-c", "nice; echo $SET ${HOME-none}; pwd"]).env("SET", "a b").env_remove("HOME").current_dir("/");
        let program = Program { title: "rest".to_owned(), command };
        let mut told = Vec::new();
        let queue = Queue::new(vec![program.at_rest()], Duration::from_secs(60));
        run(&[&[&queue]], &directory, |ended| told.push(ended.output));
        // This test may have a low priority itself.
        let own: u32 = String::from_utf8(Command::new("nice").output()?.stdout)?.trim().parse()?;
        assert_eq!(told, [format!("{}\na b none\n/\n", (own + 10).min(19))]);
        fs::remove_dir_all(&directory)?;
        Ok(())
    }

    #[test]
    fn what_hangs_is_ended_and_what_it_wrote_is_told() -> Result<()> {
        let directory = directory("hangs")?;
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; exec sleep 1000"]);
        let mut told = Vec::new();
        let program = Program { title: "hangs".to_owned(), command };
        let queue = Queue::new(vec![program], Duration::from_millis(300));
        run(&[&[&queue]], &directory, |ended| told.push((ended.passed, ended.output)));
        assert_eq!(told, [(false, "begun\nkilled: it had not ended after 0 s\n".to_owned())]);
        fs::remove_dir_all(&directory)?;
        Ok(())
    }
}
