//! Finding a stored key by its name.
//!
//! On a connection of its own without a lane, which is closed right after: who loads keys is often root, and whoever works
//! with them later is not.

use crate::client::{Admin, ConnectError, Error, Options};
use crate::face::aside::aside;
use crate::face::failure::{Failure, Reason};
use crate::face::key::{Key, Private, Public};
use crate::keys::KeyInfo;
use std::time::Instant;

/// The key of this name, as far as this process may know it.
///
/// # Errors
/// There is none, this user may not use it, or the service does not answer.
pub fn find(options: &Options, name: &str) -> Result<Key, Failure> {
    let info = aside(|| ask(options, name))?;
    Ok(Key::new(Public::from_spki(&info.public)?, Private::Stored(name.to_owned())))
}

fn ask(options: &Options, name: &str) -> Result<KeyInfo, Failure> {
    let deadline = Instant::now() + options.patience;
    connect(options)?.key_info_by(name, deadline).map_err(|error| told(options, error))
}

/// A connection without a lane.
pub(super) fn connect(options: &Options) -> Result<Admin, Failure> {
    Admin::connect(options).map_err(|error| match error {
        ConnectError::NoAnswer(..) => Failure::late(options.patience),
        other => Failure::new(Reason::Service, other.to_string()),
    })
}

/// Why a question had no answer.
pub(super) fn told(options: &Options, error: Error) -> Failure {
    match error {
        Error::Service(reason) => Failure::new(Reason::Key, reason),
        Error::NoAnswer(_) => Failure::late(options.patience),
        other => Failure::new(Reason::Service, other.to_string()),
    }
}
