//! Cuts a stream of bytes into events: lines, or events with their length before them.

use super::error::CutShort;
use bytes::{Buf, Bytes, BytesMut};

const HEADER: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Four bytes of length, big-endian, before each event.
    Frames,
    /// A line feed, which is no part of the event, ends each.
    Lines,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Event(Bytes),
    TooLarge(u64),
    Text,
}

#[derive(Debug)]
pub(super) struct Splitter {
    pub(super) buffer: BytesMut,
    form: Form,
    limit: usize,
    /// Bytes without a line feed at the buffer's beginning.
    searched: usize,
    skipping: Option<Skip>,
    taken: u64,
}

#[derive(Debug)]
struct Skip {
    /// Remaining bytes of a frame. A line ends at its line feed.
    left: u64,
    size: u64,
}

impl Splitter {
    /// `limit`: bytes of the largest event. `taken`: bytes of the source before the first that comes.
    pub(super) fn new(form: Form, limit: usize, taken: u64) -> Self {
        Self { buffer: BytesMut::new(), form, limit, searched: 0, skipping: None, taken }
    }

    /// Bytes of the source up to the end of the last event that was cut.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn partial(&self) -> bool {
        !self.buffer.is_empty() || self.skipping.is_some()
    }

    pub(super) fn cut(&mut self) -> Option<Record> {
        match self.form {
            Form::Frames => self.frame(),
            Form::Lines => self.line(),
        }
    }

    /// The source has ended: a last line needs no line feed. An error if it ends within a frame.
    pub(super) fn end(&mut self) -> Result<Option<Record>, CutShort> {
        if !self.partial() {
            return Ok(None);
        }
        if self.form == Form::Frames {
            return Err(CutShort);
        }
        let size = self.skipping.take().map(|skip| skip.size + self.buffer.len() as u64);
        self.taken += self.buffer.len() as u64;
        let rest = self.buffer.split().freeze();
        Ok(Some(size.map_or(Record::Event(rest), Record::TooLarge)))
    }

    fn frame(&mut self) -> Option<Record> {
        if self.skipping.is_some() {
            return self.skipped();
        }
        let header: [u8; HEADER] = self.buffer.get(..HEADER)?.try_into().ok()?;
        let len = u32::from_be_bytes(header) as usize;
        if len > self.limit {
            if header.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
                return Some(Record::Text);
            }
            self.buffer.advance(HEADER);
            self.taken += HEADER as u64;
            self.skipping = Some(Skip { left: len as u64, size: len as u64 });
            return self.skipped();
        }
        if self.buffer.len() < HEADER + len {
            self.buffer.reserve(HEADER + len - self.buffer.len());
            return None;
        }
        self.buffer.advance(HEADER);
        self.taken += (HEADER + len) as u64;
        Some(Record::Event(self.buffer.split_to(len).freeze()))
    }

    fn skipped(&mut self) -> Option<Record> {
        let skip = self.skipping.as_mut()?;
        let now = self.buffer.len().min(usize::try_from(skip.left).unwrap_or(usize::MAX));
        skip.left -= now as u64;
        self.taken += now as u64;
        self.buffer.advance(now);
        if skip.left > 0 {
            return None;
        }
        self.skipping.take().map(|skip| Record::TooLarge(skip.size))
    }

    fn line(&mut self) -> Option<Record> {
        let fresh = &self.buffer[self.searched..];
        let Some(at) = fresh.iter().position(|&byte| byte == b'\n').map(|at| at + self.searched) else {
            self.searched = self.buffer.len();
            self.shorten();
            return None;
        };
        self.searched = 0;
        self.taken += at as u64 + 1;
        let line = self.buffer.split_to(at).freeze();
        self.buffer.advance(1);
        let size = line.len() as u64 + self.skipping.take().map_or(0, |skip| skip.size);
        Some(if size > self.limit as u64 { Record::TooLarge(size) } else { Record::Event(line) })
    }

    fn shorten(&mut self) {
        if self.buffer.len() > self.limit {
            let gone = self.buffer.len() as u64;
            self.skipping.get_or_insert(Skip { left: 0, size: 0 }).size += gone;
            self.taken += gone;
            self.buffer.clear();
            self.searched = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(
        form: Form,
        limit: usize,
        input: &[u8],
        piece: usize,
    ) -> (Vec<Record>, Result<Option<Record>, CutShort>, u64) {
        let mut splitter = Splitter::new(form, limit, 0);
        let mut out = Vec::new();
        for piece in input.chunks(piece) {
            splitter.buffer.extend_from_slice(piece);
            while let Some(record) = splitter.cut() {
                let end = record == Record::Text;
                out.push(record);
                if end {
                    break;
                }
            }
        }
        let end = splitter.end();
        (out, end, splitter.taken())
    }

    fn event(text: &'static str) -> Record {
        Record::Event(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        for piece in 1..20 {
            let (out, end, taken) = cuts(Form::Lines, 5, b"one\n\ntwelve\nfive5\nlast", piece);
            assert_eq!(out, [event("one"), event(""), Record::TooLarge(6), event("five5")], "{piece}");
            assert_eq!((end, taken), (Ok(Some(event("last"))), 22));
        }
    }

    #[test]
    fn frames_are_the_same_however_they_come() {
        let input = b"\0\0\0\x03one\0\0\0\0\0\0\0\x06twelve\0\0\0\x02ok";
        for piece in 1..20 {
            let (out, end, taken) = cuts(Form::Frames, 5, input, piece);
            assert_eq!(out, [event("one"), event(""), Record::TooLarge(6), event("ok")], "{piece}");
            assert_eq!((end, taken), (Ok(None), input.len() as u64));
        }
    }

    #[test]
    fn a_frame_that_is_cut_short_is_an_error_and_a_line_is_not() {
        assert!(cuts(Form::Frames, 5, b"\0\0\0\x03on", 2).1.is_err());
        assert_eq!(cuts(Form::Lines, 5, b"on", 1).1, Ok(Some(event("on"))));
        assert_eq!(cuts(Form::Lines, 5, b"far too long", 1).1, Ok(Some(Record::TooLarge(12))));
    }

    #[test]
    fn text_is_seen_where_a_length_should_be() {
        assert_eq!(cuts(Form::Frames, 1 << 20, b"GET / HTTP/1.1\r\n", 3).0.first(), Some(&Record::Text));
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut splitter = Splitter::new(Form::Lines, 10, 0);
        for _ in 0..1_000 {
            splitter.buffer.extend_from_slice(&[b'x'; 100]);
            assert_eq!(splitter.cut(), None);
            assert!(splitter.buffer.len() <= 10);
        }
    }
}
