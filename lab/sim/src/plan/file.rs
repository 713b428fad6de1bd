//! Files of a plan: their text, and errors with its lines.

use super::PlanError;
use crate::names::unknown;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const MAX_BYTES: u64 = 1 << 20;

/// A plan, or a file that it includes.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl File {
    pub(super) fn load(path: &Path) -> Result<Self, PlanError> {
        let text = read_text(path, MAX_BYTES).map_err(|error| PlanError::in_file(path, None, error))?;
        Ok(Self { path: path.to_owned(), text })
    }

    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'_>>, PlanError> {
        DeTable::parse(&self.text).map_err(|error| self.unread(&error, ""))
    }

    pub(super) fn read<'a, T: Deserialize<'a>>(
        &self,
        value: Spanned<DeValue<'a>>,
        subject: &str,
    ) -> Result<T, PlanError> {
        T::deserialize(value.into_deserializer()).map_err(|error| self.unread(&error, subject))
    }

    /// Translates a TOML error into this module's words. `subject`: the table that may lack an entry.
    fn unread(&self, error: &toml::de::Error, subject: &str) -> PlanError {
        let message = error.message().lines().next().unwrap_or("no TOML");
        let mut names = message.split('`').skip(1).step_by(2);
        let name = names.next().unwrap_or_default();
        let message = match message.split_once(" `") {
            Some(("missing field", _)) => format!("{subject}has no `{name}`: add it"),
            Some(("unknown field", _)) => unknown("key", name, names).to_string(),
            Some(("unknown variant", _)) => unknown("origin", name, names).to_string(),
            _ if message == "duplicate key" => {
                let twice = error.span().and_then(|span| self.text.get(span)).unwrap_or_default();
                format!("{twice} stands here a second time: leave one out")
            }
            _ => message.to_owned(),
        };
        PlanError::in_file(&self.path, error.span().map(|span| self.line(span.start)), message)
    }

    pub(super) fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    pub(super) fn wrong<'a, T, E: Display + 'a>(&'a self, at: &'a Spanned<T>) -> impl Fn(E) -> PlanError + 'a {
        |message| PlanError::in_file(&self.path, Some(self.line(at.span().start)), message)
    }

    pub(super) fn error(&self, line: Option<usize>, message: impl Display) -> PlanError {
        PlanError::in_file(&self.path, line, message)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is no file")]
    NoFile,
    #[error("has {size} bytes, at most {most} are read")]
    TooLarge { size: u64, most: u64 },
    #[error("is no text in UTF-8")]
    NoText,
}

pub(crate) fn read_text(path: &Path, most: u64) -> Result<String, TextError> {
    let metadata = fs::metadata(path).map_err(TextError::Unreadable)?;
    match metadata.len() {
        _ if !metadata.is_file() => Err(TextError::NoFile),
        size if size > most => Err(TextError::TooLarge { size, most }),
        _ => String::from_utf8(fs::read(path).map_err(TextError::Unreadable)?).map_err(|_| TextError::NoText),
    }
}
