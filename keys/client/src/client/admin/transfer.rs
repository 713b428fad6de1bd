//! Keys to and from other machines' services. For root and the service's own user.

use super::{Admin, CHANGE};
use crate::client::Error;
use crate::control::{Reply, Request};
use crate::keys::transfer::{AclNames, Address, MAX_SEALED, PART, Receipt, Received, Replace};
use crate::keys::{Acl, KeyCommand};

impl Admin {
    /// The address to which other services seal keys for this one.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn transfer_address(&mut self) -> Result<Address, Error> {
        match self.ask(&Request::Keys(KeyCommand::Address), CHANGE)? {
            Reply::Address(address) => Ok(address),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Seals a key to the service of this address. `names` has the names of its users and groups on this machine, perhaps
    /// of others as well. `None`: with `if_changed`, the running service has a receipt for the key as it is now.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn seal(
        &mut self,
        name: &str,
        to: Address,
        if_changed: bool,
        names: AclNames,
    ) -> Result<Option<Vec<u8>>, Error> {
        let seal = KeyCommand::Seal { name: name.to_owned(), to, if_changed, names };
        let (mut sealed, mut question) = (Vec::new(), Request::Keys(seal));
        loop {
            match self.ask(&question, CHANGE)? {
                Reply::Sealed { part, more } if sealed.len() + part.len() <= MAX_SEALED => {
                    sealed.extend(part);
                    if !more {
                        return Ok(Some(sealed));
                    }
                }
                Reply::Unchanged if sealed.is_empty() => return Ok(None),
                other => return Err(Error::unexpected(other)),
            }
            question = Request::Keys(KeyCommand::NextPart);
        }
    }

    /// Has the service open and store a sealed key. `numbers` gives the numbers here of the key's users and groups, whose
    /// names it gets with the key's name; its error ends the call.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn receive<E: From<Error>>(
        &mut self,
        sealed: &[u8],
        replace: Replace,
        numbers: impl FnOnce(&str, &[String], &[String]) -> Result<Acl, E>,
    ) -> Result<Received, E> {
        let mut parts = sealed.chunks(PART).peekable();
        while let Some(part) = parts.next() {
            let more = parts.peek().is_some();
            let part = KeyCommand::Receive { part: part.to_vec(), more, replace };
            match self.ask(&Request::Keys(part), CHANGE)? {
                Reply::Done if more => {}
                Reply::Received(received) if !more => return Ok(received),
                Reply::Users { name, users, groups } if !more => {
                    let numbers = KeyCommand::Users(numbers(&name, &users, &groups)?);
                    return match self.ask(&Request::Keys(numbers), CHANGE)? {
                        Reply::Received(received) => Ok(received),
                        other => Err(Error::unexpected(other).into()),
                    };
                }
                other => return Err(Error::unexpected(other).into()),
            }
        }
        Err(Error::Gone("an empty text is no sealed key".to_owned()).into())
    }

    /// Checks a receipt for a key that was sealed on this connection, and then deletes the key here if `delete` is set.
    ///
    /// # Errors
    /// The receipt is wrong, the key was changed meanwhile and stays, or the service is gone.
    pub fn confirm(&mut self, name: &str, receipt: Receipt, delete: bool) -> Result<(), Error> {
        let confirm = KeyCommand::Confirm { name: name.to_owned(), receipt, delete };
        match self.ask(&Request::Keys(confirm), CHANGE)? {
            Reply::Done => Ok(()),
            other => Err(Error::unexpected(other)),
        }
    }
}
