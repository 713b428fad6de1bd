//! Destinations of results.

mod directory;

use crate::args;
use directory::Directory;
use std::io::{self, Write};

pub(super) enum Sink {
    /// A file for each.
    Directory(Directory),
    /// Standard output, each with its length before it.
    Frames,
    /// Standard output, a line for each, optionally with its id.
    Lines { ids: bool },
}

impl Sink {
    pub(super) fn open(args: &args::Results) -> Result<Self, String> {
        let Some(to) = &args.to else {
            return Ok(if args.lines { Self::Lines { ids: args.ids } } else { Self::Frames });
        };
        let opened = Directory::open(to);
        opened.map(Self::Directory).map_err(|error| format!("cannot make the directory {}: {error}", to.display()))
    }

    /// Writes one result. On return a reader sees all of it.
    pub(super) fn put(&self, id: &str, result: &[u8]) -> Result<(), String> {
        match self {
            Self::Directory(directory) => directory
                .put(id, result)
                .map_err(|error| format!("cannot write the result {id} into {}: {error}", directory.path().display())),
            Self::Frames => {
                let len =
                    u32::try_from(result.len()).map_err(|_| format!("the result {id} is too large for its length"))?;
                out(&[&len.to_be_bytes(), result])
            }
            Self::Lines { ids } => {
                let line = result.strip_suffix(b"\n").unwrap_or(result);
                if line.contains(&b'\n') {
                    return Err(format!(
                        "the result {id} has several lines: take it without --lines, or with --to DIR"
                    ));
                }
                let name: [&[u8]; 2] = if *ids { [id.as_bytes(), b"\t"] } else { [b"", b""] };
                out(&[name[0], name[1], line, b"\n"])
            }
        }
    }
}

fn out(parts: &[&[u8]]) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let written = parts.iter().try_for_each(|part| out.write_all(part)).and_then(|()| out.flush());
    written.map_err(|error| format!("cannot write to standard output: {error}"))
}
