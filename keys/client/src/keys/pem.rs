//! PEM as OpenSSL reads it: a byte order mark, blanks, ends of lines of either kind and lines of any width are
//! accepted.
//!
//! Blocks are written anew with lines of [`WIDTH`] characters, as strict readers require.

use der::pem;
use zeroize::Zeroizing;

const MAX_LINES: usize = 100_000;
/// Longest block that is read line by line, bytes.
const MAX_BLOCK: usize = 4096;
/// Characters of a line, by RFC 7468.
const WIDTH: usize = 64;
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const TAIL: &[u8] = b"-----";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The contents of the next block, if its label is `label`. `line` yields lines, or pieces of long lines; an empty one
/// is the end. Nothing after the block is read. A block with another label, perhaps a private key, is not kept.
pub fn read_block(label: &str, line: impl FnMut() -> Zeroizing<Vec<u8>>) -> Option<Vec<u8>> {
    let mut text = Text::with_room(MAX_BLOCK);
    let found = text.next_block(|found| found == label.as_bytes(), line);
    if found == Found::Wanted { pem::decode_vec(&text.0).ok().map(|(_, contents)| contents) } else { None }
}

/// The first block of a file with a wanted label.
pub fn first_block(file: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Option<Zeroizing<Vec<u8>>> {
    let mut line = lines(file);
    let mut text = Text::with_room(file.len());
    loop {
        match text.next_block(&wanted, &mut line) {
            Found::Wanted => return Some(text.0),
            Found::Other => {}
            Found::Nothing => return None,
        }
    }
}

/// All blocks of a file, without the text between them.
pub fn all_blocks(file: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut line = lines(file);
    let mut text = Text::with_room(file.len());
    while text.next_block(|_| true, &mut line) != Found::Nothing {}
    text.0
}

fn lines(file: &[u8]) -> impl FnMut() -> Zeroizing<Vec<u8>> {
    let mut lines = file.split_inclusive(|byte| *byte == b'\n');
    move || Zeroizing::new(lines.next().unwrap_or_default().to_vec())
}

#[derive(PartialEq, Eq)]
enum Found {
    Wanted,
    Other,
    Nothing,
}

/// Output, with its full capacity from the start: a growing vector would leave pieces of a private key in freed
/// memory.
struct Text(Zeroizing<Vec<u8>>);

impl Text {
    fn with_room(bytes: usize) -> Self {
        Self(Zeroizing::new(Vec::with_capacity(bytes + bytes / WIDTH + WIDTH)))
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.0.capacity() - self.0.len();
        if fits {
            self.0.extend(bytes);
        }
        fits
    }

    fn next_block(&mut self, wanted: impl Fn(&[u8]) -> bool, mut line: impl FnMut() -> Zeroizing<Vec<u8>>) -> Found {
        let Some(label) = find_label(&mut line) else { return Found::Nothing };
        let start = self.0.len();
        let mut keep = wanted(&label) && self.push(&[BEGIN, &label, TAIL, b"\n"].concat());
        let mut body = Body::default();
        for _ in 0..MAX_LINES {
            let line = line();
            let at_end = line.starts_with(END) || line.is_empty();
            keep = keep
                && if at_end {
                    let end: &[u8] = if body.column > 0 { b"\n" } else { b"" };
                    label_of(&line, END) == Some(&*label) && self.push(&[end, END, &label, TAIL, b"\n"].concat())
                } else {
                    body.put(&line, self)
                };
            if at_end {
                break;
            }
        }
        if keep {
            return Found::Wanted;
        }
        self.0.truncate(start);
        Found::Other
    }
}

fn find_label(mut line: impl FnMut() -> Zeroizing<Vec<u8>>) -> Option<Vec<u8>> {
    for number in 0..MAX_LINES {
        let line = line();
        let mark = if number == 0 { BYTE_ORDER_MARK } else { b"" };
        let label = label_of(line.strip_prefix(mark).unwrap_or(&line), BEGIN);
        if label.is_some() || line.is_empty() {
            return label.map(<[u8]>::to_vec);
        }
    }
    None
}

fn label_of<'l>(line: &'l [u8], head: &[u8]) -> Option<&'l [u8]> {
    line.trim_ascii_end().strip_prefix(head)?.strip_suffix(TAIL)
}

#[derive(Default)]
struct Body {
    column: usize,
    in_headers: bool,
    goes_on: bool,
}

impl Body {
    fn put(&mut self, line: &[u8], text: &mut Text) -> bool {
        let is_rest = std::mem::replace(&mut self.goes_on, !line.ends_with(b"\n"));
        self.in_headers |= self.column == 0 && line.contains(&b':');
        if self.in_headers {
            self.in_headers = is_rest || !line.trim_ascii().is_empty();
            let end: &[u8] = if self.goes_on { b"" } else { b"\n" };
            return text.push(line.trim_ascii_end()) && text.push(end);
        }
        line.iter().filter(|byte| !byte.is_ascii_whitespace()).all(|byte| {
            let full = self.column == WIDTH;
            self.column = if full { 1 } else { self.column + 1 };
            (!full || text.push(b"\n")) && text.push(&[*byte])
        })
    }
}

