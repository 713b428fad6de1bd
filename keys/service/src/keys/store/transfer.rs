//! Keys that go to another service, and keys that come from one.

use super::{Changed, Rest, Store, check_acl, unknown};
use crate::keys::attributes::Attributes;
use crate::keys::certificate::check_chain;
use crate::keys::error::StoreError;
use crate::keys::lineage::{Age, Lineage};
use crate::keys::material::Material;
use crate::keys::sealed::{Contents, Opened, Receipts, Transfer, TransferError};
use sidecore_client::keys::transfer::{AclNames, Address, Receipt, Replace};
use sidecore_client::keys::{MAX_RATE, Site, Usage, check_name};
use sidecore_core::custody::Seal;

/// A key that was sealed, until its receipt comes.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) to: Address,
    /// Number of the key's last change.
    changed: u64,
    seal: Seal,
    receipts: Receipts,
}

/// Difference of a received key to the one of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arriving {
    New,
    Same,
    /// The same key with other attributes.
    OtherTerms,
    OtherKey,
}

impl Store {
    pub(crate) fn address(&self) -> Result<Address, StoreError> {
        Ok(self.transfer()?.address)
    }

    /// `None`: with `if_changed`, there is a receipt for the key as it is now.
    pub(crate) fn seal(
        &mut self,
        name: &str,
        to: Address,
        if_changed: bool,
        names: AclNames,
        now_ms: u64,
    ) -> Result<Option<(Vec<u8>, Sent)>, StoreError> {
        let transfer = self.transfer()?;
        if to == transfer.address {
            // A receipt from here would let the only copy be deleted.
            return Err(TransferError::Itself.into());
        }
        if !self.partners.recipients.contains(&to) {
            return Err(TransferError::NotRecipient.into());
        }
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        if if_changed && key.confirmed.contains(&(to, key.changed)) {
            return Ok(None);
        }
        if key.material.site == Site::Elsewhere {
            return Err(TransferError::NotHere(name.to_owned()).into());
        }
        if let Some(owner) = key.attributes.owner {
            return Err(TransferError::Owned { name: name.to_owned(), owner }.into());
        }
        let names = names.of(&key.attributes.acl);
        let parcel = Contents { name, lineage: key.lineage(), names, attributes: &key.attributes };
        let (sealed, receipts) = transfer.seal(to, now_ms, &parcel, key.material.private())?;
        let sent = Sent { to, changed: key.changed, seal: key.custody.seal(), receipts };
        Ok(Some((sealed, sent)))
    }

    /// Checks a receipt. With `delete` the caller deletes the key next.
    pub(crate) fn confirm(
        &mut self,
        name: &str,
        sent: &Sent,
        receipt: &Receipt,
        delete: bool,
    ) -> Result<(), StoreError> {
        let own_at_rest = self.is_at_rest();
        let key = self.keys.get_mut(name).ok_or_else(|| unknown(name))?;
        let name = || name.to_owned();
        let at_rest_there = sent.receipts.is_at_rest(receipt).ok_or_else(|| TransferError::WrongReceipt(name()))?;
        if delete && own_at_rest && !at_rest_there {
            return Err(TransferError::InMemory(name()).into());
        }
        if key.changed != sent.changed {
            return if delete { Err(TransferError::ChangedSince(name()).into()) } else { Ok(()) };
        }
        if delete && !key.custody.may_delete(sent.seal) {
            return Err(TransferError::Promised(name()).into());
        }
        key.confirmed.retain(|(to, _)| *to != sent.to);
        key.confirmed.push((sent.to, sent.changed));
        Ok(())
    }

    pub(crate) fn open_sealed(&self, sealed: &[u8], now_ms: u64) -> Result<Opened, StoreError> {
        let opened = self.transfer()?.open(sealed, &self.partners.senders, now_ms)?;
        check_name(&opened.name)?;
        Ok(opened)
    }

