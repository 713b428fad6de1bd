//! A connection without a lane, for changing a running service and its keys.
//!
//! A connection that attaches a lane loses the right to administer. So a process that inherits it can use the parent's
//! lane, but change nothing.

mod transfer;

use super::lane::{after, question};
use super::{ConnectError, Error, MadeKey, Options, trust};
use crate::control::{Refused, Reply, Request};
use crate::keys::transfer::Address;
use crate::keys::{KeyCommand, KeyEntry, KeyInfo, Kind, UsableKey, UsableKeys};
use crate::spec::Secret;
use sidecore_ipc::sys::verified_fd::VerifiedFd;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Limit for making a key: RSA of 4096 bits takes seconds, and keys are made one at a time.
const GENERATION: Duration = Duration::from_secs(120);
/// Limit for a change of the service or its keys: each sidecore takes part, also one that runs long requests.
const CHANGE: Duration = Duration::from_secs(10);

/// Attempts to list the keys without a change between two pages.
const LIST_TRIES: usize = 8;
/// Most keys of a list: more than a service can have.
const MAX_LIST: usize = 1 << 16;

enum Pages {
    Unchanged,
    All(UsableKeys),
    /// A key changed between two pages.
    Torn,
}

/// A connection to a service without a lane. The service checks the peer's user with the kernel for each message.
#[derive(Debug)]
pub struct Admin {
    /// `None` after a timeout: a late answer could be taken for that of the next question.
    socket: Option<VerifiedFd>,
    timeout: Duration,
}

impl Admin {
    /// Connects to the service at the options' socket; the options' lane shape is not used.
    ///
    /// # Errors
    /// No service, no trusted service, or no permission to connect. Each message names a remedy.
    pub fn connect(options: &Options) -> Result<Self, ConnectError> {
        let socket = trust::connect(options, after(options.timeout))?;
        Ok(Self { socket: Some(socket), timeout: options.timeout })
    }

