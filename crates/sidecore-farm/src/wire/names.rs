//! Names that are one token of a subject.

pub(crate) const ID: usize = 96;

/// Whether the text is a token for subjects, file names and terminals: letters, digits, - and _.
pub(crate) fn is_token(text: &str, longest: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=longest).contains(&text.len()) && text.bytes().all(plain)
}
