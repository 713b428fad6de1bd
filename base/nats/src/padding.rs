//! Sizes of messages for servers before NATS 2.10.5, which lose acknowledged messages of a full stream (nats-server,
//! issue 4771).
//!
//! Such a server compares a stream's limit with the bytes that it has and the new message's headers and body. What it
//! stores has the subject and [`RECORD`] bytes more. A message that fits by the first sum alone is acknowledged, and the
//! oldest one is dropped for it; with messages of one size that goes on with each further message. Where all stored
//! sizes and the limit are multiples of [`QUANTUM`], which is more than the difference, both sums fit or neither does.

use async_nats::{Client, HeaderMap, HeaderValue};

/// Stored sizes and limits are multiples of this, bytes.
pub const QUANTUM: u16 = 256;
/// Most bytes of a subject.
pub const LONGEST_SUBJECT: usize = MULTIPLE - RECORD - 1;
const MULTIPLE: usize = QUANTUM as usize;
/// Bytes of a stored message besides subject, headers and body: lengths, number, time, checksum.
const RECORD: usize = 34;
/// Bytes around all headers, and around each: `NATS/1.0`, the colon, and ends of lines.
const FRAME: usize = 12;
const EACH: usize = 4;
const NAME: &str = "Farm-Padding";
/// First version that counts what it stores.
const MENDED: (i64, i64, i64) = (2, 10, 5);

/// Whether messages to the server are padded.
#[derive(Clone, Copy, Debug)]
pub struct Padding(bool);

impl Padding {
    /// For messages to the server of this connection.
    #[must_use]
    pub fn of(client: &Client) -> Self {
        let (major, minor, patch) = MENDED;
        Self(!client.is_server_compatible(major, minor, patch))
    }

    /// Most bytes that it adds to a message.
    #[must_use]
    pub fn most(self) -> usize {
        if self.0 { MULTIPLE + NAME.len() + EACH + 1 } else { 0 }
    }

    /// Adds a header that makes the stored size a multiple. `subject`, `body`: bytes of subject and body as they are stored.
    pub fn add(self, headers: &mut HeaderMap, subject: usize, body: usize) {
        let over = (RECORD + subject + size_of(headers) + body) % MULTIPLE;
        if !self.0 || over == 0 {
            return;
        }
        let (least, lacks) = (NAME.len() + EACH + 1, MULTIPLE - over);
        let lacks = if lacks < least { lacks + MULTIPLE } else { lacks };
        let value = "0".repeat(lacks + 1 - least);
        headers.insert(NAME, value.parse::<HeaderValue>().unwrap_or_default());
    }
}

/// Bytes of headers in a message.
#[must_use]
pub fn size_of(headers: &HeaderMap) -> usize {
    let lines = headers.iter().flat_map(|(name, values)| values.iter().map(|value| (name.to_string(), value.as_str())));
    FRAME + lines.map(|(name, value)| name.len() + value.len() + EACH).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stored_size_becomes_a_multiple() {
        let padding = Padding(true);
        for body in 0..2 * MULTIPLE {
            let mut headers = HeaderMap::new();
            headers.insert("Farm-Kind", "k");
            let before = size_of(&headers);
            padding.add(&mut headers, 22, body);
            assert_eq!((RECORD + 22 + size_of(&headers) + body) % MULTIPLE, 0, "{body}");
            assert!(size_of(&headers) - before <= padding.most());
            let padded = size_of(&headers);
            padding.add(&mut headers, 22, body);
            assert_eq!(size_of(&headers), padded);
            let mut plain = HeaderMap::new();
            Padding(false).add(&mut plain, 22, body);
            assert!(plain.is_empty() && Padding(false).most() == 0);
        }
    }
}
