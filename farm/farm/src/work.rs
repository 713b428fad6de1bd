//! The node's work on events.

mod each;
mod leave;
pub(crate) mod line;
mod pipe;
mod program;
pub(crate) mod sleep;
mod starter;
mod stderr;
#[cfg(test)]
mod tests;

use crate::args::work::Work as Arguments;
use crate::connect::{Role, connect};
use crate::error::FarmError;
use crate::node;
use crate::node::task::{Outcome, Work};
use crate::sys;
use crate::wire::MAX_NODE_BYTES;
use each::Each;
use line::Line;
use pipe::Pipes;
use sidecore_core::time::Pretty;
use sidecore_terminal::output;
use sleep::Sleep;
use std::io;
use std::rc::Rc;
use std::thread::available_parallelism;
use std::time::Duration;

/// Runs a node until it has to leave. The exit code shows whether it completed its events.
pub(crate) async fn run(args: Arguments) -> Result<u8, FarmError> {
    sys::keep_descriptors().map_err(FarmError::system("cannot look at the descriptors of this process"))?;
    let (limit, most) = (args.time_limit, usize::try_from(args.max_result).unwrap_or(usize::MAX));
    if let Some(unit) = args.sleep {
        return serve(&args, Sleep::new(unit, limit)).await;
    }
    sys::keep_memory().map_err(FarmError::system("cannot keep this process's memory to itself"))?;
    let line = Line::find(&args.command)?.with_environment(std::env::vars_os(), &args.env);
    if !args.pipe {
        return serve(&args, Each::new(line, args.arguments, limit, most)?).await;
    }
    let pipes = Rc::new(Pipes::start(line, jobs(&args), limit, most).await?);
    let code = serve(&args, Rc::clone(&pipes)).await?;
    pipes.finish().await;
    Ok(code)
}

async fn serve(args: &Arguments, work: impl Work) -> Result<u8, FarmError> {
    let client = connect(&args.farm, Role::Node).await?;
    let settings = node::Settings {
        farm: args.farm.farm.clone(),
        name: args.name.clone().unwrap_or_else(own_name),
        slots: jobs(args),
        offers: args.kind.clone(),
        beat: args.beat,
    };
    let (wish, order) = leave::at_signals(args.time_limit)?;
    let all = async {
        node::run(client.clone(), settings, work, wish).await?;
        // The flush ensures that the server has the last answers.
        client.flush().await.map_err(FarmError::nats("cannot send the last answers"))
    };
    tokio::select! {
        done = all => done.map(|()| 0),
        why = order => {
            output::tell(why);
            Ok(UNFINISHED)
        }
    }
}

fn jobs(args: &Arguments) -> u16 {
    let cores = || available_parallelism().ok().and_then(|cores| u16::try_from(cores.get()).ok());
    args.jobs.or_else(cores).unwrap_or(1)
}

fn own_name() -> String {
    let process = std::process::id().to_string();
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    let machine: String = machine.chars().map(plain).take(MAX_NODE_BYTES - process.len() - 1).collect();
    format!("{machine}-{process}")
}

/// Exit code of a node that abandoned events when it ended.
const UNFINISHED: u8 = 1;

/// Pause after a failed start: a machine without room for a process needs time.
const PAUSE: Duration = Duration::from_millis(100);

/// The program could not be started. That is no fault of the event, unless its names cannot be passed on.
async fn refuse(line: &Line, error: &io::Error) -> Outcome {
    let reason = format!("cannot start {}: {error}", line.name());
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong => Outcome::Failed(reason),
        _ => {
            output::tell(&reason);
            tokio::time::sleep(PAUSE).await;
            Outcome::Refused(reason)
        }
    }
}

fn too_long(limit: Duration) -> String {
    format!("took longer than {}", Pretty(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
}
