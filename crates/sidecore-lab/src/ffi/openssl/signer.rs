//! Signatures of one message under one key, through whichever provider the key's context and properties choose.

use std::ffi::{CStr, c_int};
use std::ptr;

use super::key::MAX_OUTPUT_BYTES;
use super::{Api, Context, Failure, Handle, Key, Object};

/// Signs the same input again and again, with a context that is set up once.
pub(crate) struct Signer<'a> {
    api: &'a Api,
    context: Handle<'a>,
    /// Whether the input is a message, not a digest.
    message: bool,
    input: Vec<u8>,
    output: [u8; MAX_OUTPUT_BYTES],
    length: usize,
}

impl<'a> Signer<'a> {
    /// Signs `input` with `key` in that library context (`None`: the default one) by implementations of these
    /// properties: a digest made by the digest of that name (RSA: PKCS#1 v1.5), or without one a message.
    pub(crate) fn new(
        key: &Key<'a>,
        library: Option<&Context<'a>>,
        properties: Option<&CStr>,
        digest: Option<&CStr>,
        input: &[u8],
    ) -> Result<Self, Failure> {
        let context = match digest {
            Some(digest) => key.signing_context(library, properties, digest)?,
            None => key.message_context(library, properties)?,
        };
        let message = digest.is_none();
        let (input, output) = (input.to_vec(), [0; MAX_OUTPUT_BYTES]);
        Ok(Self { api: key.api, context, message, input, output, length: 0 })
    }

    /// The name of the provider that signs.
    pub(crate) fn provider(&self) -> Result<String, Failure> {
        let call = "EVP_PKEY_CTX_get0_provider";
        let raw = self.context.raw();
        // SAFETY: the context is an EVP_MD_CTX with its key context, or that itself.
        let key_context = unsafe { if self.message { (self.api.message_key_context)(raw) } else { raw } };
        if key_context.is_null() {
            return Err(Failure::new(call, "the context has no key"));
        }
        // SAFETY: `key_context` is an EVP_PKEY_CTX.
        let provider = unsafe { (self.api.key_context_provider)(key_context) };
        if provider.is_null() {
            return Err(Failure::new(call, "no provider signs"));
        }
        // SAFETY: a provider's name is a string of it, and the context keeps the provider.
        Ok(unsafe { CStr::from_ptr((self.api.provider_name)(provider)) }.to_string_lossy().into_owned())
    }

    /// Signs.
    pub(crate) fn sign(&mut self) -> Result<(), Failure> {
        let status = self.run();
        self.check(status)
    }

    /// Signs; 1 is success. No allocation, no panic: it may stand on the small stack of a job.
    pub(super) fn run(&mut self) -> c_int {
        let (none, raw): (Object, Object) = (ptr::null_mut(), self.context.raw());
        self.length = self.output.len();
        let sign = if self.message {
            // SAFETY: the context has its key, which null leaves in place.
            let begun = unsafe { (self.api.message_sign_init)(raw, ptr::null_mut(), none, none, none) };
            if begun != 1 {
                return begun;
            }
            self.api.message_sign
        } else {
            self.api.sign
        };
        let (out, length) = (self.output.as_mut_ptr(), &raw mut self.length);
        // SAFETY: the library reads the bytes of `input` and writes at most `length` bytes, which `output` has.
        unsafe { sign(raw, out, length, self.input.as_ptr(), self.input.len()) }
    }

    pub(super) fn check(&self, status: c_int) -> Result<(), Failure> {
        self.api.check(status, if self.message { "EVP_DigestSign" } else { "EVP_PKEY_sign" })
    }

    pub(super) fn api(&self) -> &'a Api {
        self.api
    }

    /// The last signature.
    pub(crate) fn signature(&self) -> &[u8] {
        &self.output[..self.length.min(self.output.len())]
    }
}
