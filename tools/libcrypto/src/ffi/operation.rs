//! Operations with keys, each with a context that may be reused from operation to operation.

use super::{Api, Context, Failure, Handle, Init, Key, MessageInit, Object, Transform, Update, or_null, text};
use std::ffi::{c_int, c_uchar};
use std::ptr;

/// Kind of an [`Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sign a digest.
    Sign,
    /// Verify the signature of a digest.
    Verify,
    /// Recover the signed input from a signature.
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
    /// Its beginning; its transform of an input, if it has one; and the name of its main function.
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

/// An operation that is set up once with a key: on single inputs, or on messages.
pub struct Operation {
    /// An `EVP_PKEY_CTX`, or an `EVP_MD_CTX` for messages.
    context: Handle,
    /// The `EVP_PKEY_CTX` in both cases.
    settings: Object,
    transform: Option<Transform>,
    call: &'static str,
    messages: Option<Messages>,
}

#[derive(Clone, Copy)]
struct Messages {
    begin: MessageInit,
    update: Update,
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
        api.check(unsafe { init(raw, ptr::null()) }, call)?;
        Ok(Self { context, settings: raw, transform, call, messages: None })
    }

    /// Begins to sign or verify messages, with a digest, or none where the algorithm has its own.
    ///
    /// # Errors
    /// There is no implementation with these properties for this key.
    pub fn on_messages(
        context: &Context,
        key: &Key,
        properties: &str,
        digest: Option<&str>,
        verifies: bool,
    ) -> Result<Self, Failure> {
        let (api, properties, digest) = (context.api, text(properties)?, text(digest.unwrap_or_default())?);
        let (begin, update, call) = if verifies {
            (api.message_verify_init, api.message_verify_update, "EVP_DigestVerify")
        } else {
            (api.message_sign_init, api.message_sign_update, "EVP_DigestSign")
        };
        // SAFETY: asks nothing of its caller.
        let own = context.own(unsafe { (api.digest_context_new)() }, api.digest_context_free, "EVP_MD_CTX_new")?;
        let (library, key, mut settings) = (context.raw(), key.0.raw(), ptr::null_mut());
        let (digest, properties) = (or_null(&digest), or_null(&properties));
        // SAFETY: all live; the context makes its own key context, which refers to the key.
        let status = unsafe { begin(own.raw(), &raw mut settings, digest, library, properties, key, ptr::null()) };
        api.check(status, call)?;
        let messages = Some(Messages { begin, update });
        Ok(Self { context: own, settings, transform: Some(api.message_sign), call, messages })
    }

    /// Starts another message with the present key and digest, a fifth faster than with a new setup. Operations
    /// without messages need no start.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn again(&mut self) -> Result<(), Failure> {
        let Some(Messages { begin, .. }) = self.messages else { return Ok(()) };
        let (raw, settings, same) = (self.context.raw(), &raw mut self.settings, ptr::null_mut());
        // SAFETY: an EVP_MD_CTX; null keeps what it has.
        let status = unsafe { begin(raw, settings, ptr::null(), same, ptr::null(), same, ptr::null()) };
        self.context.api.check(status, self.call)
    }

    /// The provider of the implementation.
    pub fn provider(&self) -> Option<String> {
        let api = self.context.api;
        // SAFETY: an EVP_PKEY_CTX, which keeps its provider.
        unsafe { api.name_of((api.operation_provider)(self.settings)) }
    }

    /// Sets the value of `openssl pkeyutl -pkeyopt NAME:VALUE`.
    ///
    /// # Errors
    /// The implementation has no such setting or value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Failure> {
        let (api, name, value) = (self.context.api, text(name)?, text(value)?);
        // SAFETY: an EVP_PKEY_CTX; both are C strings.
        let status = unsafe { (api.operation_setting)(self.settings, name.as_ptr(), value.as_ptr()) };
        api.check(status, "EVP_PKEY_CTX_ctrl_str")
    }

    /// Sets the peer of a derivation.
    ///
    /// # Errors
    /// The peer's key is of another kind.
    pub fn set_peer(&self, peer: &Key) -> Result<(), Failure> {
        let api = self.context.api;
        // SAFETY: an EVP_PKEY_CTX; the context takes a reference of its own to the peer.
        api.check(unsafe { (api.derive_peer)(self.settings, peer.0.raw()) }, "EVP_PKEY_derive_set_peer")
    }

    /// Writes the result for the input (for a message: its signature) to the front of `out`; returns its length.
    ///
    /// # Errors
    /// The implementation refuses, or `out` is too short.
    pub fn run(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.again()?;
        let mut length = out.len();
        // SAFETY: `out` has `length` bytes.
        let status = unsafe { self.transform(input, out.as_mut_ptr(), &raw mut length) };
        self.context.api.check(status, self.call)?;
        Ok(length)
    }

    /// The result for the input, after a call for its length.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn result(&self, input: &[u8]) -> Result<Vec<u8>, Failure> {
        // SAFETY: null, or room for so many bytes.
        self.in_two_steps(|out, len| unsafe { self.transform(input, out, len) })
    }

    /// # Safety
    /// `out` is null, or has room for `len` bytes.
    unsafe fn transform(&self, input: &[u8], out: *mut c_uchar, len: *mut usize) -> c_int {
        match self.transform {
            // SAFETY: it is one for this kind of context, the input is there; for `out` see above.
            Some(transform) => unsafe { transform(self.context.raw(), out, len, input.as_ptr(), input.len()) },
            // SAFETY: an EVP_PKEY_CTX, and where it is not one for this the library refuses; for `out` see above.
            None => unsafe { (self.context.api.derive)(self.settings, out, len) },
        }
    }

    /// `Ok` if `signature` is a valid one of `input`.
    ///
    /// # Errors
    /// It is not.
    pub fn verify(&self, signature: &[u8], input: &[u8]) -> Result<(), Failure> {
        let (api, at, len) = (self.context.api, signature.as_ptr(), signature.len());
        let verify = if self.messages.is_some() { api.message_verify } else { api.verify };
        // SAFETY: it is the one for this kind of context, the bytes are there.
        api.check(unsafe { verify(self.context.raw(), at, len, input.as_ptr(), input.len()) }, self.call)
    }

    /// Adds a piece of a message.
    ///
    /// # Errors
    /// The operation takes none, or whole messages only.
    pub fn update(&self, piece: &[u8]) -> Result<(), Failure> {
        let Messages { update, .. } = self.messages()?;
        // SAFETY: an EVP_MD_CTX, and the bytes are there.
        self.context.api.check(unsafe { update(self.context.raw(), piece.as_ptr().cast(), piece.len()) }, self.call)
    }

    /// The signature of all pieces.
    ///
    /// # Errors
    /// There are no pieces, or the implementation refuses.
    pub fn finish(&self) -> Result<Vec<u8>, Failure> {
        self.messages()?;
        // SAFETY: an EVP_MD_CTX; null, or room for so many bytes.
        self.in_two_steps(|out, len| unsafe { (self.context.api.message_sign_final)(self.context.raw(), out, len) })
    }

    /// `Ok` if it is the signature of all pieces.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, signature: &[u8]) -> Result<(), Failure> {
        self.messages()?;
        let (api, at, len) = (self.context.api, signature.as_ptr(), signature.len());
        // SAFETY: an EVP_MD_CTX, and the bytes are there.
        api.check(unsafe { (api.message_verify_final)(self.context.raw(), at, len) }, self.call)
    }

    fn messages(&self) -> Result<Messages, Failure> {
        self.messages.ok_or_else(|| Failure::new(self.call, "it takes no messages"))
    }

    /// Encapsulation and secret.
    ///
    /// # Errors
    /// The implementation refuses.
    pub fn encapsulate(&self) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let (api, raw, nowhere) = (self.context.api, self.settings, ptr::null_mut());
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

    /// Calls `make` for the length, without room for the result, then for the result.
    fn in_two_steps(&self, make: impl Fn(*mut c_uchar, *mut usize) -> c_int) -> Result<Vec<u8>, Failure> {
        let (api, mut len) = (self.context.api, 0);
        api.check(make(ptr::null_mut(), &raw mut len), self.call)?;
        let mut room = vec![0; len];
        api.check(make(room.as_mut_ptr(), &raw mut len), self.call)?;
        room.truncate(len);
        Ok(room)
    }
}
