//! A key that a program has loaded.

use crate::status::Fault;
use sidecore_client::client::Options;
use sidecore_client::keyops::ask;
use sidecore_client::keyops::decrypt;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::hasher::input;
use sidecore_client::keyops::key::{Key, Private, Public};
use sidecore_client::keyops::sign::Settings;
use sidecore_client::keyops::tls;
use sidecore_client::keyops::wait::Caller;
use sidecore_client::keys::Usage;
use sidecore_client::keys::uri::Uri;
use sidecore_ipc::named_file::NamedFile;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Longest file with a key's name, bytes: it may hold certificates as well.
const MAX_FILE: u64 = 1 << 20;

/// A stored key. Several threads use it at the same time.
pub(crate) struct LoadedKey {
    options: Arc<Options>,
    pub(crate) key: Arc<Key>,
    spki: Vec<u8>,
    usage: Usage,
}

impl LoadedKey {
    pub(crate) fn by_name(options: &Arc<Options>, name: &str) -> Result<Self, Fault> {
        let listed = ask::usable(options, name)?;
        Self::new(options, name, listed.public, listed.usage)
    }

    /// A file with the public part needs no service yet, and shows no usage: a signature does.
    pub(crate) fn by_file(options: &Arc<Options>, path: &Path) -> Result<Self, Fault> {
        let unread = |error: io::Error| Failure::new(Reason::Key, format!("{}: {error}", path.display()));
        let mut bytes = Vec::new();
        let file = NamedFile::open(path).map_err(unread)?;
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(unread)?;
        let named = |error| Failure::new(Reason::Key, format!("{}: {error}", path.display()));
        let uri = Uri::from_pem(&bytes).map_err(named)?;
        match uri.public() {
            Some(public) => Self::new(options, uri.name(), public.to_vec(), Usage::ALL),
            None => Self::by_name(options, uri.name()),
        }
    }

    fn new(options: &Arc<Options>, name: &str, spki: Vec<u8>, usage: Usage) -> Result<Self, Fault> {
        let key = Arc::new(Key::new(Public::from_spki(&spki)?, Private::Stored(name.to_owned())));
        Ok(Self { options: Arc::clone(options), key, spki, usage })
    }

    /// `SubjectPublicKeyInfo` in DER.
    pub(crate) fn public(&self) -> &[u8] {
        &self.spki
    }

    /// Preferred ones first.
    pub(crate) fn schemes(&self) -> &'static [u16] {
        if self.usage.contains(Usage::SIGN) { tls::schemes(&self.key.public) } else { &[] }
    }

    /// Of a signature and of a plaintext, bytes.
    pub(crate) fn max_len(&self) -> usize {
        self.key.public.max_len()
    }

    pub(crate) fn settings(&self, scheme: u16) -> Result<Settings, Fault> {
        let settings = tls::settings(scheme, &self.key.public);
        Ok(settings.ok_or_else(|| Failure::unsupported(format!("scheme {scheme:#06x} with this key")))?)
    }

    pub(crate) fn sign(&self, scheme: u16, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let settings = self.settings(scheme)?;
        Ok(settings.sign(Caller::thread(&self.options), &self.key, &input(&settings, message))?)
    }

    pub(crate) fn decrypt(&self, padding: u32, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let settings = decryption(padding).ok_or(Fault::Argument("padding"))?;
        Ok(settings.decrypt(Caller::thread(&self.options), &self.key, ciphertext)?)
    }
}

/// `enum sidecore_padding` of the header.
fn decryption(padding: u32) -> Option<decrypt::Settings> {
    let (padding, digest) = match padding {
        1 => (decrypt::Padding::Pkcs1, Digest::Sha1),
        2 => (decrypt::Padding::Oaep, Digest::Sha1),
        3 => (decrypt::Padding::Oaep, Digest::Sha256),
        4 => (decrypt::Padding::Oaep, Digest::Sha384),
        5 => (decrypt::Padding::Oaep, Digest::Sha512),
        _ => return None,
    };
    Some(decrypt::Settings { padding, digest, ..decrypt::Settings::default() })
}
