//! Why a feeder cannot go on with its source.

use crate::measures::shown;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("{0} has text where an event's length should be: give --lines if each line is an event")]
    Text(String),
    #[error("{name}: {source}")]
    Unfinished { name: String, source: CutShort },
    #[error(
        "{} has {} and its feeder was at byte {offset}: it is another file by now, so take another --name",
        path.display(),
        shown(*len)
    )]
    AnotherFile { path: PathBuf, len: u64, offset: u64 },
    #[error(
        "{name} has {events} events, and its feeder was behind {behind}: give it the same input from the beginning, or another --name"
    )]
    Shorter { name: String, events: u64, behind: u64 },
    #[error("{} is no directory: give a file with --from", .0.display())]
    NoDirectory(PathBuf),
    #[error(
        "{new} new file(s) of {} have names before those that are done, and are not fed: give another --name for them",
        root.display()
    )]
    NewFiles { new: u64, root: PathBuf },
    #[error("{} has more than {most} names: divide it into directories", path.display())]
    TooManyNames { path: PathBuf, most: usize },
    #[error("the feeder {feeder} has fed {fed} so far, not {source_name}: take another --name, or leave it out")]
    AnotherSource { feeder: String, fed: String, source_name: String },
    #[error("{subject} holds no feeder's place: {source}")]
    NoPlace { subject: String, source: serde_json::Error },
    #[error("the place of feeder {0} names a path that is none: take another --name")]
    ForgedPath(String),
    #[error("ended before all was stored: {0}")]
    Stopped(String),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it ends in the middle of an event: its length says more bytes than there are")]
pub(crate) struct CutShort;
