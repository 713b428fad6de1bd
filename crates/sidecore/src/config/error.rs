//! What is wrong with a configuration, and what to write instead.

use std::fmt;
use std::path::Path;

/// One line: where, what, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self(format!("cannot read {}: {error}", path.display()))
    }

    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self(format!("{}: {}", path.display(), self.0))
    }

    /// A name that is not known, with the nearest one that is.
    pub(crate) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.collect();
        let nearest =
            known.iter().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
        let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest:?}?"));
        Self(format!("unknown {what} {name:?}{hint}"))
    }

    /// The library names unknown keys and the expected ones in its message, each in backquotes.
    pub(crate) fn from_toml(error: &toml::de::Error, text: &str) -> Self {
        let message = error.message();
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let inner = match names.split_first() {
            Some((name, known)) if message.starts_with("unknown field") => {
                Self::unknown("key", name, known.iter().copied()).0
            }
            _ => message.trim_end().replace('\n', " "),
        };
        Self(format!("line {line}: {inner}"))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}
