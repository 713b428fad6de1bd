//! Names that are one token of a subject.

/// Most bytes of an event's id: a feeder's own, its namespace before it, and a mark of another event behind it.
pub const ID: usize = 160;

/// Whether the text is a token for subjects, file names and terminals: letters, digits, - and _.
pub fn is_token(text: &str, longest: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=longest).contains(&text.len()) && text.bytes().all(plain)
}
