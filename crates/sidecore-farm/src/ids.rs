//! Ids of events: the feeder's name, and a part of each event.

use async_nats::Client;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

pub(crate) const MAX_ID_BYTES: usize = 96;
/// Digits of a digest that stand for the rest of a long path: 128 bits.
const DIGEST: usize = 32;
/// Characters that distinguish feeders without a name, and runs of a named feeder.
const RUN: usize = 12;

#[derive(Clone, Debug)]
pub(crate) struct Ids {
    feeder: String,
    run: String,
}

impl Ids {
    pub(crate) fn new(name: Option<&str>, client: &Client) -> Self {
        let inbox = client.new_inbox();
        let run = inbox[inbox.len().saturating_sub(RUN)..].to_owned();
        Self { feeder: name.unwrap_or(&run).to_owned(), run }
    }

    /// For an event that has the same number when the source is read again.
    pub(crate) fn numbered(&self, number: u64) -> String {
        format!("{}-{number}", self.feeder)
    }

    /// For an event that comes once: no later run may use its id for another event.
    pub(crate) fn of_this_run(&self, number: u64) -> String {
        if self.feeder == self.run { self.numbered(number) } else { format!("{}-{}-{number}", self.feeder, self.run) }
    }

    /// For a file. A path that is too long ends in a digest.
    pub(crate) fn path(&self, path: &Path) -> String {
        let id = format!("{}-{}", self.feeder, escaped(path));
        if id.len() <= MAX_ID_BYTES {
            return id;
        }
        // No escaped path has two underscores in a row.
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, path.as_os_str().as_bytes());
        let mut id = format!("{}__", &id[..MAX_ID_BYTES - DIGEST - 2]);
        for byte in &digest.as_ref()[..DIGEST / 2] {
            let _ = write!(id, "{byte:02x}");
        }
        id
    }
}

/// Whether the text can be an id: a token of a subject, and a file's name.
pub(crate) fn is_one(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.len() <= MAX_ID_BYTES && text.bytes().all(plain)
}

/// A path of letters, digits and `-`; every other byte is `_` and its two digits in hexadecimal.
pub(crate) fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "_{byte:02x}");
        }
    }
    text
}

/// The path that was escaped. `None` for any other text, and for a path out of its directory.
pub(crate) fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = if byte == b'_' { Some([rest.next()?, rest.next()?]) } else { None };
        bytes.push(match digits {
            Some(digits) => u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?,
            None => byte,
        });
    }
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    let inside = path.components().all(|part| matches!(part, Component::Normal(name) if name != OsStr::new("")));
    (inside && escaped(&path) == text && !text.contains("_00")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> Ids {
        Ids { feeder: "f".into(), run: "r".into() }
    }

    #[test]
    fn every_path_has_an_id_of_its_own_that_is_one() {
        let long = "d/".repeat(100);
        let hostile = [
            "a",
            "a/b",
            "a_2fb",
            "../x",
            "a\u{1}b",
            "a b",
            "*",
            ">",
            "ä",
            "a.b",
            "-",
            &format!("{long}1"),
            &format!("{long}2"),
        ];
        let all: std::collections::BTreeSet<_> = hostile.iter().map(|path| ids().path(Path::new(path))).collect();
        assert_eq!(all.len(), hostile.len());
        assert!(all.iter().all(|id| is_one(id)), "{all:?}");
    }

    #[test]
    fn a_path_comes_back_from_its_escape_and_a_forged_one_does_not() {
        for path in ["a", "a/b.txt", "x_y/ä z", "-"] {
            assert_eq!(unescaped(&escaped(Path::new(path))).as_deref(), Some(Path::new(path)));
        }
        for forged in ["_2e_2e_2fx", "_2fetc_2fpasswd", "a_00", "_", "_4", "_zz", "_2F", "a.b"] {
            assert_eq!(unescaped(forged), None, "{forged}");
        }
    }

    #[test]
    fn what_is_no_token_is_no_id() {
        for text in ["", "a.b", "a b", "*", ">", "../x", "a/b", "a\0", "ä", &"x".repeat(97)] {
            assert!(!is_one(text), "{text:?}");
        }
    }

    #[test]
    fn ids_of_a_run_are_never_those_of_the_next() {
        let next = Ids { run: "s".into(), ..ids() };
        assert_eq!(ids().numbered(7), next.numbered(7));
        assert_ne!(ids().of_this_run(7), next.of_this_run(7));
    }
}
