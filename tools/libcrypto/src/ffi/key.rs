//! Keys: from PEM, DER and raw bytes, and by URI.

use super::{Context, Failure, Handle, Object, c_length, or_null, text};
use std::ptr;

/// A public key, or a private one with its public half. Context and properties choose the provider that reads it.
pub struct Key(pub(super) Handle);

/// Which half of a pair a document holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The private one, which includes the public one.
    Private,
    /// The public one.
    Public,
}

impl Key {
    /// The key in a PEM text, read as servers read the file of their configuration.
    ///
    /// # Errors
    /// No provider reads it.
    pub fn from_pem(context: &Context, half: Half, pem: &str, properties: &str) -> Result<Self, Failure> {
        let (api, none, properties) = (context.api, ptr::null_mut(), text(properties)?);
        let (read, call) = match half {
            Half::Private => (api.private_from_pem, "PEM_read_bio_PrivateKey_ex"),
            Half::Public => (api.public_from_pem, "PEM_read_bio_PUBKEY_ex"),
        };
        // SAFETY: the library only reads the bytes, and `pem` outlives the object, which this function frees.
        let bio = unsafe { (api.bio_new)(pem.as_ptr().cast(), c_length(pem.len(), call)?) };
        let bio = context.own(bio, api.bio_free, "BIO_new_mem_buf")?;
        // SAFETY: all are live; null means a new key, and no question for a pass phrase.
        let key = unsafe { read(bio.raw(), ptr::null_mut(), none, none, context.raw(), or_null(&properties)) };
        context.own(key, api.key_free, call).map(Self)
    }

    /// The key in a document in DER: PKCS#8, or `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// No provider reads it.
    pub fn from_der(context: &Context, half: Half, der: &[u8], properties: &str) -> Result<Self, Failure> {
        let (api, properties, mut position) = (context.api, text(properties)?, der.as_ptr());
        let (read, call) = match half {
            Half::Private => (api.private_from_der, "d2i_AutoPrivateKey_ex"),
            Half::Public => (api.public_from_der, "d2i_PUBKEY_ex"),
        };
        let length = c_length(der.len(), call)?.into();
        // SAFETY: the library reads at most `length` bytes from `position`, which it moves within them; the rest lives.
        let key = unsafe { read(ptr::null_mut(), &raw mut position, length, context.raw(), or_null(&properties)) };
        context.own(key, api.key_free, call).map(Self)
    }

    /// A key of this kind, e.g. `X25519`, in its raw form.
    ///
    /// # Errors
    /// No provider reads it.
    pub fn from_raw(
        context: &Context,
        half: Half,
        (kind, key): (&str, &[u8]),
        properties: &str,
    ) -> Result<Self, Failure> {
        let (api, kind, properties) = (context.api, text(kind)?, text(properties)?);
        let (read, call) = match half {
            Half::Private => (api.private_from_raw, "EVP_PKEY_new_raw_private_key_ex"),
            Half::Public => (api.public_from_raw, "EVP_PKEY_new_raw_public_key_ex"),
        };
        // SAFETY: the context lives, the texts are C strings, the bytes are there.
        let key = unsafe { read(context.raw(), kind.as_ptr(), or_null(&properties), key.as_ptr(), key.len()) };
        context.own(key, api.key_free, call).map(Self)
    }

    /// The key at a URI.
    ///
    /// # Errors
    /// No provider opens it, or there is no key.
    pub fn stored(context: &Context, uri: &str, properties: &str) -> Result<Self, Failure> {
        let (uri, properties) = (text(uri)?, text(properties)?);
        let (api, none, none_set) = (context.api, ptr::null_mut(), ptr::null());
        // SAFETY: the context lives, the texts are C strings; what there is none of is null.
        let store = unsafe {
            let properties = or_null(&properties);
            (api.store_open)(uri.as_ptr(), context.raw(), properties, none, none, none_set, none, none)
        };
        if store.is_null() {
            return Err(api.failure("OSSL_STORE_open_ex"));
        }
        let mut key: Object = none;
        // SAFETY: the store lives until it is closed; an info is freed here, and the key is the caller's.
        unsafe {
            while key.is_null() && (api.store_eof)(store) == 0 {
                let info = (api.store_load)(store);
                if !info.is_null() {
                    key = (api.info_key)(info);
                    (api.info_free)(info);
                }
            }
            (api.store_close)(store);
        }
        context.own(key, api.key_free, "OSSL_STORE_load").map(Self)
    }

    /// Whether it is of that kind, e.g. RSA or EC, and has that number of bits.
    pub fn is(&self, kind: &str, bits: usize) -> bool {
        let (api, raw) = (self.0.api, self.0.raw());
        // SAFETY: an EVP_PKEY, and the name is a C string.
        let is_a = text(kind).is_ok_and(|kind| unsafe { (api.key_is_a)(raw, kind.as_ptr()) } == 1);
        // SAFETY: as above.
        is_a && usize::try_from(unsafe { (api.key_bits)(raw) }) == Ok(bits)
    }

    /// The provider that has the key.
    pub fn provider(&self) -> Option<String> {
        let api = self.0.api;
        // SAFETY: the key lives, and its provider as long.
        unsafe { api.name_of((api.key_provider)(self.0.raw())) }
    }

    /// Whether both have the same public part.
    pub fn equals(&self, other: &Self) -> bool {
        // SAFETY: both live.
        unsafe { (self.0.api.key_equal)(self.0.raw(), other.0.raw()) == 1 }
    }
}
