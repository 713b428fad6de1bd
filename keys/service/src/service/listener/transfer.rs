//! Keys to and from other machines' services: sealed keys are longer than a message, and go in parts.

use super::connection::not_connected;
use super::keys::Keep;
use super::state::Listener;
use crate::control::{Refused, Reply};
use crate::keys::{Acl, Arriving, Changed, Material, Opened, Sent, TransferError};
use crate::service::command::LaneKey;
use crate::service::jobs::{Arrival, ControlJob, NewKey};
use sidecore_client::keys::transfer::{AclNames, Address, MAX_SEALED, Outcome, PART, Receipt, Received, Replace};
use sidecore_ipc::sys::clock;
use std::collections::BTreeMap;

/// Most sealed keys of one connection that wait for receipts: as many as a service can have keys.
const MAX_SENT: usize = 4096;

/// Transfers of one connection.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// Begin of a sealed key that comes in.
    incoming: Vec<u8>,
    /// Rest of the one that goes out.
    outgoing: Vec<u8>,
    sent: BTreeMap<String, Sent>,
    /// A sealed key that waits for the numbers of its users.
    waits: Option<(Vec<u8>, Replace)>,
}

impl Transfers {
    fn next_part(&mut self) -> Reply {
        let rest = self.outgoing.split_off(self.outgoing.len().min(PART));
        let part = std::mem::replace(&mut self.outgoing, rest);
        Reply::Sealed { part, more: !self.outgoing.is_empty() }
    }

    /// All of a sealed key with its last part. `None`: more follows.
    fn take(&mut self, part: &[u8], more: bool) -> Result<Option<Vec<u8>>, Refused> {
        let mut sealed = std::mem::take(&mut self.incoming);
        let len = sealed.len() + part.len();
        ensure_limit!(len <= MAX_SEALED, "a sealed key has at most {MAX_SEALED} bytes: send it again");
        sealed.extend(part);
        if more {
            self.incoming = sealed;
            return Ok(None);
        }
        Ok(Some(sealed))
    }
}

impl Listener {
    fn transfers(&mut self, key: LaneKey) -> Result<&mut Transfers, Refused> {
        let connection = self.connections.get_mut(&key).ok_or_else(not_connected)?;
        Ok(connection.transfers.get_or_insert_default())
    }

    pub(super) fn seal(
        &mut self,
        key: LaneKey,
        name: String,
        to: Address,
        if_changed: bool,
        names: AclNames,
    ) -> Result<Option<Reply>, Refused> {
        let waiting = &self.transfers(key)?.sent;
        let has_room = waiting.len() < MAX_SENT || waiting.contains_key(&name);
        ensure_limit!(has_room, "{MAX_SENT} sealed keys wait for receipts: send fewer at a time");
        let Some((sealed, sent)) = self.setup.store.seal(&name, to, if_changed, names, clock::wall_ms())? else {
            return Ok(Some(Reply::Unchanged));
        };
        self.changed(&self.change("key-sealed", key, &name).with(to), None);
        let transfers = self.transfers(key)?;
        transfers.outgoing = sealed;
        transfers.sent.insert(name, sent);
        Ok(Some(transfers.next_part()))
    }

    pub(super) fn next_part(&mut self, key: LaneKey) -> Result<Option<Reply>, Refused> {
        let transfers = self.transfers(key)?;
        ensure!(!transfers.outgoing.is_empty(), "no part of a sealed key is left: seal it again");
        Ok(Some(transfers.next_part()))
    }

    /// `None`: the answer comes later.
    pub(super) fn receive(
        &mut self,
        key: LaneKey,
        part: &[u8],
        more: bool,
        replace: Replace,
    ) -> Result<Option<Reply>, Refused> {
        let Some(sealed) = self.transfers(key)?.take(part, more)? else { return Ok(Some(Reply::Done)) };
        let opened = self.setup.store.open_sealed(&sealed, clock::wall_ms())?;
        if opened.names == AclNames::default() {
            self.try_opened(key, opened, replace);
            return Ok(None);
        }
        let names = |names: Vec<(u32, String)>| names.into_iter().map(|(_, name)| name).collect();
        let (users, groups) = (names(opened.names.users), names(opened.names.groups));
        // Only sealed: no private key waits in the clear for somebody's answer.
        self.transfers(key)?.waits = Some((sealed, replace));
        Ok(Some(Reply::Users { name: opened.name, users, groups }))
    }

