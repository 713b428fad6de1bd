//! The stanzas of OpenSSL's test data: lines `name = value`, perhaps followed by PEM, up to an empty line.

#[derive(Clone, Debug)]
pub(super) struct Stanza {
    pub(super) lines: Vec<(String, String)>,
    /// With its first and last line; empty without PEM.
    pem: String,
}

const OF_FIPS: [&str; 2] = ["Securitycheck", "Unapproved"];
const LEFT_OUT: [&str; 3] = ["Title", "FIPSversion", "Availablein"];

impl Stanza {
    pub(super) fn first(&self) -> (&str, &str) {
        self.lines.first().map_or(("", ""), |(name, value)| (name, value))
    }

    /// Whether it tests the FIPS module, or a provider that is not available.
    pub(super) fn of_fips(&self) -> bool {
        let elsewhere = |value: &str| !value.split_whitespace().any(|provider| provider == "default");
        self.lines
            .iter()
            .any(|(name, value)| OF_FIPS.contains(&name.as_str()) || name == "Availablein" && elsewhere(value))
    }

    pub(super) fn plain(mut self) -> Self {
        self.lines.retain(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
        self
    }

    pub(super) fn defines(&self) -> Option<String> {
        let (name, value) = self.first();
        let key = ["PrivateKey", "PublicKey", "PrivateKeyRaw", "PublicKeyRaw", "ParamKey"].contains(&name);
        key.then(|| value.split(':').next().unwrap_or_default().to_owned())
    }

    pub(super) fn is_of(&self, types: &[&str]) -> bool {
        let kind = self.first().1.split(':').nth(1);
        kind.is_some_and(|kind| types.contains(&kind))
    }

    pub(super) fn uses(&self) -> Vec<String> {
        let (name, value) = self.first();
        let first = match name {
            "PrivPubKeyPair" => value.split(':').collect(),
            "Sign" | "Verify" | "VerifyRecover" | "Decrypt" | "Derive" => vec![value],
            _ => Vec::new(),
        };
        let others = self.lines.iter().filter(|(name, _)| matches!(name.as_str(), "Key" | "PeerKey"));
        first.into_iter().chain(others.map(|(_, value)| value.as_str())).map(str::to_owned).collect()
    }

    pub(super) fn text(&self) -> String {
        let line = |(name, value): &(String, String)| format!("{name} = {value}").trim_end().to_owned() + "\n";
        self.lines.iter().map(line).chain([self.pem.clone()]).collect()
    }
}

pub(super) fn stanzas(text: &str) -> Vec<Stanza> {
    let mut all = Vec::new();
    let mut stanza = Stanza { lines: Vec::new(), pem: String::new() };
    let mut inside = false;
    for line in text.lines().chain([""]) {
        let ends = line.starts_with("-----END");
        inside |= line.starts_with("-----BEGIN");
        if inside {
            stanza.pem.push_str(line);
            stanza.pem.push('\n');
            inside = !ends;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            stanza.lines.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        if (ends || line.trim().is_empty() && !inside) && !stanza.lines.is_empty() {
            all.push(std::mem::replace(&mut stanza, Stanza { lines: Vec::new(), pem: String::new() }));
        }
    }
    all
}
