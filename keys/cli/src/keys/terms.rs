//! Terms of stored keys: what they are used for, the limit of their requests, their certificates.

use super::{called, read};
use crate::error::{CliError, failed};
use crate::set::connect;
use sidecore::client::{Admin, Error};
use sidecore::keys::{KeyCommand, UsableKey, UsableKeys, read_certificates};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) type Terms = BTreeMap<String, UsableKey>;

/// The keys of this user by name. `None`: the service is of an older version, where no key has terms. On a connection of
/// its own, which such a service closes. While keys change, those that change may be missing.
pub(super) fn all(socket: &Path) -> Result<Option<Terms>, CliError> {
    let listed = without_older(connect(socket)?.my_keys(None))?;
    Ok(listed.map(|listed| listed.keys.into_iter().map(|key| (key.name.clone(), key)).collect()))
}

fn without_older(listed: Result<Option<UsableKeys>, Error>) -> Result<Option<UsableKeys>, Error> {
    match listed {
        Err(Error::Service(refused)) if refused.is_of_older_version() => Ok(None),
        listed => listed,
    }
}

pub(super) fn set_certificates(service: &mut Admin, name: &str, file: &Path, any_date: bool) -> Result<(), CliError> {
    let certificates = read_certificates(&read(file)?).map_err(failed(called(file)))?;
    chain_commands(name, certificates, any_date).try_for_each(|command| match service.keys(command) {
        Ok(_) => Ok(()),
        Err(error @ Error::Service(_)) => Err(failed(called(file))(error)),
        Err(other) => Err(other.into()),
    })
}

/// The commands that store this chain with a key.
pub(super) fn chain_commands(
    name: &str,
    certificates: Vec<Vec<u8>>,
    any_date: bool,
) -> impl Iterator<Item = KeyCommand> {
    let (name, last) = (name.to_owned(), certificates.len().saturating_sub(1));
    certificates.into_iter().enumerate().map(move |(place, certificate)| {
        let (name, more) = (name.clone(), place < last);
        if any_date {
            KeyCommand::AddCertificateOfAnyDate { name, certificate, more }
        } else {
            KeyCommand::AddCertificate { name, certificate, more }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore::control::{RefusalCode, Refused};

    #[test]
    fn only_a_service_of_an_older_version_has_no_terms() {
        let refused = |code| without_older(Err(Error::Service(Refused::new(code, "why"))));
        for code in RefusalCode::ALL {
            // `renew` would otherwise store the new key without the limits of the former one.
            assert_eq!(matches!(refused(code), Ok(None)), code == RefusalCode::UnknownRequest, "{code:?}");
        }
    }
}
