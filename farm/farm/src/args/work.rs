//! Arguments of `farm work`.

use super::Farm;
use super::error::ArgumentError;
use crate::measures::{age, size};
use crate::wire::{MAX_BEAT, MAX_KIND_BYTES, MAX_NODE_BYTES, is_token};
use clap::{ArgGroup, Args};
use sidecore_nats::InvalidName;
use std::ffi::OsString;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["sleep", "command"])))]
pub(crate) struct Work {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// This node's name in the farm; without it, the machine's name and the number of this process
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub(crate) name: Option<String>,
    /// Events at a time; without it, one for each core that this process may use
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Take only events of these kinds
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    pub(crate) kind: Vec<String>,
    /// Start one program for each of --jobs, once, and give them events behind their lengths (four bytes, the highest first);
    /// they answer likewise
    #[arg(long, requires = "command")]
    pub(crate) pipe: bool,
    /// Give the program each line of the event as an argument, behind those of the command, and an empty standard input
    #[arg(long, requires = "command", conflicts_with = "pipe")]
    pub(crate) arguments: bool,
    /// Give programs this variable of the node's environment too; may be given again and again. They get PATH, HOME, USER,
    /// LOGNAME, SHELL, LANG, LANGUAGE, LC_*, TZ and TMPDIR anyway
    #[arg(long, value_name = "NAME", value_parser = variable, requires = "command")]
    pub(crate) env: Vec<OsString>,
    /// Longest time for an event, as 500ms or 60s; then its program is ended and the event counts as failed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = age)]
    pub(crate) time_limit: Duration,
    /// Largest result, as 500KiB; not more than the server takes in a message
    #[arg(long, value_name = "BYTES", default_value = "1000000", value_parser = size)]
    pub(crate) max_result: u64,
    /// Interval of its beats, 1ms to 10s; after four missing beats the node is lost
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = beat)]
    pub(crate) beat: Duration,
    /// No program: sleep this time, multiplied by the number at the beginning of the event
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "command")]
    pub(crate) sleep: Option<Duration>,
    /// The program and its arguments: the event on standard input, the result on standard output, exit code 0
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

fn beat(text: &str) -> Result<Duration, ArgumentError> {
    let longest = Duration::from_nanos(MAX_BEAT);
    let fits = |beat: &Duration| (Duration::from_millis(1)..=longest).contains(beat);
    age(text).ok().filter(fits).ok_or(ArgumentError::Beat(longest))
}

fn variable(text: &str) -> Result<OsString, ArgumentError> {
    let is_name = !text.is_empty() && !text.contains('=');
    is_name.then(|| text.into()).ok_or(ArgumentError::Variable)
}

fn node(text: &str) -> Result<String, ArgumentError> {
    token(text, MAX_NODE_BYTES)
}

fn kind(text: &str) -> Result<String, ArgumentError> {
    token(text, MAX_KIND_BYTES)
}

fn token(text: &str, longest: usize) -> Result<String, ArgumentError> {
    is_token(text, longest).then(|| text.to_owned()).ok_or(ArgumentError::Name(InvalidName(longest)))
}
