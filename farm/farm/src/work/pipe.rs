//! Long-lived programs: events on standard input, results on standard output, each behind its length as four big-endian
//! bytes.

use super::line::Line;
use super::program::Program;
use super::starter::Starter;
use super::stderr::StderrPump;
use super::{refuse, too_long};
use crate::error::FarmError;
use crate::node::task::{Outcome, Task, Work};
use bytes::Bytes;
use sidecore_terminal::output;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

const HEAD: usize = 4;

/// A program that failed an event is ended; another replaces it with the next event.
pub(super) struct Pipes {
    line: Line,
    limit: Duration,
    max_result: usize,
    starter: Starter,
    pump: StderrPump,
    idle: Mutex<Vec<Program>>,
}

impl Pipes {
    pub(super) async fn start(line: Line, jobs: u16, limit: Duration, max_result: usize) -> Result<Self, FarmError> {
        let (starter, pump) = (Starter::new()?, StderrPump::new());
        let pipes = Self { line, limit, max_result, starter, pump, idle: Mutex::default() };
        for _ in 0..jobs {
            let what = || format!("cannot start {}", pipes.line.name());
            pipes.put(pipes.another().await.map_err(|error| FarmError::system(what())(error))?);
        }
        Ok(pipes)
    }

    pub(super) async fn finish(&self) {
        let programs = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async {
            for mut program in programs {
                program.finish().await;
            }
        };
        // Programs that still run after the limit are killed when dropped.
        let _ = timeout(self.limit, all).await;
    }

    async fn another(&self) -> io::Result<Program> {
        Program::new(self.starter.start(self.line.command(&[])).await?, self.pump.of(&self.line.name()))
    }

    fn put(&self, program: Program) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(program);
    }

    async fn take(&self) -> io::Result<Program> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut program) = idle else { return self.another().await };
        if program.is_quiet() {
            return Ok(program);
        }
        let what = if program.take_output().is_empty() { "ended" } else { "wrote something" };
        let why = program.complaint(&format!("it {what} while it waited for an event"));
        output::tell(format_args!("{}: {why}; started anew", self.line.name()));
        self.another().await
    }

    async fn ask(&self, program: &mut Program, body: &[u8]) -> Outcome {
        let Ok(len) = u32::try_from(body.len()) else {
            return Outcome::Failed("an event has less than 4 GiB".to_owned());
        };
        let enough = |output: &[u8]| answer(output, self.max_result);
        Outcome::Failed(match program.exchange([&len.to_be_bytes(), body], false, enough).await {
            Ok(Some(Ok(()))) if program.is_handed() => {
                return Outcome::Done(Bytes::from(program.take_output()).slice(HEAD..).into());
            }
            Ok(Some(Ok(()))) => program.complaint("it answered before it had read the event"),
            Ok(Some(Err(wrong))) => program.complaint(&wrong.to_string()),
            Ok(None) => program.failure().unwrap_or_else(|| program.complaint("it ended without a result")),
            Err(error) => format!("cannot talk to the program: {error}"),
        })
    }
}

impl Work for Pipes {
    async fn run(&self, task: &Task) -> Outcome {
        let limit = self.limit.min(task.limit);
        let mut program = match timeout(limit, self.take()).await {
            Ok(Ok(program)) => program,
            Ok(Err(error)) => return refuse(&self.line, &error).await,
            Err(_) => return Outcome::Failed(too_long(limit)),
        };
        match timeout(limit, self.ask(&mut program, &task.body)).await {
            Ok(outcome) => {
                if matches!(outcome, Outcome::Done(_)) {
                    self.put(program);
                }
                outcome
            }
            Err(_) => Outcome::Failed(program.complaint(&too_long(limit))),
        }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum WrongResult {
    #[error("it says that its result has {len} bytes, more than {most}, or it writes no length before it")]
    TooLong { len: usize, most: usize },
    #[error("it wrote more than its result")]
    More,
}

/// Whether the result is complete, or its fault. `None`: more bytes must come.
fn answer(output: &[u8], max_result: usize) -> Option<Result<(), WrongResult>> {
    let (head, body) = output.split_first_chunk::<HEAD>()?;
    let len = u32::from_be_bytes(*head) as usize;
    if len > max_result {
        return Some(Err(WrongResult::TooLong { len, most: max_result }));
    }
    match body.len() {
        less if less < len => None,
        same if same == len => Some(Ok(())),
        _ => Some(Err(WrongResult::More)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_whole_or_wrong() {
        assert_eq!(answer(&[], 9), None);
        assert_eq!(answer(&[0, 0, 0], 9), None);
        assert_eq!(answer(&[0, 0, 0, 0], 9), Some(Ok(())));
        assert_eq!(answer(&[0, 0, 0, 2, 7], 9), None);
        assert_eq!(answer(&[0, 0, 0, 2, 7, 7], 9), Some(Ok(())));
        assert!(matches!(answer(&[0, 0, 0, 2, 7, 7, 7], 9), Some(Err(_))));
        assert!(matches!(answer(b"hello", 1_000_000), Some(Err(_))));
    }
}
