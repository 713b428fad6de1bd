//! Errors in a configuration.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error in a configuration. Its text is one line: file, line, key and remedy.
#[derive(Debug)]
pub struct ConfigError {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// Number of the line, from 1, if one line is wrong.
    pub line: Option<usize>,
    /// The key, with its sections, if one key is wrong and known.
    pub key: Option<String>,
    /// The error and its remedy.
    pub kind: Box<ConfigErrorKind>,
}

/// The error at a key of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigErrorKind {
    /// The file cannot be read.
    #[error("{0}; name a TOML file, as examples/sidecore.toml is")]
    Unreadable(io::Error),
    /// The file is too large.
    #[error("it has more than 1 MiB, as no configuration has; name a TOML file")]
    TooLarge,
    /// The file is no text.
    #[error("it is no text in UTF-8; name a TOML file")]
    NoText,
    /// A key stands there a second time.
    #[error("{0} stands here a second time: leave one out")]
    Twice(String),
    /// A name that does not exist.
    #[error("unknown {what} {name:?}{hint}")]
    Unknown {
        /// Kind of the name.
        what: &'static str,
        /// The name.
        name: String,
        /// Known names.
        hint: Hint,
    },
    /// A key that this service does not have, for a reason: earlier versions had it, or another service has it.
    #[error("{0} {1}")]
    Foreign(String, &'static str),
    /// A key that must be there is missing.
    #[error("{0} is missing: write {0} = …")]
    Missing(String),
    /// A value of another type.
    #[error("write {expected}, not {found}")]
    Mismatch {
        /// The expected type, in words.
        expected: String,
        /// The value that stands there.
        found: String,
    },
    /// No TOML, or a value that its own parser refuses: the parser's text.
    #[error("{0}")]
    Invalid(String),
    /// A number outside its range.
    #[error("use {least} to {most}")]
    OutOfRange {
        /// The number.
        value: u64,
        /// Least permitted number.
        least: u64,
        /// Most permitted number.
        most: u64,
    },
    /// A path is empty.
    #[error("the path is empty: name one, or leave the key out")]
    EmptyPath,
    /// The service would serve as root.
    #[error("name an unprivileged user, or leave it out to stay who starts the service")]
    Privileged,
    /// A list is too long.
    #[error("at most {0}")]
    TooMany(usize),
    /// No core can be owned.
    #[error("sidecores.owned = true without sidecores.cpus: name the cores that are theirs alone, e.g. cpus = [1]")]
    NothingOwned,
    /// An error of a service's own part of the file.
    #[error("{0}")]
    Own(Box<dyn std::error::Error + Send + Sync>),
}

/// Known names, for an unknown one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The most similar one.
    Nearest(String),
    /// All of them.
    All(Vec<String>),
    /// Too many to list.
    Documented,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConfigErrorKind::{NoText, OutOfRange, TooLarge, Unreadable};
        if let Some(file) = &self.file {
            let unread = matches!(*self.kind, Unreadable(_) | TooLarge | NoText);
            write!(f, "{}{}: ", if unread { "cannot read " } else { "" }, file.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match (&self.key, &*self.kind) {
            (Some(key), OutOfRange { value, .. }) => write!(f, "{key} = {value}: ")?,
            (Some(key), _) => write!(f, "{key}: ")?,
            (None, _) => {}
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigErrorKind> for ConfigError {
    fn from(kind: ConfigErrorKind) -> Self {
        Self { file: None, line: None, key: None, kind: Box::new(kind) }
    }
}

impl ConfigError {
    /// An error of a service's own part of the file.
    pub fn own(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        ConfigErrorKind::Own(Box::new(error)).into()
    }
}

impl ConfigErrorKind {
    /// The error at this key, which is written with its sections.
    pub fn at(self, key: impl Into<String>) -> ConfigError {
        ConfigError { key: Some(key.into()), ..self.into() }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest(name) => write!(f, "; did you mean {name:?}?"),
            Self::All(names) => write!(f, "; there are {}", names.join(", ")),
            Self::Documented => f.write_str("; see docs/configuration.md for what there is"),
        }
    }
}

/// Least similarity, 0 to 1, of a suggested name, and most names that are listed without one.
const ALIKE: f64 = 0.7;
const FEW: usize = 20;

/// An unknown name, with those that are known.
pub fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> ConfigErrorKind {
    let known: Vec<&str> = known.collect();
    let alike = |known: &str| strsim::jaro_winkler(known, name);
    let nearest = known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    let hint = match nearest {
        Some(nearest) if alike(nearest) >= ALIKE => Hint::Nearest((*nearest).to_owned()),
        _ if known.len() <= FEW => Hint::All(known.into_iter().map(str::to_owned).collect()),
        _ => Hint::Documented,
    };
    ConfigErrorKind::Unknown { what, name: name.to_owned(), hint }
}

/// Checks a number against its limits.
///
/// # Errors
/// It is outside of them.
pub fn within<N: Into<u64>>(key: &str, value: N, least: N, most: N) -> Result<(), ConfigError> {
    let (value, least, most): (u64, u64, u64) = (value.into(), least.into(), most.into());
    require((least..=most).contains(&value), || ConfigErrorKind::OutOfRange { value, least, most }.at(key))
}

/// Checks a condition.
///
/// # Errors
/// This error, if it does not hold.
pub fn require<E: Into<ConfigError>>(is_fine: bool, error: impl FnOnce() -> E) -> Result<(), ConfigError> {
    if is_fine { Ok(()) } else { Err(error().into()) }
}
