//! What is done with keys.

use super::{API, Context, Error, Init, Key, Owned, Transform, done, name_of, text};
use std::ffi::{c_int, c_uchar, c_void};
use std::ptr;

/// What an [`Operation`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Sign,
    Verify,
    VerifyRecover,
    Encrypt,
    Decrypt,
    Derive,
    Encapsulate,
    Decapsulate,
}

/// An `EVP_PKEY_CTX`.
pub(crate) struct Operation(Owned);

impl Operation {
    /// Begins, with an implementation that has these properties.
    pub(crate) fn new(context: &Context, key: &Key, properties: &str, action: Action) -> Result<Self, Error> {
        let properties = text(properties);
        // SAFETY: both live, the properties are a C string.
        let new = unsafe { (API.operation_new)(context.0.object, key.0.object, properties.as_ptr()) };
        let operation = Self(Owned::new(new, API.operation_free)?);
        let object = operation.0.object;
        let begin = |init: Init| {
            // SAFETY: the context lives.
            unsafe { init(object) }
        };
        let result = match action {
            Action::Sign => begin(API.sign_init),
            Action::Verify => begin(API.verify_init),
            Action::VerifyRecover => begin(API.recover_init),
            Action::Encrypt => begin(API.encrypt_init),
            Action::Decrypt => begin(API.decrypt_init),
            Action::Derive => begin(API.derive_init),
            // SAFETY: the context lives; no parameters.
            Action::Encapsulate => unsafe { (API.encapsulate_init)(object, ptr::null()) },
            // SAFETY: as above.
            Action::Decapsulate => unsafe { (API.decapsulate_init)(object, ptr::null()) },
        };
        done(result)?;
        Ok(operation)
    }

    /// Who does it.
    pub(crate) fn provider(&self) -> Option<String> {
        // SAFETY: the context lives, and its provider as long.
        unsafe { name_of((API.operation_provider)(self.0.object)) }
    }

    /// Sets what `openssl pkeyutl -pkeyopt NAME:VALUE` sets.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        // SAFETY: the context lives.
        unsafe { set(self.0.object, name, value) }
    }

    pub(crate) fn sign(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        self.transform(API.sign, input)
    }

    pub(crate) fn recover(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        self.transform(API.recover, input)
    }

    pub(crate) fn encrypt(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        self.transform(API.encrypt, input)
    }

    pub(crate) fn decrypt(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        self.transform(API.decrypt, input)
    }

    pub(crate) fn decapsulate(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        self.transform(API.decapsulate, input)
    }

    fn transform(&self, transform: Transform, input: &[u8]) -> Result<Vec<u8>, Error> {
        let mut len = 0;
        // SAFETY: without room only the length is answered.
        done(unsafe { transform(self.0.object, ptr::null_mut(), &raw mut len, input.as_ptr(), input.len()) })?;
        let mut room = vec![0; len];
        // SAFETY: the room has the length that was asked for.
        done(unsafe { transform(self.0.object, room.as_mut_ptr(), &raw mut len, input.as_ptr(), input.len()) })?;
        room.truncate(len);
        Ok(room)
    }

    pub(crate) fn verify(&self, signature: &[u8], input: &[u8]) -> Result<(), Error> {
        let (at, len) = (signature.as_ptr(), signature.len());
        // SAFETY: the context lives, the bytes are there.
        done(unsafe { (API.verify)(self.0.object, at, len, input.as_ptr(), input.len()) })
    }

    pub(crate) fn derive(&self, peer: &Key) -> Result<Vec<u8>, Error> {
        // SAFETY: both live.
        done(unsafe { (API.derive_peer)(self.0.object, peer.0.object) })?;
        let mut len = 0;
        // SAFETY: without room only the length is answered.
        done(unsafe { (API.derive)(self.0.object, ptr::null_mut(), &raw mut len) })?;
        let mut room = vec![0; len];
        // SAFETY: the room has the length that was asked for.
        done(unsafe { (API.derive)(self.0.object, room.as_mut_ptr(), &raw mut len) })?;
        room.truncate(len);
        Ok(room)
    }

    /// Encapsulation and secret.
    pub(crate) fn encapsulate(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let (mut sent_len, mut secret_len) = (0, 0);
        let object = self.0.object;
        let nowhere: *mut c_uchar = ptr::null_mut();
        // SAFETY: without room only the lengths are answered.
        done(unsafe { (API.encapsulate)(object, nowhere, &raw mut sent_len, nowhere, &raw mut secret_len) })?;
        let (mut sent, mut secret) = (vec![0; sent_len], vec![0; secret_len]);
        let (sent_at, secret_at) = (sent.as_mut_ptr(), secret.as_mut_ptr());
        // SAFETY: the room has the lengths that were asked for.
        done(unsafe { (API.encapsulate)(object, sent_at, &raw mut sent_len, secret_at, &raw mut secret_len) })?;
        sent.truncate(sent_len);
        secret.truncate(secret_len);
        Ok((sent, secret))
    }
}

