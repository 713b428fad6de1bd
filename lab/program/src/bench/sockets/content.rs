//! Content of messages. The bytes identify their position in a connection's stream, so a lost, doubled or swapped byte
//! is detected.

/// Period of the bytes. A prime: no whole number of messages or of pages is a multiple of it.
const PERIOD: u64 = 65_521;

pub(in crate::bench) struct Content {
    bytes: Vec<u8>,
    /// True: each message has the bytes of its position. False: all messages have the first bytes, which is fastest.
    walks: bool,
}

impl Content {
    pub(in crate::bench) fn new(most: usize, walks: bool) -> Self {
        // Numbers of xorshift: no part of a period resembles another.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes: Vec<u8> = Vec::with_capacity(PERIOD as usize + most);
        for _ in 0..PERIOD {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push((state >> 32) as u8);
        }
        for index in 0..most {
            bytes.push(bytes[index]);
        }
        Self { bytes, walks }
    }

    #[inline]
    pub(in crate::bench) fn at(&self, sent: u64, len: usize) -> &[u8] {
        let start = if self.walks { (sent % PERIOD) as usize } else { 0 };
        &self.bytes[start..start + len]
    }

    #[inline]
    pub(in crate::bench) fn number(&self, number: u64, datagram: &mut [u8]) {
        if self.walks {
            datagram.copy_from_slice(self.at(number * datagram.len() as u64, datagram.len()));
        }
        datagram[..size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
    }

    pub(in crate::bench) fn is_numbered(&self, number: u64, datagram: &[u8]) -> bool {
        let place = number.wrapping_mul(datagram.len() as u64);
        datagram[size_of::<u64>()..] == self.at(place, datagram.len())[size_of::<u64>()..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_is_lost_doubled_or_swapped_is_seen() {
        let content = Content::new(1 << 20, true);
        for (sent, other) in [(0, 64), (64, 0), (4096, 8192), (PERIOD - 8, PERIOD + 56)] {
            assert_ne!(content.at(sent, 64), content.at(other, 64));
        }
        assert_eq!(content.at(PERIOD + 5, 1 << 20), content.at(5, 1 << 20));
        assert_eq!(&content.at(PERIOD - 3, 10)[3..], content.at(0, 7));
    }

    #[test]
    fn without_a_check_all_messages_are_alike() {
        let content = Content::new(64, false);
        assert_eq!(content.at(0, 64), content.at(640, 64));
    }
}
