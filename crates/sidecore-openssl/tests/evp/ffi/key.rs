//! Keys: from PEM, from raw bytes, by URI.

use super::{API, Context, Error, FromPem, Object, Owned, Raw, name_of, text};
use std::ffi::{c_int, c_long, c_uchar};
use std::ptr;

/// An `EVP_PKEY`.
pub(crate) struct Key(pub(super) Owned);

impl Key {
    /// The private key in a PEM text, read with these properties.
    pub(crate) fn private_pem(context: &Context, pem: &str, properties: &str) -> Result<Self, Error> {
        from_pem(context, pem, properties, API.private_from_pem)
    }

    /// The public key in a PEM text.
    pub(crate) fn public_pem(context: &Context, pem: &str, properties: &str) -> Result<Self, Error> {
        from_pem(context, pem, properties, API.public_from_pem)
    }

    /// The public key in a `SubjectPublicKeyInfo`.
    pub(crate) fn public_der(context: &Context, der: &[u8], properties: &str) -> Result<Self, Error> {
        from_der(context, der, properties, API.public_from_der)
    }

    /// The private key in PKCS#8.
    pub(crate) fn private_der(context: &Context, der: &[u8], properties: &str) -> Result<Self, Error> {
        from_der(context, der, properties, API.private_from_der)
    }

    /// A private key of this type in its raw form.
    pub(crate) fn raw_private(context: &Context, kind: &str, key: &[u8], properties: &str) -> Result<Self, Error> {
        raw(context, kind, key, properties, API.raw_private)
    }

    /// A public key of this type in its raw form.
    pub(crate) fn raw_public(context: &Context, kind: &str, key: &[u8], properties: &str) -> Result<Self, Error> {
        raw(context, kind, key, properties, API.raw_public)
    }

    /// The key at a URI.
    pub(crate) fn stored(context: &Context, uri: &str, properties: &str) -> Result<Self, Error> {
        let (uri, properties) = (text(uri), text(properties));
        let nobody = ptr::null_mut();
        // SAFETY: the context lives, the texts are C strings; what there is none of is null.
        let store = unsafe {
            (API.store_open)(
                uri.as_ptr(),
                context.0.object,
                properties.as_ptr(),
                nobody,
                nobody,
                ptr::null(),
                nobody,
                nobody,
            )
        };
        let store = Owned::new(store, close)?;
        let mut key: Object = ptr::null_mut();
        // SAFETY: the store lives.
        while key.is_null() && unsafe { (API.store_eof)(store.object) } == 0 {
            // SAFETY: as above.
            let info = unsafe { (API.store_load)(store.object) };
            if !info.is_null() {
                // SAFETY: an info, which is freed here; the key is the caller's.
                unsafe {
                    key = (API.info_key)(info);
                    (API.info_free)(info);
                }
            }
        }
        Owned::new(key, API.key_free).map(Self)
    }

    /// The provider that has the key.
    pub(crate) fn provider(&self) -> Option<String> {
        // SAFETY: the key lives, and its provider as long.
        unsafe { name_of((API.key_provider)(self.0.object)) }
    }

    /// Whether both have the same public part.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        // SAFETY: both live.
        unsafe { (API.key_equal)(self.0.object, other.0.object) == 1 }
    }
}

/// # Safety
/// `store` is a store, closed once.
unsafe extern "C" fn close(store: Object) {
    // SAFETY: see above.
    unsafe { (API.store_close)(store) };
}

/// # Safety
/// `bio` is a BIO, freed once.
unsafe extern "C" fn free_bio(bio: Object) {
    // SAFETY: see above.
    unsafe { (API.bio_free)(bio) };
}

fn from_pem(context: &Context, pem: &str, properties: &str, read: FromPem) -> Result<Key, Error> {
    let properties = text(properties);
    // SAFETY: the text lives as long as the BIO.
    let bio = Owned::new(unsafe { (API.bio_new)(pem.as_ptr().cast(), len(pem.as_bytes())) }, free_bio)?;
    let nobody = ptr::null_mut();
    // SAFETY: all live; nobody is asked for a passphrase.
    let key = unsafe { read(bio.object, ptr::null_mut(), nobody, nobody, context.0.object, properties.as_ptr()) };
    Owned::new(key, API.key_free).map(Key)
}

fn len(bytes: &[u8]) -> c_int {
    c_int::try_from(bytes.len()).expect("keys are short")
}

type FromDer =
    unsafe extern "C" fn(*mut Object, *mut *const c_uchar, c_long, Object, *const std::ffi::c_char) -> Object;

fn from_der(context: &Context, der: &[u8], properties: &str, read: FromDer) -> Result<Key, Error> {
    let properties = text(properties);
    let mut at = der.as_ptr();
    // SAFETY: so many bytes are there; context and properties live.
    let key = unsafe { read(ptr::null_mut(), &raw mut at, len(der).into(), context.0.object, properties.as_ptr()) };
    Owned::new(key, API.key_free).map(Key)
}

fn raw(context: &Context, kind: &str, key: &[u8], properties: &str, make: Raw) -> Result<Key, Error> {
    let (kind, properties) = (text(kind), text(properties));
    // SAFETY: the context lives, the texts are C strings, the bytes are there.
    let key = unsafe { make(context.0.object, kind.as_ptr(), properties.as_ptr(), key.as_ptr(), key.len()) };
    Owned::new(key, API.key_free).map(Key)
}