/// # Safety
/// `object` is an `EVP_PKEY_CTX`.
unsafe fn set(object: super::Object, name: &str, value: &str) -> Result<(), Error> {
    let (name, value) = (text(name), text(value));
    // SAFETY: see above; both are C strings.
    done(unsafe { (API.operation_setting)(object, name.as_ptr(), value.as_ptr()) })
}

/// A message that is signed or verified: an `EVP_MD_CTX` with a key.
pub(crate) struct Message {
    context: Owned,
    key_context: super::Object,
    verifies: bool,
}

impl Message {
    /// Begins with a digest, or none where the algorithm has its own.
    pub(crate) fn new(
        context: &Context,
        key: &Key,
        properties: &str,
        digest: Option<&str>,
        verifies: bool,
    ) -> Result<Self, Error> {
        let (properties, digest) = (text(properties), digest.map(text));
        let init = if verifies { API.message_verify_init } else { API.message_sign_init };
        // SAFETY: asks nothing of its caller.
        let own = Owned::new(unsafe { (API.digest_context)() }, API.digest_context_free)?;
        let mut key_context = ptr::null_mut();
        let digest = digest.as_ref().map_or(ptr::null(), |digest| digest.as_ptr());
        let (library, key) = (context.0.object, key.0.object);
        // SAFETY: all live; the context for settings lives as long as this one.
        let begun =
            unsafe { init(own.object, &raw mut key_context, digest, library, properties.as_ptr(), key, ptr::null()) };
        done(begun)?;
        Ok(Self { context: own, key_context, verifies })
    }

    pub(crate) fn provider(&self) -> Option<String> {
        // SAFETY: the context for settings lives as long as `self`.
        unsafe { name_of((API.operation_provider)(self.key_context)) }
    }

    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        // SAFETY: as above.
        unsafe { set(self.key_context, name, value) }
    }

    pub(crate) fn update(&self, piece: &[u8]) -> Result<(), Error> {
        let update = if self.verifies { API.message_verify_update } else { API.message_sign_update };
        // SAFETY: the context lives, the bytes are there.
        done(unsafe { update(self.context.object, piece.as_ptr().cast::<c_void>(), piece.len()) })
    }

    /// The signature of all pieces.
    pub(crate) fn finish(&self) -> Result<Vec<u8>, Error> {
        in_two_steps(|room, len| {
            // SAFETY: without room only the length is answered; else the room has it.
            unsafe { (API.message_sign_final)(self.context.object, room, len) }
        })
    }

    /// The signature of a whole message.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        in_two_steps(|room, len| {
            // SAFETY: as above; the message is there.
            unsafe { (API.message_sign)(self.context.object, room, len, message.as_ptr(), message.len()) }
        })
    }

    /// Whether it is the signature of all pieces.
    pub(crate) fn check(&self, signature: &[u8]) -> Result<(), Error> {
        // SAFETY: the context lives, the bytes are there.
        done(unsafe { (API.message_verify_final)(self.context.object, signature.as_ptr(), signature.len()) })
    }

    /// Whether it is the signature of a whole message.
    pub(crate) fn verify(&self, signature: &[u8], message: &[u8]) -> Result<(), Error> {
        let (at, len) = (signature.as_ptr(), signature.len());
        // SAFETY: as above.
        done(unsafe { (API.message_verify)(self.context.object, at, len, message.as_ptr(), message.len()) })
    }
}

/// Asks for the length, then for the result.
fn in_two_steps(sign: impl Fn(*mut c_uchar, *mut usize) -> c_int) -> Result<Vec<u8>, Error> {
    let mut len = 0;
    done(sign(ptr::null_mut(), &raw mut len))?;
    let mut room = vec![0; len];
    done(sign(room.as_mut_ptr(), &raw mut len))?;
    room.truncate(len);
    Ok(room)
}
