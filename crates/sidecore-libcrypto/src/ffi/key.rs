//! Keys: from PEM, DER and raw bytes, and by URI.

use super::{Context, Failure, FromDer, FromPem, FromRaw, Handle, Object, c_length, or_null, text};
use std::ptr;

/// A public key, or a private one with its public half. Whoever reads it is chosen by context and properties.
pub struct Key(pub(super) Handle);

impl Key {
    /// The private key in a PEM text: what servers do with the file of their configuration.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn private_pem(context: &Context, pem: &str, properties: &str) -> Result<Self, Failure> {
        from_pem(context, pem, properties, context.api.private_from_pem, "PEM_read_bio_PrivateKey_ex")
    }

    /// The public key in a PEM text.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn public_pem(context: &Context, pem: &str, properties: &str) -> Result<Self, Failure> {
        from_pem(context, pem, properties, context.api.public_from_pem, "PEM_read_bio_PUBKEY_ex")
    }

    /// The private key in PKCS#8.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn private_der(context: &Context, der: &[u8], properties: &str) -> Result<Self, Failure> {
        from_der(context, der, properties, context.api.private_from_der, "d2i_AutoPrivateKey_ex")
    }

    /// The public key in a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn public_der(context: &Context, der: &[u8], properties: &str) -> Result<Self, Failure> {
        from_der(context, der, properties, context.api.public_from_der, "d2i_PUBKEY_ex")
    }

    /// A private key of this kind, e.g. `X25519`, in its raw form.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn private_raw(context: &Context, kind: &str, key: &[u8], properties: &str) -> Result<Self, Failure> {
        from_raw(context, kind, key, properties, context.api.private_from_raw)
    }

    /// A public key of this kind in its raw form.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn public_raw(context: &Context, kind: &str, key: &[u8], properties: &str) -> Result<Self, Failure> {
        from_raw(context, kind, key, properties, context.api.public_from_raw)
    }

    /// The key at a URI.
    ///
    /// # Errors
    /// Nobody opens it, or there is no key.
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

    /// Whether it is of that kind, as RSA or EC, and has so many bits.
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

fn from_pem(context: &Context, pem: &str, properties: &str, read: FromPem, call: &'static str) -> Result<Key, Failure> {
    let (api, none, properties) = (context.api, ptr::null_mut(), text(properties)?);
    // SAFETY: the library only reads the bytes, and `pem` outlives the object, which this function frees.
    let bio = unsafe { (api.bio_new)(pem.as_ptr().cast(), c_length(pem.len(), call)?) };
    let bio = context.own(bio, api.bio_free, "BIO_new_mem_buf")?;
    // SAFETY: all are live; null means a new key, and no question for a pass phrase.
    let key = unsafe { read(bio.raw(), ptr::null_mut(), none, none, context.raw(), or_null(&properties)) };
    context.own(key, api.key_free, call).map(Key)
}

fn from_der(
    context: &Context,
    der: &[u8],
    properties: &str,
    read: FromDer,
    call: &'static str,
) -> Result<Key, Failure> {
    let (api, properties, mut position) = (context.api, text(properties)?, der.as_ptr());
    let length = c_length(der.len(), call)?.into();
    // SAFETY: the library reads at most `length` bytes from `position`, which it moves within them; the rest lives.
    let key = unsafe { read(ptr::null_mut(), &raw mut position, length, context.raw(), or_null(&properties)) };
    context.own(key, api.key_free, call).map(Key)
}

fn from_raw(context: &Context, kind: &str, key: &[u8], properties: &str, make: FromRaw) -> Result<Key, Failure> {
    let (api, kind, properties) = (context.api, text(kind)?, text(properties)?);
    // SAFETY: the context lives, the texts are C strings, the bytes are there.
    let key = unsafe { make(context.raw(), kind.as_ptr(), or_null(&properties), key.as_ptr(), key.len()) };
    context.own(key, api.key_free, "a raw key").map(Key)
}
