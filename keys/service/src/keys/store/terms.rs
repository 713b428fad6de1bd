//! Terms of a key: its usage, the limit of its requests, and its certificates.

use super::{Changed, Store, unknown};
use crate::keys::attributes::Attributes;
use crate::keys::certificate::{check_chain, check_dates};
use crate::keys::error::StoreError;
use crate::keys::limiter::Limiter;
use sidecore_client::keys::{Kind, MAX_ID, MAX_RATE, Moment, Terms, Usage};
use sidecore_daemon::sys::peer::Asker;
use std::sync::Arc;

/// Divisor of the number of places for keys: this part of them is not for creators.
const RESERVED: usize = 8;

impl Store {
    /// Sets the operations that a key may do. Returns its place, whose sessions for others are to be closed.
    pub(crate) fn set_usage(&mut self, name: &str, usage: Usage) -> Result<Changed<u16>, StoreError> {
        let kind = self.keys.get(name).ok_or_else(|| unknown(name))?.material.kind;
        let usage = usage_of(kind, usage)?;
        self.alter(name, |attributes| attributes.usage = usage)
    }

    /// Attributes of a new key with these terms.
    pub(crate) fn with_terms(attributes: Attributes, kind: Kind, terms: Terms) -> Result<Attributes, StoreError> {
        let Terms { usage, id } = terms;
        if id.len() > MAX_ID {
            return Err(StoreError::Identifier);
        }
        let usage = if usage == Usage::ALL { usage } else { usage_of(kind, usage)? };
        Ok(Attributes { usage, id, ..attributes })
    }

    pub(crate) fn set_rate(&mut self, name: &str, rate: Option<u32>) -> Result<Changed<u16>, StoreError> {
        if rate.is_some_and(|rate| !(1..=MAX_RATE).contains(&rate)) {
            return Err(StoreError::Rate);
        }
        let changed = self.alter(name, |attributes| attributes.rate = rate)?;
        if let Some(key) = self.keys.get(name) {
            key.limiter.set(rate);
        }
        Ok(changed)
    }

    /// Gives a key the limiter that sessions on it have already, from the time before it was stored.
    pub(crate) fn take_limiter(&mut self, name: &str, limiter: Arc<Limiter>) {
        if let Some(key) = self.keys.get_mut(name) {
            limiter.set(key.attributes.rate);
            key.limiter = limiter;
        }
    }

    /// Replaces a key's certificates. No certificates: removes them. Without `now` their dates may be any.
    pub(crate) fn set_certificates(
        &mut self,
        name: &str,
        certificates: Vec<Vec<u8>>,
        now: Option<Moment>,
    ) -> Result<Changed<u16>, StoreError> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        if let [leaf, ..] = &certificates[..] {
            check_chain(&certificates, &key.material.public)?;
            if let Some(now) = now {
                check_dates(leaf, key.attributes.certificates.first().map(Vec::as_slice), now)?;
            }
        }
        self.alter(name, |attributes| attributes.certificates = certificates)
    }

    /// The user who had the key made for itself.
    pub(crate) fn owner(&self, name: &str) -> Option<u32> {
        self.keys.get(name)?.attributes.owner
    }

    /// Number of keys that this user had made for itself.
    /// The owner of each key that has one.
    pub(crate) fn owners(&self) -> impl Iterator<Item = u32> {
        self.keys.values().filter_map(|key| key.attributes.owner)
    }

    /// Number of places for keys that creators leave free, and whether more are free.
    pub(crate) fn reserve(&self) -> (usize, bool) {
        let reserve = self.places.len().div_ceil(RESERVED);
        (reserve, self.places.iter().filter(|place| place.is_none()).count() > reserve)
    }

    pub(crate) fn certificate(&self, name: &str, index: u8, asker: &Asker) -> Result<Vec<u8>, StoreError> {
        let certificates = &self.usable(name, asker)?.attributes.certificates;
        let found = certificates.get(usize::from(index)).cloned();
        found.ok_or_else(|| StoreError::NoCertificate { name: name.to_owned(), count: certificates.len() })
    }
}

/// The usage as it is stored for a key of this kind.
fn usage_of(kind: Kind, usage: Usage) -> Result<Usage, StoreError> {
    if usage.both(Usage::ALL) == Usage::NONE || !Usage::KNOWN.contains(usage) {
        return Err(StoreError::UnknownUsage);
    }
    let more = usage.without(Usage::settable(kind));
    if more != Usage::NONE {
        return Err(StoreError::NoSuchUsage { kind, more });
    }
    // Without a restriction, a replacement of another kind has none either.
    let is_unrestricted = usage.both(Usage::ALL) == Usage::of_kind(kind);
    Ok(if is_unrestricted { usage.with(Usage::ALL) } else { usage })
}
