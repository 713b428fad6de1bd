//! A program for each event: the event on its standard input, the result from its standard output.

use super::line::Line;
use super::program::Program;
use super::starter::Starter;
use super::stderr::{StderrPump, clean};
use super::{refuse, too_long};
use crate::error::FarmError;
use crate::node::task::{Outcome, Task, Work};
use std::io;
use std::time::Duration;
use tokio::time::timeout;

const ID: &str = "FARM_ID";
const KIND: &str = "FARM_KIND";
const MAX_ID_BYTES: usize = 96;

pub(super) struct Each {
    line: Line,
    limit: Duration,
    max_result: usize,
    starter: Starter,
    pump: StderrPump,
}

impl Each {
    pub(super) fn new(line: Line, limit: Duration, max_result: usize) -> Result<Self, FarmError> {
        Ok(Self { line, limit, max_result, starter: Starter::new()?, pump: StderrPump::new() })
    }

    async fn start(&self, task: &Task) -> io::Result<Program> {
        let command = self.line.command(&[(ID, &task.id), (KIND, &task.kind)]);
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

impl Work for Each {
    async fn run(&self, task: &Task) -> Outcome {
        let limit = self.limit.min(task.limit);
        let mut program = match timeout(limit, self.start(task)).await {
            Ok(Ok(program)) => program,
            Ok(Err(error)) => return refuse(&self.line, &error).await,
            Err(_) => return Outcome::Failed(too_long(limit)),
        };
        match timeout(limit, self.finish(&mut program, &task.body)).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Failed(program.complaint(&too_long(limit))),
        }
    }
}
