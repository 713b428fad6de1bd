//! The stanzas of a file of vectors: lines `name = value`, perhaps followed by PEM, up to an empty line.

#[derive(Clone, Debug, Default)]
pub(crate) struct Stanza {
    pub(crate) line: usize,
    lines: Vec<(String, String)>,
    /// Includes the first and last line; empty: no PEM.
    pub(crate) pem: String,
}

impl Stanza {
    pub(crate) fn first(&self) -> (&str, &str) {
        self.lines.first().map_or(("", ""), |(name, value)| (name, value))
    }

    pub(crate) fn rest(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().skip(1).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.rest().filter(move |(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.rest().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        self.get(name).map(bytes).unwrap_or_default()
    }
}

pub(crate) fn stanzas(text: &str) -> Vec<Stanza> {
    let mut all = Vec::new();
    let mut stanza = Stanza::default();
    for (number, line) in text.lines().chain([""]).enumerate() {
        if line.is_empty() && !stanza.lines.is_empty() {
            all.push(std::mem::take(&mut stanza));
        } else if let Some((name, value)) = line.split_once(" =").filter(|_| !line.starts_with('#')) {
            if stanza.lines.is_empty() {
                stanza.line = number + 1;
            }
            stanza.lines.push((name.to_owned(), value.trim().to_owned()));
        } else if !line.is_empty() && !line.starts_with('#') {
            stanza.pem.push_str(line);
            stanza.pem.push('\n');
        }
    }
    all
}

/// Hexadecimal, or a text in quotation marks.
pub(crate) fn bytes(value: &str) -> Vec<u8> {
    if let Some(text) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return text.replace("\\n", "\n").into_bytes();
    }
    assert!(value.len().is_multiple_of(2), "{value}");
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).expect("hexadecimal");
    value.as_bytes().chunks(2).map(byte).collect()
}
