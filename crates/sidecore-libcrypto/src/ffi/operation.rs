//! What is done with keys, each with a context that may be reused from operation to operation.

use super::{Api, Context, Failure, Handle, Init, Key, MessageInit, Object, Transform, or_null, text};
use std::ffi::{c_int, c_uchar};
use std::ptr;

/// What an [`Operation`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sign a digest.
    Sign,
    /// Verify the signature of a digest.
    Verify,
    /// Take what was signed out of a signature.
    VerifyRecover,
    /// Encrypt under the public half.
    Encrypt,
    /// Decrypt.
    Decrypt,
    /// Agree on a secret with the peer that was set. It has no input.
    Derive,
    /// Make a secret and its encapsulation.
    Encapsulate,
    /// The secret in an encapsulation.
    Decapsulate,
}

impl Action {
    /// How it begins, what makes a result of an input, if that is what it does, and the name of that.
    fn functions(self, api: &Api) -> (Init, Option<Transform>, &'static str) {
        match self {
            Self::Sign => (api.sign_init, Some(api.sign), "EVP_PKEY_sign"),
            Self::Verify => (api.verify_init, None, "EVP_PKEY_verify"),
            Self::VerifyRecover => (api.recover_init, Some(api.recover), "EVP_PKEY_verify_recover"),
            Self::Encrypt => (api.encrypt_init, Some(api.encrypt), "EVP_PKEY_encrypt"),
            Self::Decrypt => (api.decrypt_init, Some(api.decrypt), "EVP_PKEY_decrypt"),
            Self::Derive => (api.derive_init, None, "EVP_PKEY_derive"),
            Self::Encapsulate => (api.encapsulate_init, None, "EVP_PKEY_encapsulate"),
            Self::Decapsulate => (api.decapsulate_init, Some(api.decapsulate), "EVP_PKEY_decapsulate"),
        }
    }
}

/// An `EVP_PKEY_CTX`.
pub struct Operation {
    context: Handle,
    transform: Option<Transform>,
    call: &'static str,
}

impl Operation {
    /// Begins, with an implementation that has these properties.
    ///
    /// # Errors
    /// There is none for this key.
    pub fn new(context: &Context, key: &Key, properties: &str, action: Action) -> Result<Self, Failure> {
        let (api, properties) = (context.api, text(properties)?);
        let (init, transform, call) = action.functions(api);
        // SAFETY: all live; the new context takes a reference of its own to the key.
        let raw = unsafe { (api.operation_new)(context.raw(), key.0.raw(), or_null(&properties)) };
        let context = context.own(raw, api.operation_free, "EVP_PKEY_CTX_new_from_pkey")?;
        // SAFETY: the context lives; no parameters.
        api.check(unsafe { init(context.raw(), ptr::null()) }, call)?;
        Ok(Self { context, transform, call })
    }

    /// Who does it.
    pub fn provider(&self) -> Option<String> {
        // SAFETY: an EVP_PKEY_CTX.
        unsafe { provider_of(self.context.api, self.context.raw()) }
    }

