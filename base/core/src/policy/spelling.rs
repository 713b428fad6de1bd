//! Errors in the spelling of a policy.

use core::error::Error;
use core::fmt::{self, Display, Formatter};

const MAX_NAME_BYTES: usize = 16;

/// Why a text names no policy. Displayed, it states the error and the accepted names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    reason: Reason,
    accepted: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Unknown(Option<&'static str>),
    Arguments(&'static str),
    /// The policy was removed; the second name is its successor.
    Removed(&'static str, &'static str),
}

impl ParseError {
    pub(super) fn unknown(name: &str, names: &[&'static str], accepted: &'static str) -> Self {
        Self { reason: Reason::Unknown(nearest(name, names)), accepted }
    }

    pub(super) fn removed(name: &'static str, successor: &'static str, accepted: &'static str) -> Self {
        Self { reason: Reason::Removed(name, successor), accepted }
    }

    pub(super) fn arguments(wrong: &'static str, accepted: &'static str) -> Self {
        Self { reason: Reason::Arguments(wrong), accepted }
    }
}

impl Display for ParseError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Unknown(Some(name)) => write!(f, "no such policy, did you mean `{name}`?")?,
            Reason::Unknown(None) => f.write_str("no such policy")?,
            Reason::Arguments(wrong) => f.write_str(wrong)?,
            Reason::Removed(name, successor) => write!(f, "`{name}` was removed: write \"{successor}\"")?,
        }
        write!(f, "; accepted: {}", self.accepted)
    }
}

impl Error for ParseError {}

fn nearest(word: &str, names: &[&'static str]) -> Option<&'static str> {
    let near = names.iter().map(|&name| (distance(word, name), name)).filter(|&(edits, name)| edits <= name.len() / 2);
    near.min_by_key(|&(edits, _)| edits).map(|(_, name)| name)
}

/// Levenshtein's distance from `word` to a `name` of at most `MAX_NAME_BYTES` bytes, one row at a time; case is no edit.
fn distance(word: &str, name: &str) -> usize {
    let mut row: [usize; MAX_NAME_BYTES + 1] = core::array::from_fn(|i| i);
    for (i, a) in word.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in name.bytes().take(MAX_NAME_BYTES).enumerate() {
            let replace = diagonal + usize::from(!a.eq_ignore_ascii_case(&b));
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[name.len().min(MAX_NAME_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn distances_are_edits() {
        for (word, name, edits) in [("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("SED", "sed", 0)] {
            assert_eq!(distance(word, name), edits, "{word} {name}");
        }
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let names = ["spin", "park", "break-even"];
        assert_eq!(nearest("spni", &names), Some("spin"));
        assert_eq!(nearest("breakeven", &names), Some("break-even"));
        assert_eq!(nearest("interrupt", &names), None);
        assert_eq!(nearest("", &names), None);
    }

    #[test]
    fn an_error_says_what_is_accepted() {
        let unknown = ParseError::unknown("prak", &["park"], "park");
        assert_eq!(unknown.to_string(), "no such policy, did you mean `park`?; accepted: park");
        assert_eq!(ParseError::unknown("x", &["park"], "park").to_string(), "no such policy; accepted: park");
        assert_eq!(ParseError::arguments("too much", "park").to_string(), "too much; accepted: park");
        let removed = ParseError::removed("nap", "park", "park");
        assert_eq!(removed.to_string(), "`nap` was removed: write \"park\"; accepted: park");
    }
}
