//! A connection that asks and has no lane: for changing a running service and its keys.
//!
//! A connection with a lane has given up administration, so a process that inherits one can use what its parent used and
//! change nothing.

use super::lane::{after, question};
use super::{ConnectError, Error, MadeKey, Options, trust};
use crate::control::{Reply, Request};
use crate::keys::{KeyCommand, KeyEntry, KeyInfo, Kind};
use crate::spec::Secret;
use crate::sys::own::Own;
use std::time::{Duration, Instant};

/// How long making a key may take: RSA of 4096 bits takes seconds, and keys are made one at a time.
const GENERATION: Duration = Duration::from_secs(120);
/// How long a change of the service or of its keys may take: sidecores with long requests have their part in it.
const CHANGE: Duration = Duration::from_secs(10);

/// A connection to a service without a lane. The service asks the kernel who speaks, for each message.
#[derive(Debug)]
pub struct Admin {
    /// `None`: an answer may still come to a question that nobody waits for any more.
    socket: Option<Own>,
    patience: Duration,
}

impl Admin {
    /// Connects to the service at the options' socket; the shape of a lane is of no interest.
    ///
    /// # Errors
    /// No service, none that is trusted, or no permission to connect to it; each says what to do.
    pub fn connect(options: &Options) -> Result<Self, ConnectError> {
        let socket = trust::connect(options, after(options.patience))?;
        Ok(Self { socket: Some(socket), patience: options.patience })
    }

    /// Changes the running service, as `sidecore set` does: `key=value`. What was set and does not do what it says comes
    /// back as a note, in words. For root and the service's own user.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn set(&mut self, setting: &str) -> Result<Option<String>, Error> {
        self.set_all(vec![setting.to_owned()])
    }

    /// As [`Admin::set`], with several settings: where one is refused, nothing is changed.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn set_all(&mut self, settings: Vec<String>) -> Result<Option<String>, Error> {
        match self.ask(&Request::Set(settings), CHANGE)? {
            Reply::Done => Ok(None),
            Reply::Noted(note) => Ok(Some(note)),
            other => Err(Error::unexpected(other)),
        }
    }

    /// What is in force in the service of what a configuration sets, by key: policies and limits.
    ///
    /// # Errors
    /// The service is gone.
    pub fn settings(&mut self) -> Result<Vec<(String, String)>, Error> {
        match self.ask(&Request::Settings, CHANGE)? {
            Reply::Settings(settings) => Ok(settings),
            other => Err(Error::unexpected(other)),
        }
    }

    /// Changes or lists the stored keys, as `sidecore keys` does. A list returns entries; an import and a generation, which
    /// is waited for, return that of the new key. For root and the service's own user.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn keys(&mut self, command: KeyCommand) -> Result<Vec<KeyEntry>, Error> {
        let takes = if matches!(command, KeyCommand::Generate { .. }) { GENERATION } else { CHANGE };
        match self.ask(&Request::Keys(command), takes)? {
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
        match self.ask(&Request::Keys(KeyCommand::ChangePassphrase { passphrase }), GENERATION)? {
            Reply::PassphraseChanged { file } => Ok(file),
            other => Err(Error::unexpected(other)),
        }
    }

    /// What is known of a stored key. For those who may use it.
    ///
    /// # Errors
    /// There is none of this name, this user may not use it, or the service is gone.
    pub fn key_info(&mut self, name: &str) -> Result<KeyInfo, Error> {
        self.key_info_by(name, Instant::now() + self.patience)
    }

    /// As [`Admin::key_info`], waited for until then.
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

    /// Has the service make a key for this program alone, whose connection becomes the key's. It is waited for: RSA takes
    /// seconds, and keys are made one at a time.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn make_key(mut self, kind: Kind) -> Result<MadeKey, Error> {
        match self.ask(&Request::MakeKey(kind), GENERATION)? {
            Reply::KeyMade { token, public } => Ok(MadeKey::new(token, public, self.socket.ok_or_else(Error::closed)?)),
            other => Err(Error::unexpected(other)),
        }
    }

    /// The public part of a raw private key, which the service forgets: Ed25519, X25519 or ML-DSA-65. A
    /// `SubjectPublicKeyInfo` in DER, waited for until then.
    ///
    /// # Errors
    /// The service's reason, or that it is gone.
    pub fn public_part(&mut self, kind: Kind, raw: Secret, deadline: Instant) -> Result<Vec<u8>, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.ask_within(&Request::PublicPart { kind, raw }, left)? {
            Reply::Public(public) => Ok(public),
            other => Err(Error::unexpected(other)),
        }
    }

    /// One question, whose answer may take so long where that is longer than the options' patience.
    fn ask(&mut self, request: &Request, takes: Duration) -> Result<Reply, Error> {
        self.ask_within(request, self.patience.max(takes))
    }

    fn ask_within(&mut self, request: &Request, patience: Duration) -> Result<Reply, Error> {
        let socket = self.socket.as_ref().ok_or_else(Error::closed)?;
        let answered = question(socket, request, after(patience));
        if matches!(answered, Err(Error::NoAnswer(_))) {
            self.socket = None;
        }
        answered
    }
}
