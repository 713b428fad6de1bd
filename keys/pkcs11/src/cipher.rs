//! RSA decryption by the private key, and encryption to the public one, both in the service.

use crate::config::Setup;
use crate::log::{Doing, told};
use crate::mechanism::Mechanism;
use crate::objects::Object;
use crate::rv::Rv;
use cryptoki_sys::{CKF_DECRYPT, CKF_ENCRYPT, CKR_ARGUMENTS_BAD, CKR_DATA_LEN_RANGE, CKR_ENCRYPTED_DATA_LEN_RANGE};
use sidecore_client::keyops::decrypt::Settings;
use sidecore_client::keyops::key::Key;
use sidecore_client::keyops::wait::Caller;
use sidecore_client::keys::Usage;
use std::sync::Arc;
use zeroize::Zeroizing;

pub(crate) struct Cipher {
    key: Arc<Key>,
    settings: Settings,
    encrypts: bool,
    /// Parts that were given.
    bytes: Zeroizing<Vec<u8>>,
    /// The result, kept while the program has too little room.
    result: Option<Zeroizing<Vec<u8>>>,
    pub(crate) begun: bool,
}

impl Cipher {
    pub(crate) fn begin(mechanism: &Mechanism, object: &Object, encrypts: bool) -> Result<Self, Rv> {
        let (key, flag) = if encrypts {
            (object.public_key(Usage::DECRYPT)?, CKF_ENCRYPT)
        } else {
            (object.private_key(Usage::DECRYPT)?, CKF_DECRYPT)
        };
        let settings = mechanism.cipher(flag, key)?;
        let (key, bytes) = (Arc::clone(key), Zeroizing::new(Vec::with_capacity(key.public.max_len())));
        Ok(Self { key, settings, encrypts, bytes, result: None, begun: false })
    }

    /// Length of the result, bytes; before it is known, that of the longest.
    pub(crate) fn len(&self) -> usize {
        self.result.as_ref().map_or_else(|| self.key.public.max_len(), |result| result.len())
    }

    /// Takes all input, if there is any that was not taken before.
    pub(crate) fn whole(&mut self, input: Option<&[u8]>) -> Result<(), Rv> {
        match input {
            Some(input) if self.result.is_none() => self.take(input),
            // After too little room, the same input comes again.
            Some(input) if input != self.bytes.as_slice() => Err(Rv(CKR_ARGUMENTS_BAD)),
            _ => Ok(()),
        }
    }

    pub(crate) fn update(&mut self, part: &[u8]) -> Result<(), Rv> {
        if self.result.is_some() {
            return Err(Rv(CKR_ARGUMENTS_BAD));
        }
        self.begun = true;
        self.take(part)
    }

    fn take(&mut self, part: &[u8]) -> Result<(), Rv> {
        if part.len() > self.key.public.max_len() - self.bytes.len() {
            return Err(Rv(if self.encrypts { CKR_DATA_LEN_RANGE } else { CKR_ENCRYPTED_DATA_LEN_RANGE }));
        }
        self.bytes.extend(part);
        Ok(())
    }

    /// The result of all parts. It is computed once.
    pub(crate) fn result(&mut self, setup: &Setup) -> Result<&[u8], Rv> {
        if self.result.is_none() {
            let caller = Caller::thread(&setup.options);
            let (doing, done) = if self.encrypts {
                let encrypted = self.settings.encrypt(caller, &self.key, &self.bytes);
                (Doing::Data, encrypted.map(Zeroizing::new))
            } else if self.bytes.len() != self.key.public.max_len() {
                // A shorter one would be decrypted to bytes that nobody encrypted.
                return Err(Rv(CKR_ENCRYPTED_DATA_LEN_RANGE));
            } else {
                (Doing::Decrypting, self.settings.decrypt(caller, &self.key, &self.bytes))
            };
            self.result = Some(done.map_err(|failure| told(setup, doing, &failure, Some(&self.key)))?);
        }
        Ok(self.result.as_ref().map_or(&[], |result| result))
    }
}
