//! Errors of the TOML library in an operator's words: line, key and remedy.

use super::error::{ConfigError, ConfigErrorKind, unknown};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use toml::de::DeTable;
use toml::{Deserializer, Spanned};

/// Keys of earlier versions, and why they are gone.
const REMOVED: [(&str, &str); 2] = [
    ("disturb", "no setting makes a service that holds keys compute wrong results"),
    ("slow_after", "no setting makes a device slower as a drill"),
];

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    let deserializer = Deserializer::parse(text).map_err(|error| in_words("", &error, text, None))?;
    deserialize(deserializer, text, None)
}

/// Reads TOML, and this section of it as something else.
pub(super) fn read_with<T, S>(text: &str, section: &str) -> Result<(T, Option<S>), ConfigError>
where
    T: DeserializeOwned,
    S: DeserializeOwned,
{
    let mut file = DeTable::parse(text).map_err(|error| in_words("", &error, text, None))?;
    let own: DeTable<'_> = file.get_mut().remove_entry(section).into_iter().collect();
    let own = Spanned::new(file.span(), own);
    let rest = deserialize(file.into(), text, Some(section))?;
    let mut own: BTreeMap<String, S> = deserialize(own.into(), text, None)?;
    Ok((rest, own.remove(section)))
}

fn deserialize<T: DeserializeOwned>(
    from: Deserializer<'_>,
    text: &str,
    beside: Option<&str>,
) -> Result<T, ConfigError> {
    serde_path_to_error::deserialize(from)
        .map_err(|error| in_words(&error.path().to_string(), error.inner(), text, beside))
}

fn in_words(key: &str, error: &toml::de::Error, text: &str, beside: Option<&str>) -> ConfigError {
    let span = error.span().unwrap_or_default();
    let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
    let error = if error.message() == "duplicate key" {
        ConfigErrorKind::Twice(text.get(span).unwrap_or_default().to_owned()).into()
    } else {
        at_key(key, error.message(), beside)
    };
    ConfigError { line: Some(line), ..error }
}

/// Rewords the library's message, which names Rust types and puts names in backquotes.
fn at_key(key: &str, message: &str, beside: Option<&str>) -> ConfigError {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    // The library writes `.` for a text without a key.
    let at = |kind: ConfigErrorKind| if matches!(key, "" | ".") { kind.into() } else { kind.at(key) };
    if let Some((name, known)) = names.split_first() {
        if message.starts_with("unknown field") {
            if let Some((_, why)) = REMOVED.iter().find(|(removed, _)| removed == name) {
                return ConfigErrorKind::Removed((*name).to_owned(), why).into();
            }
            // A key of the file itself has no path.
            let beside = beside.filter(|_| key == *name);
            return unknown("key", name, known.iter().copied().chain(beside)).into();
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

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn what_is_wrong_names_line_and_key_and_no_type_of_rust() {
        for (text, said) in [
            ("sidecores = { cpus = 'x' }", "line 1: sidecores.cpus: write a list, e.g. [1, 2], not the text \"x\""),
            (
                "\n[limits]\nlanes = 'many'",
                "line 3: limits.lanes: write a whole number from 0 on, not the text \"many\"",
            ),
            ("sample_every = -1", "line 1: sample_every: write a whole number from 0 on, not -1"),
            ("sample_every = 1.5", "line 1: sample_every: write a whole number from 0 on, not 1.5"),
            ("socket = 7", "line 1: socket: write a path in quotes, not 7"),
            ("limits = 7", "line 1: limits: write a section, not 7"),
            ("notify = { service = 'spinn' }", "line 1: notify.service: no such policy, did you mean `spin`?"),
            (
                "[[device]]\nname = 'w'\nkind = 'workr'",
                "line 3: device[0].kind: unknown value \"workr\"; did you mean \"worker\"?",
            ),
            ("[limits]\nlans = 1", "line 2: unknown key \"lans\"; did you mean \"lanes\"?"),
            (
                "[[device]]\nname = 'lanes'\nkind = 'batch'\ndisturb = 100",
                "line 4: disturb is gone: no setting makes a service that holds keys compute wrong results; leave it out",
            ),
            (
                "[[device]]\nname = 'card'\nkind = 'emulated'\nslow_after = 0",
                "line 4: slow_after is gone: no setting makes a device slower as a drill; leave it out",
            ),
            ("[limits", "line 1: "),
        ] {
            let found = Config::parse(text).unwrap_err().to_string();
            assert!(found.starts_with(said), "{text}: {found}");
            let types = ["usize", "u32", "u64", "i64", "struct", "sequence", "Notify"];
            assert!(!types.iter().any(|name| found.contains(name)), "{found}");
        }
    }
}
