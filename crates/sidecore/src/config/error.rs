//! What is wrong with a configuration, and what to write instead, in one line.

/// A name that is not known, with the nearest one that is.
pub(super) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let nearest = known.iter().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest:?}?"));
    format!("unknown {what} {name:?}{hint}")
}

/// The library names unknown keys and the expected ones in its message, each in backquotes.
pub(super) fn from_toml(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let inner = match names.split_first() {
        Some((name, known)) if message.starts_with("unknown field") => unknown("key", name, known.iter().copied()),
        _ => message.trim_end().replace('\n', " "),
    };
    format!("line {line}: {inner}")
}
