//! A section of the file that belongs to a service of another crate.

use super::error::ConfigError;
use super::{Config, in_file, names_socket, text_of, wrong};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use toml::Table;

/// The section of another service. A file with it is that service's file, and [`Config`] is what both services share.
pub trait Section: DeserializeOwned {
    /// Its name in the file.
    const NAME: &'static str;
    /// The service's socket where the file names none.
    const SOCKET: &'static str;

    /// Checks its values against the rest of the file. `written` has all keys of the file.
    ///
    /// # Errors
    /// Names the key and the remedy.
    fn check(&self, beside: &Config, written: &Table) -> Result<(), ConfigError>;
}

impl Config {
    /// As [`Config::read`], for a file that may have the section `S`.
    ///
    /// # Errors
    /// Names the file, the line, and the remedy.
    pub fn read_with<S: Section>(path: &Path, socket: PathBuf) -> Result<(Self, Option<S>), ConfigError> {
        let text = text_of(path).map_err(in_file(path))?;
        let (mut config, section) = Self::parse_with::<S>(&text).map_err(in_file(path))?;
        if section.is_none() && !names_socket(&text) {
            config.socket = socket;
        }
        Ok((config, section))
    }

    /// As [`Config::parse`], for a file that may have the section `S`.
    ///
    /// # Errors
    /// Names the line and the remedy.
    pub fn parse_with<S: Section>(text: &str) -> Result<(Self, Option<S>), ConfigError> {
        let (mut config, section): (Self, Option<S>) = wrong::read_with(text, S::NAME)?;
        if section.is_some() && !names_socket(text) {
            config.socket = S::SOCKET.into();
        }
        config.check()?;
        if let Some(section) = &section {
            section.check(&config, &toml::from_str(text).unwrap_or_default())?;
        }
        Ok((config, section))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigErrorKind;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Other {
        number: u8,
    }

    impl Section for Other {
        const NAME: &'static str = "other";
        const SOCKET: &'static str = "/other/socket";

        fn check(&self, beside: &Config, written: &Table) -> Result<(), ConfigError> {
            let kind = || ConfigErrorKind::Section(format!("{} sections", written.len()));
            if beside.sample_every == 1 { Err(kind().into()) } else { Ok(()) }
        }
    }

    fn error(text: &str) -> String {
        Config::parse_with::<Other>(text).expect_err(text).to_string()
    }

    #[test]
    fn a_section_is_read_beside_what_both_services_share() {
        let (config, other) = Config::parse_with::<Other>("socket_mode = '0600'\n[other]\nnumber = 7").unwrap();
        assert_eq!((config.socket_mode, other), (0o600, Some(Other { number: 7 })));
        assert_eq!(config.socket, PathBuf::from(Other::SOCKET));
        let (config, other) = Config::parse_with::<Other>("").unwrap();
        assert_eq!((config.socket, other), (Config::default().socket, None));
        let (config, _) = Config::parse_with::<Other>("socket = 'own'\n[other]").unwrap();
        assert_eq!(config.socket, PathBuf::from("own"));
    }

    #[test]
    fn what_is_wrong_in_a_section_names_line_and_key() {
        assert_eq!(
            error("\n[other]\nnumber = 'x'"),
            "line 3: other.number: write a whole number from 0 on, not the text \"x\""
        );
        assert_eq!(error("other = 7"), "line 1: other: write a section, not 7");
        assert_eq!(error("[other]\nnumbr = 7"), "line 2: unknown key \"numbr\"; did you mean \"number\"?");
        assert_eq!(error("[othr]"), "line 1: unknown key \"othr\"; did you mean \"other\"?");
        assert!(error("zzz = 1").ends_with("sandbox, other"), "{}", error("zzz = 1"));
        assert!(!error("[limits]\nzzz = 1").contains("other"), "a section of a file is no key of another section");
        assert_eq!(error("sample_every = 1\n[other]"), "2 sections");
    }
}
