//! One block of a PEM file, of which lines come one by one: nothing behind the block is read.

use der::pem;
use zeroize::Zeroizing;

/// Most lines without a block that are passed over, and most lines of a block.
const MAX_LINES: usize = 10_000;
/// Longest block of ours.
const MAX_BLOCK: usize = 4096;
const BEGIN: &[u8] = b"-----BEGIN ";

/// The contents of the next block, if its label is `label`. `line` gives lines, or pieces of long ones; nothing at
/// the end. A block of another label, perhaps a private key, is read to its end and not kept.
pub fn read_block(label: &str, mut line: impl FnMut() -> Zeroizing<Vec<u8>>) -> Option<Vec<u8>> {
    let begin = (0..MAX_LINES).map(|_| line()).find(|line| line.is_empty() || line.starts_with(BEGIN))?;
    let named = begin.strip_prefix(BEGIN).and_then(|rest| rest.strip_prefix(label.as_bytes()));
    let ours = named.is_some_and(|rest| rest.trim_ascii_end() == b"-----");
    let mut text = if ours { begin } else { Zeroizing::default() };
    for _ in 0..MAX_LINES {
        let next = line();
        if next.is_empty() {
            return None;
        }
        if ours && text.len() <= MAX_BLOCK {
            text.extend(&*next);
        }
        if next.starts_with(b"-----END ") {
            break;
        }
    }
    if !ours {
        return None;
    }
    let (found, contents) = pem::decode_vec(&text).ok()?;
    (found == label).then_some(contents)
}

/// Whether bytes begin as our files do: so an error in them is worth telling.
pub fn looks_like_uri(der: &[u8]) -> bool {
    // Behind the heads of the sequence, of two to four bytes, and of the first string.
    (4..=6).any(|place| der.get(place..).is_some_and(|rest| rest.starts_with(b"sidecore")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::MAX_NAME;
    use crate::keys::uri::{MAX_PUBLIC, PEM_LABEL, Uri};

    const FILE: &str = "text\n-----BEGIN OTHER-----\nAQID\n-----END OTHER-----\n\
        -----BEGIN OURS-----\nBAUG\n-----END OURS-----\nrest\n";

    #[test]
    fn the_longest_file_is_read() {
        let uri = Uri::new(&"x".repeat(MAX_NAME)).unwrap();
        let public = [&[0x30, 0x82, (MAX_PUBLIC >> 8) as u8, MAX_PUBLIC as u8][..], &[5; MAX_PUBLIC]].concat();
        let uri = uri.with_public(public).unwrap();
        let pem = uri.to_pem();
        let mut lines = pem.split_inclusive('\n');
        let line = || Zeroizing::new(lines.next().unwrap_or_default().as_bytes().to_vec());
        let der = read_block(PEM_LABEL, line).unwrap();
        assert_eq!(Uri::from_der(&der), Ok(uri));
        assert!(looks_like_uri(&der) && looks_like_uri(&Uri::new("a").unwrap().to_der()));
    }

    #[test]
    fn a_block_of_another_label_is_passed_over_alone() {
        let mut lines = FILE.split_inclusive('\n');
        let mut line = || Zeroizing::new(lines.next().unwrap_or_default().as_bytes().to_vec());
        assert_eq!(read_block("OURS", &mut line), None);
        assert_eq!(read_block("OURS", &mut line).unwrap(), [4, 5, 6]);
        assert_eq!(*line(), b"rest\n");
        assert_eq!(read_block("OURS", &mut line), None);
    }
}
