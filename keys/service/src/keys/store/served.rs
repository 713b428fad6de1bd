//! Requests of other services on keys here, by [channels](crate::channel).

use super::{Key, Store};
use crate::channel::{Asked, Grant, Limited, Page, ServeError};
use crate::keys::error::StoreError;
use crate::keys::sealed::{Transfer, TransferError};
use aws_lc_rs::digest::{SHA256, digest};
use sidecore_client::keys::Site;
use sidecore_client::keys::transfer::Address;
use sidecore_core::time::Nanos;

/// Bytes of a page of keys: a gateway's message holds it.
const PAGE: usize = 6 * 1024;

impl Store {
    /// Its address, for those who carry messages to it.
    pub(crate) fn serving_address(&self) -> Result<Address, StoreError> {
        if self.serving.is_empty() {
            return Err(ServeError::Nobody.into());
        }
        self.address()
    }

    /// The service's own key pair, and the services that do requests for this one. `None`: no such service is named.
    pub(crate) fn far_services(&self) -> Result<Option<(Transfer, Vec<Address>)>, StoreError> {
        let far = &self.partners.far;
        if far.is_empty() { Ok(None) } else { Ok(Some((self.transfer()?.clone(), far.clone()))) }
    }

    /// Answers another service. Its address comes with the answer to a set-up.
    pub(crate) fn serve(&mut self, message: &[u8], now: Nanos) -> Result<(Vec<u8>, Option<Address>), StoreError> {
        let own = self.transfer()?.clone();
        let Self { serving, keys, .. } = self;
        let page = |after: &str, is_named: &dyn Fn(&str) -> bool| {
            let mut page = Page::default();
            let mut room = PAGE;
            for (name, key) in
                keys.iter().filter(|(name, key)| name.as_str() > after && key.may_be_served() && is_named(name))
            {
                let Some(left) = room.checked_sub(8 + name.len() + key.material.public.len()) else {
                    page.more = true;
                    break;
                };
                room = left;
                page.keys.push((name.clone(), key.material.public.clone()));
            }
            page
        };
        Ok(serving.answer(&own, message, now, page)?)
    }

    /// The key, scheme and right that an opening of another service asks for.
    pub(crate) fn served(&self, opening: &[u8]) -> Result<Asked, StoreError> {
        let asked = self.serving.asked(opening)?;
        let public = self.keys.get(&asked.key).map(|key| &key.material.public);
        if public.is_some_and(|public| digest(&SHA256, public).as_ref() != asked.public) {
            return Err(ServeError::AnotherKey(asked.key).into());
        }
        Ok(asked)
    }

    /// To be called every second. Returns refusals for the limits of other services, for the log.
    pub(crate) fn look_at_channels(&mut self, now: Nanos) -> Vec<Limited> {
        self.serving.expire(now);
        self.serving.take_limited()
    }
}

impl Key {
    pub(super) fn check_served(&self, name: &str, grant: &Grant) -> Result<(), StoreError> {
        if !grant.permits(name) {
            let (address, usage) = (grant.address(), grant.usage());
            return Err(ServeError::NotPermitted { address, key: name.to_owned(), usage }.into());
        }
        if self.material.site == Site::Elsewhere {
            return Err(TransferError::NotHere(name.to_owned()).into());
        }
        match self.attributes.owner {
            Some(owner) => Err(TransferError::Owned { name: name.to_owned(), owner }.into()),
            None => Ok(()),
        }
    }

    fn may_be_served(&self) -> bool {
        self.material.site != Site::Elsewhere && self.attributes.owner.is_none()
    }
}
