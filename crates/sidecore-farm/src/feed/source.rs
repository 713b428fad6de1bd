//! Sources of events.

use super::directory::Directory;
use super::listen::{Asker, Listen};
use super::place::{self, Mark};
use super::splitter::{Form, Record, Splitter};
use crate::args::Feed;
use crate::ids::Ids;
use crate::measures;
use bytes::Bytes;
use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

/// Bytes of one read.
pub(super) const CHUNK: usize = 64 << 10;

/// An event, or a fault in its place.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: String,
    /// A displayed name, if the id does not say enough.
    pub(super) name: Option<String>,
    pub(super) body: Result<Bytes, InvalidInput>,
    /// The source's place behind it.
    pub(super) after: Option<Mark>,
    /// The client that receives the outcome, and the number among its own events.
    pub(super) asker: Option<(Arc<Asker>, u64)>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidInput {
    #[error("{0} bytes are more than the {1} that the server's max_payload leaves for an event")]
    TooLarge(u64, usize),
    #[error("{0}")]
    Unreadable(String),
}

pub(super) enum Source {
    Stream(Stream),
    Directory(Directory),
    Listen(Listen),
}

pub(super) struct Stream {
    path: Option<PathBuf>,
    form: Form,
    limit: usize,
    ids: Ids,
    from: Mark,
    file: Option<File>,
}

pub(super) async fn open(args: &Feed, limit: usize, ids: Ids) -> Result<Source, String> {
    let form = if args.lines { Form::Lines } else { Form::Frames };
    if let Some(dir) = &args.dir {
        return Directory::open(dir, limit, ids).map(Source::Directory);
    }
    if let Some(address) = args.listen {
        return Listen::open(address, args, form, limit, ids).await.map(Source::Listen);
    }
    let file = match &args.from {
        Some(path) => Some(File::open(path).await.map_err(|error| format!("cannot read {}: {error}", path.display()))?),
        None => None,
    };
    Ok(Source::Stream(Stream { path: args.from.clone(), form, limit, ids, from: Mark::default(), file }))
}

impl Source {
    /// Name of the source in a stored place. `None`: this source has no places.
    pub(super) fn place(&self) -> Option<Result<String, String>> {
        match self {
            Self::Stream(stream) => {
                Some(stream.path.as_ref().map_or(Ok("standard input".into()), |path| place::named("the file", path)))
            }
            Self::Directory(directory) => Some(directory.place()),
            Self::Listen(_) => None,
        }
    }

    /// A semaphore with one permit for each client that has not received its last line.
    pub(super) fn room(&self) -> Option<Arc<Semaphore>> {
        if let Self::Listen(listen) = self { Some(listen.room()) } else { None }
    }

    /// Skips the completed part.
    pub(super) async fn go_on_from(self, mark: Option<&Mark>) -> Result<Self, String> {
        let Some(mark) = mark.filter(|mark| **mark != Mark::default()) else { return Ok(self) };
        sidecore_terminal::output::tell(format_args!("going on behind event {}", mark.number));
        match self {
            Self::Stream(stream) => stream.go_on_from(mark.clone()).await.map(Self::Stream),
            Self::Directory(directory) => Ok(Self::Directory(directory.go_on_from(mark))),
            Self::Listen(listen) => Ok(Self::Listen(listen)),
        }
    }

    /// Reads to the end, or until the receiver is gone.
    pub(super) async fn run(self, give: Sender<Found>) -> Result<(), String> {
        match self {
            Self::Stream(stream) => stream.run(give).await,
            Self::Directory(directory) => directory.run(give).await,
            Self::Listen(listen) => listen.run(give).await,
        }
    }
}

impl Stream {
    async fn go_on_from(mut self, mark: Mark) -> Result<Self, String> {
        if let (Some(file), Some(path)) = (&mut self.file, &self.path) {
            let len = file.metadata().await.map_or(0, |metadata| metadata.len());
            if len < mark.offset {
                return Err(format!(
                    "{} has {} and its feeder was at byte {}: it is another file by now, so take another --name",
                    path.display(),
                    measures::shown(len),
                    mark.offset
                ));
            }
            let sought = file.seek(SeekFrom::Start(mark.offset)).await;
            sought.map_err(|error| format!("cannot go on in {}: {error}", path.display()))?;
        }
        self.from = mark;
        Ok(self)
    }

    async fn run(mut self, give: Sender<Found>) -> Result<(), String> {
        match self.file.take() {
            Some(file) => self.read(file, give).await,
            None => self.read(tokio::io::stdin(), give).await,
        }
    }

    async fn read<R: AsyncRead + Unpin>(self, mut input: R, give: Sender<Found>) -> Result<(), String> {
        let name = self.path.as_ref().map_or("standard input".into(), |path| path.display().to_string());
        let mut splitter = Splitter::new(self.form, self.limit, self.from.offset);
        let mut numbering = Numbering::new(&self);
        loop {
            while let Some(record) = splitter.cut() {
                let found = numbering.found(record, splitter.taken(), &name)?;
                if let Some(found) = found
                    && give.send(found).await.is_err()
                {
                    return Ok(());
                }
            }
            splitter.buffer.reserve(CHUNK);
            let read =
                input.read_buf(&mut splitter.buffer).await.map_err(|error| format!("cannot read {name}: {error}"))?;
            if read == 0 {
                break;
            }
        }
        let last = splitter.end().map_err(|error| format!("{name}: {error}"))?;
        if let Some(record) = last
            && let Some(found) = numbering.found(record, splitter.taken(), &name)?
        {
            drop(give.send(found).await);
        }
        numbering.whole(&name)
    }
}

struct Numbering<'a> {
    stream: &'a Stream,
    mark: Mark,
    /// Events that are done: standard input delivers them again.
    skip: u64,
}

impl<'a> Numbering<'a> {
    fn new(stream: &'a Stream) -> Self {
        if stream.path.is_some() {
            return Self { stream, mark: stream.from.clone(), skip: 0 };
        }
        Self { stream, mark: Mark::default(), skip: stream.from.number }
    }

    fn found(&mut self, record: Record, taken: u64, name: &str) -> Result<Option<Found>, String> {
        let body = match record {
            Record::Event(body) => Ok(body),
            Record::TooLarge(size) => Err(InvalidInput::TooLarge(size, self.stream.limit)),
            Record::Text => {
                return Err(format!(
                    "{name} has text where an event's length should be: give --lines if each line is an event"
                ));
            }
        };
        let id = if self.stream.path.is_some() { self.mark.offset } else { self.mark.number };
        self.mark = Mark { number: self.mark.number + 1, offset: taken, path: None };
        if self.mark.number <= self.skip {
            return Ok(None);
        }
        Ok(Some(Found {
            id: self.stream.ids.numbered(id),
            name: None,
            body,
            after: Some(self.mark.clone()),
            asker: None,
        }))
    }

    /// Whether all events that are done came again.
    fn whole(&self, name: &str) -> Result<(), String> {
        if self.mark.number >= self.skip {
            return Ok(());
        }
        Err(format!(
            "{name} has {} events, and its feeder was behind {}: give it the same input from the beginning, or another --name",
            self.mark.number, self.skip
        ))
    }
}
