//! Short texts in words: UTF-8, filled up with zeros.

/// The beginning of a text that fits, cut between two characters.
pub(super) fn pack<const WORDS: usize>(text: &str) -> [u64; WORDS] {
    let mut end = text.len().min(WORDS * 8);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut words = [0; WORDS];
    for (word, chunk) in words.iter_mut().zip(text.as_bytes()[..end].chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(bytes);
    }
    words
}

/// The text of such words, up to the first zero. What is no printable character is replaced: names are chosen by
/// clients and end up on terminals.
pub(super) fn unpack(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(&bytes).chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["", "nginx", "exactly8", "größe: a name of all 32 bytes."] {
            assert_eq!(unpack(&pack::<4>(text)), text);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(unpack(&pack::<1>("1234567é")), "1234567");
        assert_eq!(unpack(&pack::<1>("123456é9")), "123456é");
        assert_eq!(unpack(&pack::<1>("€€€")), "€€");
    }

    #[test]
    fn what_would_move_the_cursor_is_replaced() {
        assert_eq!(unpack(&pack::<2>("a\x1b[2Jb\n\u{9b}")), "a\u{fffd}[2Jb\u{fffd}\u{fffd}");
        assert_eq!(unpack(&[u64::MAX]), "\u{fffd}".repeat(8));
    }
}