    /// Checks a received key against the one of its name. Its attributes come with the lineage of the sender, and return
    /// with that which the key has here if it is stored.
    pub(crate) fn arriving(
        &self,
        name: &str,
        material: &Material,
        attributes: &mut Attributes,
        replace: Replace,
    ) -> Result<Arriving, StoreError> {
        check_attributes(material, attributes)?;
        let Some(key) = self.keys.get(name) else { return Ok(Arriving::New) };
        let own = key.lineage();
        let theirs = attributes.lineage.clone().unwrap_or_default();
        let age = own.age_of(&theirs);
        let is_same_key = key.material.site != Site::Elsewhere && key.material.public == material.public;
        if is_same_key && key.attributes.as_sent() == attributes.as_sent() {
            attributes.lineage = Some(own.joined(theirs));
            return Ok(Arriving::Same);
        }
        self.check_replaceable(name)?;
        match (age, replace) {
            (_, Replace::Always) | (Age::Same | Age::Newer, _) => {}
            (Age::Older, _) => return Err(TransferError::Older(name.to_owned()).into()),
            (Age::Apart, _) => return Err(TransferError::Apart(name.to_owned()).into()),
        }
        // Those that it replaces count as earlier, also where they were not: no other service undoes what was asked for.
        attributes.lineage = Some(theirs.following(own));
        match (is_same_key, replace) {
            (true, Replace::Never) => Err(TransferError::OtherTerms(name.to_owned()).into()),
            (false, Replace::Never) => Err(TransferError::OtherKey(name.to_owned()).into()),
            (true, _) => Ok(Arriving::OtherTerms),
            (false, _) => Ok(Arriving::OtherKey),
        }
    }

    /// Puts a received key in the place of the one of its name. Returns its place, whose sessions are to be closed.
    pub(crate) fn put(
        &mut self,
        name: &str,
        material: Material,
        mut attributes: Attributes,
    ) -> Result<Changed<u16>, StoreError> {
        let rate = attributes.rate;
        // Programs of this machine know the key by it.
        attributes.id = self.keys.get(name).map_or_else(Vec::new, |key| key.attributes.id.clone());
        let changed = self.give(name, material, attributes)?;
        if let Some(key) = self.keys.get(name) {
            key.limiter.set(rate);
        }
        Ok(changed)
    }

    /// The same key came with this lineage. It is also written again after a change that the disk did not confirm.
    /// Returns whether either made it necessary to write it.
    pub(crate) fn came_again(&mut self, name: &str, lineage: Option<Lineage>) -> Result<Changed<bool>, StoreError> {
        let key = self.keys.get(name).ok_or_else(|| unknown(name))?;
        if !self.doubted && lineage == Some(key.lineage()) {
            return Ok(Changed { what: false, doubt: None });
        }
        let (bytes, attributes) = (key.material.at_rest(), Attributes { lineage, ..key.attributes.clone() });
        let doubt = self.at_rest(|vault| vault.write(name, &attributes, &bytes))?;
        self.keys.get_mut(name).ok_or_else(|| unknown(name))?.attributes = attributes;
        Ok(Changed { what: true, doubt })
    }

    /// Promises to keep a received key: no earlier seal of it permits to delete it here.
    pub(crate) fn receipt(&mut self, name: &str, receipts: &Receipts) -> Result<Receipt, StoreError> {
        let (number, is_at_rest) = (self.next_change(), self.is_at_rest());
        self.keys.get_mut(name).ok_or_else(|| unknown(name))?.custody.promise(number);
        Ok(if is_at_rest { receipts.at_rest } else { receipts.in_memory })
    }

    pub(super) fn transfer(&self) -> Result<&Transfer, StoreError> {
        match &self.rest {
            Rest::Vault(vault) | Rest::Released(vault) => Ok(vault.transfer()),
            Rest::Lent => Err(StoreError::Resealing),
            Rest::None => self.transient.as_ref().ok_or_else(|| TransferError::Library.into()),
        }
    }
}

/// The sender is another service, perhaps of another version.
fn check_attributes(material: &Material, attributes: &Attributes) -> Result<(), StoreError> {
    let Attributes { acl, usage, rate, owner, certificates, .. } = attributes;
    check_acl(acl)?;
    let does = Usage::of_kind(material.kind);
    if !Usage::KNOWN.contains(*usage) || usage.both(does) == Usage::NONE {
        return Err(StoreError::UnknownUsage);
    }
    if rate.is_some_and(|rate| !(1..=MAX_RATE).contains(&rate)) {
        return Err(StoreError::Rate);
    }
    if owner.is_some() {
        return Err(TransferError::Foreign.into());
    }
    if !certificates.is_empty() {
        check_chain(certificates, &material.public)?;
    }
    Ok(())
}
