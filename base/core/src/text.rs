//! Untrusted text, made safe for terminals.

/// Returns the letter, or a replacement mark for control characters, ends of lines and letters that change the
/// direction of the following text (`Bidi_Control` of Unicode's standard annex 9).
#[must_use]
pub fn shown(letter: char) -> char {
    match letter {
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        _ if letter.is_control() => char::REPLACEMENT_CHARACTER,
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn what_drives_a_terminal_or_turns_the_direction_is_not_shown() {
        let text = "a\u{202e}b\u{1b}[1m\u{2066}c\nd\u{2028}e\u{200f}f\u{301}";
        assert_eq!(text.chars().map(shown).collect::<String>(), "a�b�[1m�c�d�e�f\u{301}");
    }
}
