//! A program for each event: the event on its standard input or as its arguments, the result from its standard output.

use super::line::Line;
use super::program::Program;
use super::starter::Starter;
use super::stderr::{StderrPump, clean};
use super::{refuse, too_long};
use crate::error::FarmError;
use crate::node::task::{Outcome, Task, Work};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tokio::time::timeout;

const ID: &str = "FARM_ID";
const KIND: &str = "FARM_KIND";
const MAX_ID_BYTES: usize = 96;

pub(super) struct Each {
    line: Line,
    /// The event's lines are arguments, and the standard input is empty.
    arguments: bool,
    limit: Duration,
    max_result: usize,
    starter: Starter,
    pump: StderrPump,
}

impl Each {
    pub(super) fn new(line: Line, arguments: bool, limit: Duration, max_result: usize) -> Result<Self, FarmError> {
        Ok(Self { line, arguments, limit, max_result, starter: Starter::new()?, pump: StderrPump::new() })
    }

    async fn start(&self, task: &Task) -> io::Result<Program> {
        let mut command = self.line.command(&[(ID, &task.id), (KIND, &task.kind)]);
        if self.arguments {
            command.args(arguments(&task.body));
        }
        Program::new(self.starter.start(command).await?, self.pump.of(&clean(&task.id, MAX_ID_BYTES)))
    }

    async fn finish(&self, program: &mut Program, body: &[u8]) -> Outcome {
        let too_large = |output: &[u8]| (output.len() > self.max_result).then_some(());
        match program.exchange([body, &[]], true, too_large).await {
            Ok(None) => match program.failure() {
                None => Outcome::Done(program.take_output().into()),
                Some(why) => Outcome::Failed(why),
            },
            Ok(Some(())) => {
                Outcome::Failed(program.complaint(&format!("its result has more than {} bytes", self.max_result)))
            }
            Err(error) => Outcome::Failed(format!("cannot talk to the program: {error}")),
        }
    }
}

/// The lines, without their ends. An event without a line has no arguments.
fn arguments(body: &[u8]) -> impl Iterator<Item = &OsStr> {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let lines = (!body.is_empty()).then(|| body.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten().map(OsStr::from_bytes)
}

impl Work for Each {
    async fn run(&self, task: &Task) -> Outcome {
        let limit = self.limit.min(task.limit);
        if self.arguments && task.body.contains(&0) {
            return Outcome::Failed("an argument cannot have a zero byte".to_owned());
        }
        let mut program = match timeout(limit, self.start(task)).await {
            Ok(Ok(program)) => program,
            // The event is at fault, not this node.
            Ok(Err(error)) if self.arguments && error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) => {
                return Outcome::Failed("its arguments are longer than the kernel takes".to_owned());
            }
            Ok(Err(error)) => return refuse(&self.line, &error).await,
            Err(_) => return Outcome::Failed(too_long(limit)),
        };
        let body = if self.arguments { &[] } else { &task.body[..] };
        match timeout(limit, self.finish(&mut program, body)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Failed(program.complaint(&too_long(limit))),
        }
    }
}
