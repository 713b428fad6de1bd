//! Errors of the TOML library in an operator's words: line, key and remedy.

use super::error::{ConfigError, ConfigErrorKind, unknown};
use serde::de::DeserializeOwned;
use toml::Deserializer;

/// Reads a text in TOML. `foreign` has keys that this service does not have, by
/// name or with their sections, each with the words that say why.
///
/// # Errors
/// Names the line, the key and the remedy.
pub fn read<T: DeserializeOwned>(text: &str, foreign: &[(&str, &'static str)]) -> Result<T, ConfigError> {
    let deserializer = Deserializer::parse(text).map_err(|error| in_words("", &error, text, foreign))?;
    serde_path_to_error::deserialize(deserializer)
        .map_err(|error| in_words(&error.path().to_string(), error.inner(), text, foreign))
}

fn in_words(key: &str, error: &toml::de::Error, text: &str, foreign: &[(&str, &'static str)]) -> ConfigError {
    let span = error.span().unwrap_or_default();
    let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
    let error = if error.message() == "duplicate key" {
        ConfigErrorKind::Twice(text.get(span).unwrap_or_default().to_owned()).into()
    } else {
        at_key(key, error.message(), foreign)
    };
    ConfigError { line: Some(line), ..error }
}

/// Rewords the library's message, which names Rust types and puts names in backquotes.
fn at_key(key: &str, message: &str, foreign: &[(&str, &'static str)]) -> ConfigError {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    // The library writes `.` for a text without a key.
    let at = |kind: ConfigErrorKind| if matches!(key, "" | ".") { kind.into() } else { kind.at(key) };
    if let Some((name, known)) = names.split_first() {
        if message.starts_with("unknown field") {
            if let Some((known, why)) = foreign.iter().find(|(known, _)| known == name || *known == key) {
                return ConfigErrorKind::Foreign((*known).to_owned(), why).into();
            }
            return unknown("key", name, known.iter().copied()).into();
        }
        if message.starts_with("unknown variant") {
            return at(unknown("value", name, known.iter().copied()));
        }
        if message.starts_with("missing field") {
            return at(ConfigErrorKind::Missing((*name).to_owned()));
        }
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = mismatch.and_then(|what| what.trim_end().split_once(", expected ")) {
        return at(ConfigErrorKind::Mismatch { expected: wanted(expected).to_owned(), found: given(found) });
    }
    at(ConfigErrorKind::Invalid(message.trim_end().replace('\n', " ")))
}

fn wanted(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list, e.g. [1, 2]",
        "a string" | "a borrowed string" => "a text in quotes",
        "a boolean" => "true or false",
        "path string" => "a path in quotes",
        section if section.starts_with("struct ") || section == "a map" => "a section",
        other => other,
    }
}

fn given(found: &str) -> String {
    match found.split_once(' ') {
        Some(("string", text)) => format!("the text {text}"),
        Some(("integer" | "boolean", value)) => value.trim_matches('`').to_owned(),
        _ if found.starts_with("floating point ") => found["floating point ".len()..].trim_matches('`').to_owned(),
        _ if found == "sequence" => "a list".to_owned(),
        _ if found == "map" => "a section".to_owned(),
        _ => found.to_owned(),
    }
}
