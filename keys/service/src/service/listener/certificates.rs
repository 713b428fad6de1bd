//! Certificates of stored keys: they come one by one, and are stored together.

use super::connection::{Chain, not_connected};
use super::state::Listener;
use crate::control::Refused;
use crate::keys::{CertificateError, Changed};
use crate::service::command::LaneKey;
use sidecore_client::keys::{MAX_CERTIFICATE, MAX_CERTIFICATES, Moment};

impl Listener {
    /// `None`: more certificates follow. A refusal forgets those that came before. Without `now` their dates may be any.
    pub(super) fn add_certificate(
        &mut self,
        key: LaneKey,
        name: String,
        (certificate, more): (Vec<u8>, bool),
        now: Option<Moment>,
    ) -> Result<Option<Changed<u16>>, Refused> {
        let connection = self.connections.get_mut(&key).ok_or_else(not_connected)?;
        let begun = connection.chain.take().filter(|chain| chain.name == name);
        let mut chain = begun.unwrap_or_else(|| Chain { name, certificates: Vec::new() });
        let (place, size) = (chain.certificates.len() + 1, certificate.len());
        if place > MAX_CERTIFICATES {
            return Err(CertificateError::Many.into());
        }
        if size > MAX_CERTIFICATE {
            return Err(CertificateError::Large(place, size).into());
        }
        chain.certificates.push(certificate);
        if more {
            connection.chain = Some(chain);
            return Ok(None);
        }
        Ok(Some(self.setup.store.set_certificates(&chain.name, chain.certificates, now)?))
    }

    pub(super) fn certificate(&self, key: LaneKey, name: &str, index: u8) -> Result<Vec<u8>, Refused> {
        Ok(self.setup.store.certificate(name, index, &self.asker(key)?)?)
    }
}
