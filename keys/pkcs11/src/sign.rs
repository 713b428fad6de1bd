//! Signatures, made and verified in the service. Messages are hashed here.

use crate::config::Setup;
use crate::ecdsa;
use crate::log::{Doing, told};
use crate::mechanism::{Input, Mechanism, signature_len};
use crate::objects::Object;
use crate::rv::Rv;
use cryptoki_sys::{
    CKF_SIGN, CKF_VERIFY, CKR_DATA_LEN_RANGE, CKR_DEVICE_ERROR, CKR_SIGNATURE_INVALID, CKR_SIGNATURE_LEN_RANGE,
};
use sidecore_client::keyops::hasher::Hasher;
use sidecore_client::keyops::key::{Key, Public};
use sidecore_client::keyops::sign::Settings;
use sidecore_client::keyops::wait::Caller;
use sidecore_client::keys::Usage;
use std::sync::Arc;

/// A signature in the making, or being verified.
pub(crate) struct Signing {
    key: Arc<Key>,
    settings: Settings,
    taken: Taken,
    /// A part of the message was given.
    pub(crate) begun: bool,
}

enum Taken {
    Hashed(Hasher),
    Whole { bytes: Vec<u8>, least: usize, most: usize },
}

impl Signing {
    /// `verifying`: with the public object.
    pub(crate) fn begin(mechanism: &Mechanism, object: &Object, verifying: bool) -> Result<Self, Rv> {
        let (key, flag) = if verifying {
            (object.public_key(Usage::SIGN)?, CKF_VERIFY)
        } else {
            (object.private_key(Usage::SIGN)?, CKF_SIGN)
        };
        let (settings, input) = mechanism.signature(flag, key)?;
        let taken = match input {
            Input::Hashed(digest) => Taken::Hashed(Hasher::new(digest)),
            Input::Whole { least, most } => Taken::Whole { bytes: Vec::new(), least, most },
        };
        Ok(Self { key: Arc::clone(key), settings, taken, begun: false })
    }

    /// Length of the signature, bytes.
    pub(crate) fn len(&self) -> usize {
        signature_len(&self.key.public)
    }

    /// Takes a part of the message.
    pub(crate) fn update(&mut self, part: &[u8]) -> Result<(), Rv> {
        self.begun = true;
        match &mut self.taken {
            Taken::Hashed(hasher) => hasher.update(part),
            Taken::Whole { bytes, most, .. } if part.len() <= *most - bytes.len() => bytes.extend(part),
            Taken::Whole { .. } => return Err(Rv(CKR_DATA_LEN_RANGE)),
        }
        Ok(())
    }

    pub(crate) fn sign(self, setup: &Setup) -> Result<Vec<u8>, Rv> {
        let (key, settings) = (self.key, self.settings);
        let signed = settings.sign(Caller::thread(&setup.options), &key, &digest(self.taken)?);
        let signature = signed.map_err(|failure| told(setup, Doing::Data, &failure, Some(&key)))?;
        match &key.public {
            Public::Ec { curve, .. } => ecdsa::fixed(&signature, curve.size()).ok_or(Rv(CKR_DEVICE_ERROR)),
            _ => Ok(signature),
        }
    }

    pub(crate) fn verify(self, setup: &Setup, signature: &[u8]) -> Result<(), Rv> {
        // Of ECDSA a program may leave out zeros before both numbers, as Java does: PKCS#11 has halves of one length.
        let is_ec = matches!(self.key.public, Public::Ec { .. });
        let is_shorter = is_ec && (2..self.len()).contains(&signature.len()) && signature.len().is_multiple_of(2);
        if signature.len() != self.len() && !is_shorter {
            return Err(Rv(CKR_SIGNATURE_LEN_RANGE));
        }
        let (key, settings) = (self.key, self.settings);
        let in_der = matches!(key.public, Public::Ec { .. }).then(|| ecdsa::der(signature));
        let signature = in_der.flatten().unwrap_or_else(|| signature.to_vec());
        let verified = settings.verify(Caller::thread(&setup.options), &key, &signature, &digest(self.taken)?);
        let is_good = verified.map_err(|failure| told(setup, Doing::Data, &failure, Some(&key)))?;
        if is_good { Ok(()) } else { Err(Rv(CKR_SIGNATURE_INVALID)) }
    }
}

fn digest(taken: Taken) -> Result<Vec<u8>, Rv> {
    match taken {
        Taken::Hashed(hasher) => Ok(hasher.finish()),
        Taken::Whole { bytes, least, .. } if bytes.len() >= least => Ok(bytes),
        Taken::Whole { .. } => Err(Rv(CKR_DATA_LEN_RANGE)),
    }
}