    /// Sets what `openssl pkeyutl -pkeyopt NAME:VALUE` sets.
    ///
    /// # Errors
    /// The implementation has no such setting or value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Failure> {
        // SAFETY: an EVP_PKEY_CTX.
        unsafe { set(self.context.api, self.context.raw(), name, value) }
    }

    /// Sets whom to derive a secret with.
    ///
    /// # Errors
    /// The peer's key is of another kind.
    pub fn set_peer(&self, peer: &Key) -> Result<(), Failure> {
        let api = self.context.api;
        // SAFETY: both live; the context takes a reference of its own to the peer.
        api.check(unsafe { (api.derive_peer)(self.context.raw(), peer.0.raw()) }, "EVP_PKEY_derive_set_peer")
    }

    /// What it makes of the input, in the front of `out`; the length.
    ///
    /// # Errors
    /// The implementation refuses, or `out` is too short.
    pub fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        let mut length = out.len();
        // SAFETY: `out` has `length` bytes.
        let status = unsafe { self.transform(input, out.as_mut_ptr(), &raw mut length) };
        self.context.api.check(status, self.call)?;
        Ok(length)
    }

    /// What it makes of the input, after the implementation was asked for the length.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn result(&self, input: &[u8]) -> Result<Vec<u8>, Failure> {
        // SAFETY: null, or room for so many bytes.
        in_two_steps(self.context.api, self.call, |out, len| unsafe { self.transform(input, out, len) })
    }

    /// # Safety
    /// `out` is null, or has room for `len` bytes.
    unsafe fn transform(&self, input: &[u8], out: *mut c_uchar, len: *mut usize) -> c_int {
        let (api, raw) = (self.context.api, self.context.raw());
        match self.transform {
            // SAFETY: the context lives, the input is there; for `out` see above.
            Some(transform) => unsafe { transform(raw, out, len, input.as_ptr(), input.len()) },
            // SAFETY: as above. The library refuses where the context is not one for this.
            None => unsafe { (api.derive)(raw, out, len) },
        }
    }

    /// `Ok` if `signature` is one of `input`.
    ///
    /// # Errors
    /// It is not.
    pub fn verify(&self, signature: &[u8], input: &[u8]) -> Result<(), Failure> {
        let (api, at, len) = (self.context.api, signature.as_ptr(), signature.len());
        // SAFETY: the context lives, the bytes are there.
        api.check(unsafe { (api.verify)(self.context.raw(), at, len, input.as_ptr(), input.len()) }, self.call)
    }

    /// Encapsulation and secret.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn encapsulate(&self) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let (api, raw, nowhere) = (self.context.api, self.context.raw(), ptr::null_mut());
        let (mut sent_len, mut secret_len) = (0, 0);
        // SAFETY: without room only the lengths are answered.
        let status = unsafe { (api.encapsulate)(raw, nowhere, &raw mut sent_len, nowhere, &raw mut secret_len) };
        api.check(status, self.call)?;
        let (mut sent, mut secret) = (vec![0; sent_len], vec![0; secret_len]);
        let (sent_at, secret_at) = (sent.as_mut_ptr(), secret.as_mut_ptr());
        // SAFETY: the room has the lengths that were asked for.
        let status = unsafe { (api.encapsulate)(raw, sent_at, &raw mut sent_len, secret_at, &raw mut secret_len) };
        api.check(status, self.call)?;
        sent.truncate(sent_len);
        secret.truncate(secret_len);
        Ok((sent, secret))
    }
}

/// A message that is signed or verified: an `EVP_MD_CTX` with a key.
pub struct Message {
    context: Handle,
    key_context: Object,
    verifies: bool,
}

impl Message {
    /// Begins with a digest, or none where the algorithm has its own.
    ///
    /// # Errors
    /// There is no implementation with these properties for this key.
    pub fn new(
        context: &Context,
        key: &Key,
        properties: &str,
        digest: Option<&str>,
        verifies: bool,
    ) -> Result<Self, Failure> {
        let (api, properties, digest) = (context.api, text(properties)?, text(digest.unwrap_or_default())?);
        // SAFETY: asks nothing of its caller.
        let own = context.own(unsafe { (api.digest_context_new)() }, api.digest_context_free, "EVP_MD_CTX_new")?;
        let mut own = Self { context: own, key_context: ptr::null_mut(), verifies };
        let (begin, raw, key_context) = (own.begin(), own.context.raw(), &raw mut own.key_context);
        let (library, key) = (context.raw(), key.0.raw());
        // SAFETY: all live; the context makes its own key context, which refers to the key.
        let status =
            unsafe { begin(raw, key_context, or_null(&digest), library, or_null(&properties), key, ptr::null()) };
        api.check(status, "start of a message")?;
        Ok(own)
    }

