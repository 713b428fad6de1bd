//! Ids of events: the feeder's name, and a part of each event.

use crate::wire;
use async_nats::Client;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Most bytes of a feeder's own ids.
const MAX_ID_BYTES: usize = 96;
/// Digits of a digest: 128 bits.
const DIGEST: usize = 32;
/// Digits that distinguish events of one id.
const MARK: usize = 16;
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

    /// The feeder's name, given or random.
    pub(crate) fn feeder(&self) -> &str {
        &self.feeder
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
        format!("{}__{}", &id[..MAX_ID_BYTES - DIGEST - 2], digest([path.as_os_str().as_bytes()]))
    }
}

/// The id of an event whose own id is another event's.
pub(crate) fn beside(id: &str, digest: &str) -> String {
    format!("{}__{}", &id[..id.len().min(wire::ID - MARK - 2)], &digest[..MARK])
}

/// A digest of these parts, 128 bits in hexadecimal: the start of their SHA-256, a zero between them. No part but the
/// last may have a zero.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            context.update(&[0]);
        }
        context.update(part);
    }
    hexadecimal(&context.finish().as_ref()[..DIGEST / 2])
}

/// The system gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the kernel gives no random bytes")]
pub(crate) struct NoRandom;

/// 128 random bits in hexadecimal.
pub(crate) fn secret() -> Result<String, NoRandom> {
    let mut bytes = [0; DIGEST / 2];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(hexadecimal(&bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether the text can be an id: a token of a subject, and a file's name.
pub(crate) fn is_one(text: &str) -> bool {
    wire::is_token(text, wire::ID)
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
        for text in ["", "a.b", "a b", "*", ">", "../x", "a/b", "a\0", "ä", &"x".repeat(161)] {
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
