//! A connection that asks and has no lane: for changing a running service and its keys.
//!
//! A connection with a lane has given up administration, so a process that inherits one can use what its parent used and
//! change nothing.

use super::lane::question;
use super::{ConnectError, Error, Options, trust};
use crate::control::{Reply, Request};
use crate::engine::crypto::Secret;
use crate::keys::{KeyCommand, KeyEntry, KeyInfo};
use std::os::fd::OwnedFd;

/// A connection to a service without a lane. The service asks the kernel who speaks, for each message.
#[derive(Debug)]
pub struct Admin {
    socket: OwnedFd,
}

impl Admin {
    /// Connects to the service at the options' socket; the shape of a lane is of no interest.
    ///
    /// # Errors
    /// No service, none that is trusted, or no permission to connect to it; each says what to do.
    pub fn connect(options: &Options) -> Result<Self, ConnectError> {
        Ok(Self { socket: trust::connect(options)? })
    }

    /// Changes the running service, as `sidecore set` does: `key=value`. What was set and does not do what it says comes
    /// back as a note, in words. For root and the service's own user.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn set(&mut self, setting: &str) -> Result<Option<String>, Error> {
        match question(&self.socket, &Request::Set(setting.to_owned()))? {
            Reply::Done => Ok(None),
            Reply::Noted(note) => Ok(Some(note)),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Changes or lists the stored keys, as `sidecore keys` does. A list returns entries; an import and a generation, which
    /// is waited for, return that of the new key. For root and the service's own user.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn keys(&mut self, command: KeyCommand) -> Result<Vec<KeyEntry>, Error> {
        match question(&self.socket, &Request::Keys(command))? {
            Reply::Keys(entries) => Ok(entries),
            Reply::Done => Ok(Vec::new()),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Has the keys at rest sealed anew under this passphrase, as `sidecore keys passphrase` does. Returns the file in which
    /// the service looks for it when it starts next, where the service knows: whoever asks puts it there.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn change_passphrase(&mut self, passphrase: Secret) -> Result<Option<String>, Error> {
        match question(&self.socket, &Request::Keys(KeyCommand::ChangePassphrase { passphrase }))? {
            Reply::PassphraseChanged { file } => Ok(file),
            other => Err(Error::unexpected(other)),
        }
    }

    /// What is known of a stored key. For those who may use it.
    ///
    /// # Errors
    /// There is none of this name, this user may not use it, or the service is gone.
    pub fn key_info(&mut self, name: &str) -> Result<KeyInfo, Error> {
        match question(&self.socket, &Request::KeyInfo { name: name.to_owned() })? {
            Reply::KeyInfo(info) => Ok(info),
            other => Err(Error::unexpected(other)),
        }
    }
}
