//! Terms of stored keys: what they are used for, the limit of their requests, their certificates.

use super::{called, read};
use crate::error::{CliError, failed};
use crate::set::connect;
use sidecore::client::{Admin, Error};
use sidecore::keys::{KeyCommand, UsableKey, read_certificates};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) type Terms = BTreeMap<String, UsableKey>;

/// The keys of this user by name. `None`: the service is of an older version, where no key has terms. On a connection of
/// its own, which such a service closes.
pub(super) fn all(socket: &Path) -> Result<Option<Terms>, CliError> {
    let listed = match connect(socket)?.my_keys(None) {
        Err(Error::Service(_)) => None,
        listed => listed?,
    };
    Ok(listed.map(|listed| listed.keys.into_iter().map(|key| (key.name.clone(), key)).collect()))
}

pub(super) fn set_certificates(service: &mut Admin, name: &str, file: &Path) -> Result<(), CliError> {
    let mut certificates = read_certificates(&read(file)?).map_err(failed(called(file)))?.into_iter().peekable();
    while let Some(certificate) = certificates.next() {
        let more = certificates.peek().is_some();
        let added = service.keys(KeyCommand::AddCertificate { name: name.to_owned(), certificate, more });
        added.map_err(|error| match error {
            Error::Service(_) => failed(called(file))(error),
            other => other.into(),
        })?;
    }
    Ok(())
}