    /// Goes on with the sealed key that waits, for users and groups with these numbers here.
    pub(super) fn receive_for(&mut self, key: LaneKey, numbers: &Acl) -> Result<Option<Reply>, Refused> {
        let waits = self.transfers(key)?.waits.take();
        let (sealed, replace) =
            waits.ok_or_else(|| Refused::other("no sealed key waits for its users: send it again"))?;
        let mut opened = self.setup.store.open_sealed(&sealed, clock::wall_ms())?;
        let mapped = opened.names.mapped(&opened.attributes.acl, numbers);
        opened.attributes.acl = mapped.map_err(Refused::other)?;
        self.try_opened(key, opened, replace);
        Ok(None)
    }

    fn try_opened(&mut self, key: LaneKey, opened: Opened, replace: Replace) {
        let Opened { name, attributes, pkcs8, from, receipts, .. } = opened;
        let new = NewKey { change: self.change("key-received", key, &name).with(from), attributes };
        let arrival = Box::new(Arrival { new, receipts, replace });
        self.jobs.push(self.tenant(key), key, ControlJob::Receive(arrival, pkcs8));
    }

    /// Stores a received key. Only then is there a receipt.
    pub(super) fn arrived(&mut self, arrival: Arrival, material: Material) -> Result<Reply, Refused> {
        let Arrival { new: NewKey { change, mut attributes }, receipts, replace } = arrival;
        // The key here may have changed while this one was tried.
        let change = change.of_now(&self.setup.store);
        let name = change.name.clone();
        let arriving = self.setup.store.arriving(&name, &material, &mut attributes, replace)?;
        let outcome = match arriving {
            Arriving::New => {
                self.stored(NewKey { change, attributes }, material)?;
                Outcome::New
            }
            Arriving::Same => {
                let Changed { what: is_written, doubt } = self.setup.store.came_again(&name, attributes.lineage)?;
                if is_written {
                    self.changed(&change, doubt.as_ref());
                }
                doubt.map_or(Ok(()), Err)?;
                Outcome::Same
            }
            Arriving::OtherTerms | Arriving::OtherKey => {
                let Changed { what: place, doubt } = self.setup.store.put(&name, material, attributes)?;
                if arriving == Arriving::OtherKey {
                    self.close_sessions_on(place, Keep::None);
                    self.forget_offers(place);
                    self.offers_changed(&name);
                } else {
                    self.close_sessions_on(place, Keep::Permitted);
                }
                self.changed(&change, doubt.as_ref());
                doubt.map_or(Ok(()), Err)?;
                Outcome::Replaced
            }
        };
        let receipt = self.setup.store.receipt(&name, &receipts)?;
        Ok(Reply::Received(Received { name, outcome, receipt }))
    }

    /// Checks a receipt. With `delete` the key is deleted: the caller closes the sessions of its place.
    pub(super) fn confirm(
        &mut self,
        key: LaneKey,
        name: &str,
        receipt: &Receipt,
        delete: bool,
    ) -> Result<Option<Changed<u16>>, Refused> {
        let sent = self.transfers(key)?.sent.remove(name);
        let sent = sent.ok_or_else(|| TransferError::NotSealed(name.chars().take(80).collect()))?;
        self.setup.store.confirm(name, &sent, receipt, delete)?;
        self.changed(&self.change("key-sent", key, name).with(sent.to), None);
        if delete { Ok(Some(self.setup.store.delete(name)?)) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_whole_again_up_to_a_limit() {
        for len in [0, 1, PART, PART + 1, MAX_SEALED] {
            let whole: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let (mut from, mut to) =
                (Transfers { outgoing: whole.clone(), ..Transfers::default() }, Transfers::default());
            loop {
                let Reply::Sealed { part, more } = from.next_part() else { panic!("no part") };
                if let Some(found) = to.take(&part, more).unwrap() {
                    assert_eq!(found, whole);
                    break;
                }
            }
        }
        let mut to = Transfers::default();
        assert_eq!(to.take(&vec![0; MAX_SEALED], true), Ok(None));
        assert!(to.take(&[0], true).is_err());
        assert_eq!(to.take(&[7], false), Ok(Some(vec![7])), "a refusal forgets what came before");
    }
}