    /// Starts another message with the key and the digest that it has, a fifth faster than if it took them again.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn again(&mut self) -> Result<(), Failure> {
        let (begin, raw, none) = (self.begin(), self.context.raw(), ptr::null());
        let (key_context, unchanged) = (&raw mut self.key_context, ptr::null_mut());
        // SAFETY: null keeps what the context has.
        let status = unsafe { begin(raw, key_context, none, unchanged, none, unchanged, ptr::null()) };
        self.context.api.check(status, "start of a message")
    }

    fn begin(&self) -> MessageInit {
        let api = self.context.api;
        if self.verifies { api.message_verify_init } else { api.message_sign_init }
    }

    /// Who does it.
    pub fn provider(&self) -> Option<String> {
        // SAFETY: the context for settings lives as long as `self`.
        unsafe { provider_of(self.context.api, self.key_context) }
    }

    /// As [`Operation::set`].
    ///
    /// # Errors
    /// The implementation has no such setting or value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Failure> {
        // SAFETY: as above.
        unsafe { set(self.context.api, self.key_context, name, value) }
    }

    /// Adds a piece of the message.
    ///
    /// # Errors
    /// The implementation takes whole messages only.
    pub fn update(&self, piece: &[u8]) -> Result<(), Failure> {
        let api = self.context.api;
        let update = if self.verifies { api.message_verify_update } else { api.message_sign_update };
        // SAFETY: the context lives, the bytes are there.
        api.check(unsafe { update(self.context.raw(), piece.as_ptr().cast(), piece.len()) }, "EVP_DigestSignUpdate")
    }

    /// The signature of all pieces.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn finish(&self) -> Result<Vec<u8>, Failure> {
        let api = self.context.api;
        // SAFETY: the context lives; null, or room for so many bytes.
        let finish = |out, len| unsafe { (api.message_sign_final)(self.context.raw(), out, len) };
        in_two_steps(api, "EVP_DigestSignFinal", finish)
    }

    /// The signature of a whole message, in the front of `out`; the length.
    ///
    /// # Errors
    /// The implementation refuses, or `out` is too short.
    pub fn run(&mut self, message: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        let mut length = out.len();
        // SAFETY: `out` has `length` bytes.
        let status = unsafe { self.sign_to(message, out.as_mut_ptr(), &raw mut length) };
        self.context.api.check(status, "EVP_DigestSign")?;
        Ok(length)
    }

    /// The signature of a whole message, after the implementation was asked for the length.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        // SAFETY: null, or room for so many bytes.
        in_two_steps(self.context.api, "EVP_DigestSign", |out, len| unsafe { self.sign_to(message, out, len) })
    }

    /// # Safety
    /// `out` is null, or has room for `len` bytes.
    unsafe fn sign_to(&self, message: &[u8], out: *mut c_uchar, len: *mut usize) -> c_int {
        // SAFETY: the context lives, the message is there; for `out` see above.
        unsafe { (self.context.api.message_sign)(self.context.raw(), out, len, message.as_ptr(), message.len()) }
    }

    /// `Ok` if it is the signature of all pieces.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, signature: &[u8]) -> Result<(), Failure> {
        let (api, at, len) = (self.context.api, signature.as_ptr(), signature.len());
        // SAFETY: the context lives, the bytes are there.
        api.check(unsafe { (api.message_verify_final)(self.context.raw(), at, len) }, "EVP_DigestVerifyFinal")
    }

    /// `Ok` if it is the signature of a whole message.
    ///
    /// # Errors
    /// It is not.
    pub fn verify(&self, signature: &[u8], message: &[u8]) -> Result<(), Failure> {
        let (api, at, len) = (self.context.api, signature.as_ptr(), signature.len());
        // SAFETY: as above.
        let status = unsafe { (api.message_verify)(self.context.raw(), at, len, message.as_ptr(), message.len()) };
        api.check(status, "EVP_DigestVerify")
    }
}

/// # Safety
/// `context` is null or an `EVP_PKEY_CTX`.
unsafe fn provider_of(api: &Api, context: Object) -> Option<String> {
    // SAFETY: see above; the context keeps its provider.
    (!context.is_null()).then(|| unsafe { api.name_of((api.operation_provider)(context)) })?
}

/// # Safety
/// `context` is an `EVP_PKEY_CTX`.
unsafe fn set(api: &Api, context: Object, name: &str, value: &str) -> Result<(), Failure> {
    let (name, value) = (text(name)?, text(value)?);
    // SAFETY: see above; both are C strings.
    api.check(unsafe { (api.operation_setting)(context, name.as_ptr(), value.as_ptr()) }, "EVP_PKEY_CTX_ctrl_str")
}

/// Asks `make` for the length, without room for the result, then for the result.
fn in_two_steps(
    api: &Api,
    call: &'static str,
    make: impl Fn(*mut c_uchar, *mut usize) -> c_int,
) -> Result<Vec<u8>, Failure> {
    let mut len = 0;
    api.check(make(ptr::null_mut(), &raw mut len), call)?;
    let mut room = vec![0; len];
    api.check(make(room.as_mut_ptr(), &raw mut len), call)?;
    room.truncate(len);
    Ok(room)
}
