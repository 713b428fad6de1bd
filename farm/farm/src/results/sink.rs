//! Destinations of results.

mod directory;

use super::error::ResultError;
use crate::args;
use crate::error::FarmError;
use directory::Directory;
use std::io::{self, Write};

pub(super) enum Sink {
    Directory(Directory),
    /// Standard output, each with its length before it.
    Frames,
    /// Standard output, a line for each, optionally with its id.
    Lines {
        ids: bool,
    },
}

impl Sink {
    pub(super) fn open(args: &args::Results) -> Result<Self, FarmError> {
        let Some(to) = &args.to else {
            return Ok(if args.lines { Self::Lines { ids: args.ids } } else { Self::Frames });
        };
        let opened = Directory::open(to);
        opened.map(Self::Directory).map_err(FarmError::file("cannot make the directory", to))
    }

    /// Writes one result. On return a reader sees all of it.
    pub(super) fn put(&self, id: &str, result: &[u8]) -> Result<(), FarmError> {
        match self {
            Self::Directory(directory) => directory.put(id, result).map_err(|error| {
                FarmError::file(format!("cannot write the result {id} into"), directory.path())(error)
            }),
            Self::Frames => {
                let len = u32::try_from(result.len()).map_err(|_| ResultError::TooLarge(id.to_owned()))?;
                out(&[&len.to_be_bytes(), result])
            }
            Self::Lines { ids } => {
                let line = result.strip_suffix(b"\n").unwrap_or(result);
                if line.contains(&b'\n') {
                    return Err(ResultError::SeveralLines(id.to_owned()).into());
                }
                let name: [&[u8]; 2] = if *ids { [id.as_bytes(), b"\t"] } else { [b"", b""] };
                out(&[name[0], name[1], line, b"\n"])
            }
        }
    }
}

fn out(parts: &[&[u8]]) -> Result<(), FarmError> {
    let mut out = io::stdout().lock();
    let written = parts.iter().try_for_each(|part| out.write_all(part)).and_then(|()| out.flush());
    written.map_err(FarmError::system("cannot write to standard output"))
}
