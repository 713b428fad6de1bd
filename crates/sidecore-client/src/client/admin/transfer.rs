//! Keys to and from other machines' services. For root and the service's own user.

use super::{Admin, CHANGE};
use crate::client::Error;
use crate::control::{Reply, Request};
use crate::keys::KeyCommand;
use crate::keys::transfer::{Address, MAX_SEALED, PART, Receipt, Received};

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

    /// Seals a key to the service of this address. `None`: with `if_changed`, the running service has a receipt for the key
    /// as it is now.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn seal(&mut self, name: &str, to: Address, if_changed: bool) -> Result<Option<Vec<u8>>, Error> {
        let seal = KeyCommand::Seal { name: name.to_owned(), to, if_changed };
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

    /// Has the service open and store a sealed key.
    ///
    /// # Errors
    /// The service refused, with its reason, or is gone.
    pub fn receive(&mut self, sealed: &[u8], replace: bool) -> Result<Received, Error> {
        let mut parts = sealed.chunks(PART).peekable();
        while let Some(part) = parts.next() {
            let more = parts.peek().is_some();
            let part = KeyCommand::Receive { part: part.to_vec(), more, replace };
            match self.ask(&Request::Keys(part), CHANGE)? {
                Reply::Done if more => {}
                Reply::Received(received) if !more => return Ok(received),
                other => return Err(Error::unexpected(other)),
            }
        }
        Err(Error::Gone("an empty text is no sealed key".to_owned()))
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
