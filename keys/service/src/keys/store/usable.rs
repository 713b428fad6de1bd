//! The list of keys that a user may use, with a revision.

use super::{Key, PAGE, Store};
use sidecore_client::keys::UsableKey;
use sidecore_daemon::sys::peer::Asker;
use std::hash::{BuildHasher, Hash, Hasher};

/// A page of a user's list.
#[derive(Debug)]
pub(crate) struct UsablePage {
    pub(crate) revision: u64,
    pub(crate) keys: Vec<UsableKey>,
    /// There are more.
    pub(crate) more: bool,
}

impl Store {
    /// The keys after this name that the asker may use. `None`: nothing of the asker's list has changed since the
    /// revision `known`.
    pub(crate) fn usable_after(&self, after: &str, known: Option<u64>, asker: &Asker) -> Option<UsablePage> {
        let revision = self.revision(asker);
        if known == Some(revision) {
            return None;
        }
        let mut page = UsablePage { revision, keys: Vec::new(), more: false };
        let mut room = PAGE;
        for (name, key) in self.usable_keys(asker).filter(|(name, _)| *name > after) {
            let entry = key.usable_entry(name);
            // Besides names and public part: lengths, and numbers of one to five bytes.
            let size = 32 + entry.name.len() + entry.public.len();
            let Some(left) = room.checked_sub(size) else {
                page.more = true;
                break;
            };
            room = left;
            page.keys.push(entry);
        }
        Some(page)
    }

    /// Identifiers of keys after this name that the asker may use, and that have one.
    pub(crate) fn identifiers_after(&self, after: &str, asker: &Asker) -> Vec<(String, Vec<u8>)> {
        let mut room = PAGE;
        let with_id = self.usable_keys(asker).filter(|(name, key)| *name > after && !key.attributes.id.is_empty());
        let fits = with_id.map(|(name, key)| (name.to_owned(), key.attributes.id.clone())).take_while(|(name, id)| {
            room.checked_sub(8 + name.len() + id.len()).is_some_and(|left| {
                room = left;
                true
            })
        });
        fits.collect()
    }

    /// Of the keys that the asker may use, and of no others: it does not show changes of other users' keys.
    fn revision(&self, asker: &Asker) -> u64 {
        let mut hasher = self.revisions.build_hasher();
        for (name, key) in self.usable_keys(asker) {
            (name, key.changed).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn usable_keys(&self, asker: &Asker) -> impl Iterator<Item = (&str, &Key)> {
        let usable = move |name: &str| self.usable(name, asker).is_ok();
        self.keys.iter().map(|(name, key)| (name.as_str(), key)).filter(move |(name, _)| usable(name))
    }
}

impl Key {
    fn usable_entry(&self, name: &str) -> UsableKey {
        UsableKey {
            name: name.to_owned(),
            kind: self.material.kind,
            public: self.material.public.clone(),
            usage: self.usage(),
            site: self.material.site,
            // At most four, by their check.
            certificates: self.attributes.certificates.len() as u8,
            rate: self.attributes.rate,
            owner: self.attributes.owner,
        }
    }
}
