//! The keys of a file of vectors, as the program holds them.

use crate::site::{PREFERRED, Site};
use crate::stanza::{Stanza, bytes};
use pkcs8::der::SecretDocument;
use sidecore::engine::crypto::Secret;
use sidecore::keys::read_private_key;
use sidecore_libcrypto::{Context, Failure, Half, Key};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHolder {
    Program,
    Store,
}

impl fmt::Display for KeyHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "imported",
            Self::Store => "stored",
        })
    }
}

pub(crate) type Entry = Result<Key, Failure>;

#[derive(Default)]
pub(crate) struct Keys {
    private: BTreeMap<String, Entry>,
    public: BTreeMap<String, Entry>,
}

impl Keys {
    pub(crate) fn private(&self, name: &str) -> Option<&Entry> {
        self.private.get(name)
    }

    pub(crate) fn any(&self, name: &str) -> Option<&Entry> {
        self.public.get(name).or_else(|| self.private.get(name))
    }

    pub(crate) fn define(&mut self, site: &Site, place: KeyHolder, stanza: &Stanza) -> bool {
        let (what, value) = stanza.first();
        let name = value.split(':').next().unwrap_or_default().to_owned();
        let context = &site.context;
        let (half, key) = match (what, place) {
            ("PrivateKey", KeyHolder::Program) => {
                (Half::Private, Key::from_pem(context, Half::Private, &stanza.pem, PREFERRED))
            }
            ("PrivateKey", KeyHolder::Store) => {
                let uri = store(site, &name, &stanza.pem);
                (Half::Private, uri.and_then(|uri| Key::stored(context, &uri, PREFERRED)))
            }
            ("PublicKey", _) => (Half::Public, Key::from_pem(context, Half::Public, &stanza.pem, PREFERRED)),
            // The store takes PKCS#8 only.
            ("PrivateKeyRaw", _) => (Half::Private, raw(context, Half::Private, value)),
            ("PublicKeyRaw", _) => (Half::Public, raw(context, Half::Public, value)),
            _ => return false,
        };
        let keys = if half == Half::Private { &mut self.private } else { &mut self.public };
        keys.insert(name, key);
        true
    }
}

fn raw(context: &Context, half: Half, value: &str) -> Entry {
    let mut parts = value.split(':').skip(1);
    let (kind, key) = (parts.next().expect("a type"), bytes(parts.next().expect("a key")));
    Key::from_raw(context, half, (kind, &key), PREFERRED)
}

fn store(site: &Site, name: &str, pem: &str) -> Result<String, Failure> {
    let told = |error: &dyn fmt::Display| Failure::new("the key", error.to_string());
    let (label, document) = SecretDocument::from_pem(pem).map_err(|error| told(&error))?;
    let pkcs8 = match label {
        "PRIVATE KEY" => Secret::from(document.as_bytes()),
        _ => read_private_key(pem.as_bytes(), None).map_err(|error| told(&error))?,
    };
    site.store(name, pkcs8).map_err(|error| told(&error))
}