    /// Changes the running service, as `sidecore set` does: `key=value`. Returns a note if a setting was accepted but
    /// has no full effect. For root and the service's own user.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn set(&mut self, setting: &str) -> Result<Option<String>, Error> {
        self.set_all(vec![setting.to_owned()])
    }

    /// As [`Admin::set`], with several settings: all of them or none.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn set_all(&mut self, settings: Vec<String>) -> Result<Option<String>, Error> {
        match self.ask(&Request::Set(settings), CHANGE)? {
            Reply::Done => Ok(None),
            Reply::Noted(note) => Ok(Some(note)),
            other => Err(Error::unexpected(other)),
        }
    }

    /// The settings in force, by configuration key: policies and limits.
    ///
    /// # Errors
    /// The service is gone.
    pub fn settings(&mut self) -> Result<Vec<(String, String)>, Error> {
        match self.ask(&Request::Settings, CHANGE)? {
            Reply::Settings(settings) => Ok(settings),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Changes or lists the stored keys, as `sidecore keys` does. A list returns entries; import and generation wait,
    /// and return the entry of the new key. For root and the service's own user.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn keys(&mut self, command: KeyCommand) -> Result<Vec<KeyEntry>, Error> {
        let makes = matches!(command, KeyCommand::Generate { .. } | KeyCommand::GenerateWith { .. });
        let takes = if makes { GENERATION } else { CHANGE };
        match self.ask(&Request::Keys(command), takes)? {
            Reply::Keys(entries) => Ok(entries),
            Reply::Done => Ok(Vec::new()),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Seals the keys at rest under this passphrase, as `sidecore keys passphrase` does. Returns the passphrase file
    /// that the service reads at its next start, if it knows one; the caller must write that file.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn change_passphrase(&mut self, passphrase: Secret) -> Result<Option<String>, Error> {
        match self.ask(&Request::Keys(KeyCommand::ChangePassphrase { passphrase }), GENERATION)? {
            Reply::PassphraseChanged { file } => Ok(file),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Kind and public part of a stored key, for users who may use it.
    ///
    /// # Errors
    /// No key has this name, this user may not use it, or the service is gone.
    pub fn key_info(&mut self, name: &str) -> Result<KeyInfo, Error> {
        self.key_info_by(name, Instant::now() + self.timeout)
    }

    /// As [`Admin::key_info`], with a deadline for the answer.
    ///
    /// # Errors
    /// As for [`Admin::key_info`].
    pub fn key_info_by(&mut self, name: &str, deadline: Instant) -> Result<KeyInfo, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.ask_within(&Request::KeyInfo { name: name.to_owned() }, left)? {
            Reply::KeyInfo(info) => Ok(info),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Gives the service a message of another one, see [`crate::channel`], and returns the answer for that one.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn serve(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match self.ask_within(&Request::Serve(message.to_vec()), self.timeout)? {
            Reply::Served(answer) => Ok(answer),
            other => Err(Error::unexpected(other)),
        }
    }

    /// The address of the service, for those who carry messages of other services to it.
    ///
    /// # Errors
    /// The service serves no other, is of an older version, or is gone.
    pub fn serving_address(&mut self) -> Result<Address, Error> {
        match self.ask_within(&Request::ServingAddress, self.timeout)? {
            Reply::Address(address) => Ok(address),
            other => Err(Error::unexpected(other)),
        }
    }

    /// The keys that this user may use. `None`: the list is that of the revision `known`. A list without a revision is one
    /// whose keys changed between its pages, at each attempt.
    ///
    /// # Errors
    /// The service is of an older version ([`Refused::is_of_older_version`]),
    /// or it is gone.
    pub fn my_keys(&mut self, known: Option<u64>) -> Result<Option<UsableKeys>, Error> {
        for number in 1..=LIST_TRIES {
            match self.all_pages(known, number == LIST_TRIES)? {
                Pages::Unchanged => return Ok(None),
                Pages::All(keys) => return Ok(Some(keys)),
                Pages::Torn => {}
            }
        }
        Err(Error::Service(Refused::other("the service lists no keys")))
    }

    /// `is_last`: pages of different revisions are accepted, too.
    fn all_pages(&mut self, known: Option<u64>, is_last: bool) -> Result<Pages, Error> {
        let Some((revision, mut keys, mut more)) = self.page(String::new(), known)? else {
            return Ok(Pages::Unchanged);
        };
        let mut revision = Some(revision);
        while more {
            let after = keys.last().map_or_else(String::new, |key: &UsableKey| key.name.clone());
            let Some((present, page, rest)) = self.page(after, None)? else { return Ok(Pages::Torn) };
            if revision != Some(present) {
                if !is_last {
                    return Ok(Pages::Torn);
                }
                revision = None;
            }
            // The last keys may have been deleted meanwhile.
            if page.is_empty() && revision.is_none() {
                break;
            }
            let rises = page.first().is_some_and(|first| keys.last().is_none_or(|last| last.name < first.name));
            if !rises || keys.len() > MAX_LIST {
                return Err(Error::Service(Refused::other("the service lists keys in no order")));
            }
            keys.extend(page);
            more = rest;
        }
        Ok(Pages::All(UsableKeys { revision, keys }))
    }

    fn page(&mut self, after: String, known: Option<u64>) -> Result<Option<(u64, Vec<UsableKey>, bool)>, Error> {
        match self.ask(&Request::MyKeys { after, known }, Duration::ZERO)? {
            Reply::Unchanged => Ok(None),
            Reply::MyKeys { revision, keys, more } => Ok(Some((revision, keys, more))),
            other => Err(Error::unexpected(other)),
        }
    }

    /// One key that this user may use, with its usage and the number of its certificates.
    ///
    /// # Errors
    /// As for [`Admin::key_info`].
    pub fn my_key(&mut self, name: &str) -> Result<UsableKey, Error> {
        if let Some(before) = before(name)
            && let Some((_, keys, _)) = self.page(before, None)?
            && let Some(key) = keys.into_iter().next().filter(|key| key.name == name)
        {
            return Ok(key);
        }
        // The answer says why.
        self.key_info(name)?;
        Err(Error::Service(Refused::other("the key changes again and again while it is looked up")))
    }

    /// A certificate that is stored with the key, DER; `index` 0 is that of the key itself.
    ///
    /// # Errors
    /// No key has this name, this user may not use it, it has no such certificate, or the service is gone.
    pub fn certificate(&mut self, name: &str, index: u8) -> Result<Vec<u8>, Error> {
        match self.ask(&Request::Certificate { name: name.to_owned(), index }, Duration::ZERO)? {
            Reply::Certificate(certificate) => Ok(certificate),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Identifiers of those keys that this user may use and that have one, by the keys' names. A service of an older version
    /// stores none.
    ///
    /// # Errors
    /// The service is gone.
    pub fn identifiers(&mut self) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let mut all = BTreeMap::new();
        loop {
            let after = all.last_key_value().map_or_else(String::new, |(last, _): (&String, _)| last.clone());
            let page = match self.ask(&Request::Identifiers { after: after.clone() }, Duration::ZERO)? {
                Reply::Identifiers(page) => page,
                Reply::Refused(refused) if refused.is_of_older_version() => return Ok(all),
                other => return Err(Error::unexpected(other)),
            };
            if page.is_empty() {
                return Ok(all);
            }
            if page.iter().any(|(name, _)| *name <= after) || all.len() > MAX_LIST {
                return Err(Error::Service(Refused::other("the service lists identifiers in no order")));
            }
            all.extend(page);
        }
    }

    /// Makes a key in the service for this program alone; the connection keeps the key alive. The call waits: RSA
    /// takes seconds, and keys are made one at a time.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn make_key(mut self, kind: Kind) -> Result<MadeKey, Error> {
        match self.ask(&Request::MakeKey(kind), GENERATION)? {
            Reply::KeyMade { token, public } => Ok(MadeKey::new(token, public, self.socket.ok_or_else(Error::closed)?)),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Computes the public part of a raw private key (Ed25519, X25519 or ML-DSA-65), as a `SubjectPublicKeyInfo` in
    /// DER. The service does not keep the key.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn public_part(&mut self, kind: Kind, raw: Secret, deadline: Instant) -> Result<Vec<u8>, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.ask_within(&Request::PublicPart { kind, raw }, left)? {
            Reply::Public(public) => Ok(public),
            other => Err(Error::unexpected(other)),
        }
    }

    fn ask(&mut self, request: &Request, takes: Duration) -> Result<Reply, Error> {
        self.ask_within(request, self.timeout.max(takes))
    }

    fn ask_within(&mut self, request: &Request, timeout: Duration) -> Result<Reply, Error> {
        let socket = self.socket.as_ref().ok_or_else(Error::closed)?;
        let answered = question(socket, request, after(timeout));
        if matches!(answered, Err(Error::NoAnswer(_))) {
            self.socket = None;
        }
        answered
    }
}

/// A text before this name, with no other name between the two: `~` is behind all letters of names.
fn before(name: &str) -> Option<String> {
    let (rest, last) = name.split_at_checked(name.len().checked_sub(1)?)?;
    let previous = last.bytes().next()?.checked_sub(1)?;
    Some(format!("{rest}{}~", char::from(previous)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_name_stands_between_a_name_and_the_text_before_it(
            name in "[A-Za-z0-9][-_.A-Za-z0-9]{0,3}",
            other in "[A-Za-z0-9][-_.A-Za-z0-9]{0,3}",
        ) {
            let before = before(&name).unwrap();
            prop_assert!(before < name);
            prop_assert!(other <= before || other >= name, "{other} is between {before} and {name}");
        }
    }

    #[test]
    fn what_is_no_name_has_no_text_before_it_or_any() {
        for odd in ["", "\0", "ä", "\u{10ffff}"] {
            let _ = before(odd);
        }
        assert_eq!(before(""), None);
    }
}