/// Whether bytes begin as our files do, so that an error in them is worth reporting.
pub fn looks_like_uri(der: &[u8]) -> bool {
    // Position after the heads of the sequence, of two to four bytes, and of the first string.
    (4..=6).any(|place| der.get(place..).is_some_and(|rest| rest.starts_with(b"sidecore")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::MAX_NAME;
    use crate::keys::uri::{MAX_PUBLIC, PEM_LABEL, Uri};
    use proptest::prelude::*;

    const FILE: &str = "text\n-----BEGIN OTHER-----\nAQID\n-----END OTHER-----\n\
        -----BEGIN OURS-----\nBAUG\n-----END OURS-----\nrest\n";

    fn pieces(file: &[u8], most: usize) -> impl FnMut() -> Zeroizing<Vec<u8>> {
        let lines: Vec<Vec<u8>> = file
            .split_inclusive(|byte| *byte == b'\n')
            .flat_map(|line| line.chunks(most))
            .map(<[u8]>::to_vec)
            .collect();
        let mut lines = lines.into_iter();
        move || Zeroizing::new(lines.next().unwrap_or_default())
    }

    fn longest() -> Uri {
        let uri = Uri::new(&"x".repeat(MAX_NAME)).unwrap();
        let public = [&[0x30, 0x82, (MAX_PUBLIC >> 8) as u8, MAX_PUBLIC as u8][..], &[5; MAX_PUBLIC]].concat();
        uri.with_public(public).unwrap()
    }

    #[test]
    fn the_longest_file_is_read() {
        let uri = longest();
        let der = read_block(PEM_LABEL, pieces(uri.to_pem().as_bytes(), 255)).unwrap();
        assert_eq!(Uri::from_der(&der), Ok(uri));
        assert!(looks_like_uri(&der) && looks_like_uri(&Uri::new("a").unwrap().to_der()));
    }

    #[test]
    fn lines_of_any_width_blanks_and_marks_do_no_harm() {
        let uri = longest();
        let strict = uri.to_pem();
        let base64: String = strict.lines().filter(|line| !line.starts_with('-')).collect();
        for width in [1, 3, 64, 65, 76, 254, 255, 256, 100_000] {
            for (mark, blank, end) in
                [("", "", "\n"), ("\u{feff}", " \t", "\r\n"), ("text\n", "", " \n"), ("", "", "\n\n")]
            {
                let lines = base64.as_bytes().chunks(width).map(|line| String::from_utf8_lossy(line));
                let lines: Vec<String> = lines.map(|line| format!("{blank}{line}{blank}{end}")).collect();
                let body = lines.concat();
                let file = format!("{mark}-----BEGIN {PEM_LABEL}-----{end}{body}-----END {PEM_LABEL}-----");
                assert_eq!(Uri::from_pem(file.as_bytes()).as_ref(), Ok(&uri), "{width} {end:?}");
                let der = read_block(PEM_LABEL, pieces(file.as_bytes(), 255)).unwrap();
                assert_eq!(der, uri.to_der(), "{width} {end:?}");
                assert_eq!(*all_blocks(file.as_bytes()), strict.as_bytes(), "{width} {end:?}");
            }
        }
    }

    #[test]
    fn headers_stay_as_they_are() {
        let long = "x".repeat(600);
        let file =
            format!("-----BEGIN A-----\r\nProc-Type: 4,ENCRYPTED\r\nX: {long}\r\n\r\nAQ I D\r\n-----END A-----\r\n");
        let strict = format!("-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\nX: {long}\n\nAQID\n-----END A-----\n");
        assert_eq!(*all_blocks(file.as_bytes()), strict.as_bytes());
        assert_eq!(read_block("A", pieces(file.as_bytes(), 255)), None);
    }

    #[test]
    fn a_block_of_another_label_is_passed_over_alone() {
        let mut line = pieces(FILE.as_bytes(), 255);
        assert_eq!(read_block("OURS", &mut line), None);
        assert_eq!(read_block("OURS", &mut line).unwrap(), [4, 5, 6]);
        assert_eq!(*line(), b"rest\n");
        assert_eq!(read_block("OURS", &mut line), None);
        let ours = first_block(FILE.as_bytes(), |label| label == b"OURS").unwrap();
        assert_eq!(*ours, *b"-----BEGIN OURS-----\nBAUG\n-----END OURS-----\n");
    }

    #[test]
    fn what_is_too_long_or_has_no_end_of_its_own_is_no_block() {
        let long = format!("-----BEGIN A-----\n{}-----END A-----\n", "AAAA\n".repeat(MAX_BLOCK));
        let other = "-----BEGIN A-----\nAQID\n-----END B-----\n";
        for file in [&long, other, "-----BEGIN A-----\nAQID\n", "-----BEGIN A----\nAQID\n-----END A-----\n", ""] {
            assert_eq!(read_block("A", pieces(file.as_bytes(), 255)), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_blocks_or_none(bytes in prop::collection::vec(prop::sample::select(b"A:= -\r\n".as_slice()), 0..300)) {
            let file = [b"-----BEGIN A-----\n", &bytes[..], b"\n-----END A-----\n"].concat();
            for file in [&file[..], &bytes] {
                let strict = all_blocks(file);
                prop_assert_eq!(&*all_blocks(&strict), &*strict);
                let _ = read_block("A", pieces(file, 255));
            }
        }
    }
}
