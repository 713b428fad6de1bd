//! Requests of transfers, with a key that another service sealed.

use super::{RSA, at_rest};
use crate::common::{Running, administer, start};
use sidecore::config::{Config, KeysConfig, Partners};
use sidecore::control::Request;
use sidecore::engine::crypto::Secret;
use sidecore::keys::transfer::{AclNames, Address, Receipt, Replace};
use sidecore::keys::{Acl, KeyCommand};

/// A service, the address of a recipient, and a sealed key for the service.
pub(super) struct Sealing {
    pub(super) service: Running,
    pub(super) to: Address,
    pub(super) sealed: Vec<u8>,
}

impl Sealing {
    pub(super) fn new() -> Self {
        // With keys at rest a service has the same address again.
        let scratch = tempfile::tempdir().unwrap();
        let keys = at_rest(scratch.path());
        let from = administer(&partner(keys.clone(), None, None)).transfer_address().unwrap();
        // Any point is an address.
        let to = Address([9; 32]);
        let service = partner(KeysConfig::default(), Some(to), Some(from));
        let own = administer(&service).transfer_address().unwrap();
        let other = partner(keys, Some(own), None);
        let mut sender = administer(&other);
        let sent = KeyCommand::Import { name: "sent".to_owned(), pkcs8: Secret::from(RSA), acl: users() };
        sender.keys(sent).unwrap();
        let names = AclNames { users: vec![(33, "www-data".to_owned())], groups: vec![] };
        let sealed = sender.seal("sent", own, false, names).unwrap().unwrap();
        Self { service, to, sealed }
    }
}

fn users() -> Acl {
    Acl { uids: vec![33], gids: vec![] }
}

/// A service that sends and receives keys.
pub(super) fn partner(keys: KeysConfig, to: Option<Address>, from: Option<Address>) -> Running {
    let (recipients, senders) = (Vec::from_iter(to), Vec::from_iter(from));
    let partners = Partners { recipients, senders, ..Partners::default() };
    start(Config { keys: KeysConfig { partners: Some(partners), ..keys }, ..Config::default() })
}

pub(super) fn transfers(to: Address, sealed: &[u8]) -> Vec<Request> {
    let receive = |part: &[u8], more| KeyCommand::Receive { part: part.to_vec(), more, replace: Replace::Never };
    let names = AclNames::default;
    let seal = |name: &str, to| KeyCommand::Seal { name: name.to_owned(), to, if_changed: false, names: names() };
    let confirm = |delete| KeyCommand::Confirm { name: "www".to_owned(), receipt: Receipt([0; 32]), delete };
    let commands = [
        KeyCommand::Address,
        seal("www", to),
        seal("www", Address([1; 32])),
        seal("none", to),
        KeyCommand::NextPart,
        receive(sealed, false),
        KeyCommand::Users(users()),
        KeyCommand::Users(users()),
        receive(&sealed[..9], true),
        receive(&sealed[9..], false),
        KeyCommand::Users(Acl::default()),
        receive(RSA, false),
        confirm(true),
        confirm(false),
    ];
    commands.into_iter().map(Request::Keys).collect()
}
