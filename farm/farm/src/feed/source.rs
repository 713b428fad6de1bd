//! Sources of events.

use super::directory::Directory;
use super::error::InputError;
use super::input::{CHUNK, Found, InvalidInput};
use super::listen::Listen;
use super::place::{self, Mark};
use super::splitter::{Form, Record, Splitter};
use crate::args::Feed;
use crate::error::FarmError;
use crate::ids::Ids;
use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

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

pub(super) async fn open(args: &Feed, limit: usize, ids: Ids) -> Result<Source, FarmError> {
    let form = if args.lines { Form::Lines } else { Form::Frames };
    if let Some(dir) = &args.dir {
        return Directory::open(dir, limit, ids).map(Source::Directory);
    }
    if let Some(address) = args.listen {
        return Listen::open(address, args, form, limit, ids).await.map(Source::Listen);
    }
    let file = match &args.from {
        Some(path) => Some(File::open(path).await.map_err(FarmError::file("cannot read", path))?),
        None => None,
    };
    Ok(Source::Stream(Stream { path: args.from.clone(), form, limit, ids, from: Mark::default(), file }))
}

impl Source {
    /// Name of the source in a stored place. `None`: this source has no places.
    pub(super) fn place(&self) -> Option<Result<String, FarmError>> {
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

    pub(super) async fn go_on_from(self, mark: Option<&Mark>) -> Result<Self, FarmError> {
        let Some(mark) = mark.filter(|mark| **mark != Mark::default()) else { return Ok(self) };
        sidecore_terminal::output::tell(format_args!("going on behind event {}", mark.number));
        match self {
            Self::Stream(stream) => stream.go_on_from(mark.clone()).await.map(Self::Stream),
            Self::Directory(directory) => Ok(Self::Directory(directory.go_on_from(mark))),
            Self::Listen(listen) => Ok(Self::Listen(listen)),
        }
    }

    pub(super) async fn run(self, give: Sender<Found>) -> Result<(), FarmError> {
        match self {
            Self::Stream(stream) => stream.run(give).await,
            Self::Directory(directory) => directory.run(give).await,
            Self::Listen(listen) => listen.run(give).await,
        }
    }
}

impl Stream {
    async fn go_on_from(mut self, mark: Mark) -> Result<Self, FarmError> {
        if let (Some(file), Some(path)) = (&mut self.file, &self.path) {
            let len = file.metadata().await.map_or(0, |metadata| metadata.len());
            if len < mark.offset {
                return Err(InputError::AnotherFile { path: path.clone(), len, offset: mark.offset }.into());
            }
            let sought = file.seek(SeekFrom::Start(mark.offset)).await;
            sought.map_err(FarmError::file("cannot go on in", path))?;
        }
        self.from = mark;
        Ok(self)
    }

    async fn run(mut self, give: Sender<Found>) -> Result<(), FarmError> {
        match self.file.take() {
            Some(file) => self.read(file, give).await,
            None => self.read(tokio::io::stdin(), give).await,
        }
    }

    async fn read<R: AsyncRead + Unpin>(self, mut input: R, give: Sender<Found>) -> Result<(), FarmError> {
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
            let read = input.read_buf(&mut splitter.buffer).await;
            if read.map_err(|source| FarmError::System { what: format!("cannot read {name}").into(), source })? == 0 {
                break;
            }
        }
        let last = splitter.end().map_err(|source| InputError::Unfinished { name: name.clone(), source })?;
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

    fn found(&mut self, record: Record, taken: u64, name: &str) -> Result<Option<Found>, FarmError> {
        let body = match record {
            Record::Event(body) => Ok(body),
            Record::TooLarge(size) => Err(InvalidInput::TooLarge(size, self.stream.limit)),
            Record::Text => return Err(InputError::Text(name.to_owned()).into()),
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

    fn whole(&self, name: &str) -> Result<(), FarmError> {
        if self.mark.number >= self.skip {
            return Ok(());
        }
        Err(InputError::Shorter { name: name.to_owned(), events: self.mark.number, behind: self.skip }.into())
    }
}
