//! One block of a PEM file, of which lines come one by one: nothing behind the block is read.

use pkcs8::der::pem;

/// Most lines without a block that are passed over, and most lines of a block: a URI has few.
const MAX_LINES: usize = 10_000;
/// Longest block of ours.
const MAX_BLOCK: usize = 4096;

/// Reading one block.
pub(crate) struct Block;

impl Block {
    /// The contents of the next block, if its label is `label`. `line` gives lines, or pieces of long ones; nothing at
    /// the end. The block is read to its end also if it has another label.
    pub(crate) fn read(label: &str, mut line: impl FnMut() -> Vec<u8>) -> Option<Vec<u8>> {
        let begin = (0..MAX_LINES).map(|_| line()).find(|line| line.is_empty() || line.starts_with(b"-----BEGIN "))?;
        let mut text = begin;
        for _ in 0..MAX_LINES {
            let next = line();
            if next.is_empty() {
                return None;
            }
            let last = next.starts_with(b"-----END ");
            if text.len() <= MAX_BLOCK {
                text.extend(next);
            }
            if last {
                break;
            }
        }
        let (found, contents) = pem::decode_vec(&text).ok()?;
        (found == label).then_some(contents)
    }
}

/// Whether bytes begin as our files do: so an error in them is worth telling.
pub(crate) fn looks_like_uri(der: &[u8]) -> bool {
    der.get(4..).is_some_and(|rest| rest.starts_with(b"sidecore"))
}
