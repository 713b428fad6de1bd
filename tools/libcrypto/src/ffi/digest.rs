//! Digests and HMAC, each with a context that is reused from message to message.

use super::{Context, Failure, Handle, text};
use std::ffi::{c_char, c_uint, c_void};
use std::ptr;

/// Room for any digest and any HMAC, bytes.
pub const MAX_DIGEST_BYTES: usize = 64;

const UTF8_STRING: c_uint = 4;
const UNMODIFIED: usize = usize::MAX;

/// `OSSL_PARAM`: one named parameter of an algorithm; a null key ends a list of them.
#[repr(C)]
pub(super) struct Parameter {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

impl Parameter {
    const END: Self =
        Self { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: UNMODIFIED };
}

/// A digest algorithm with its context.
pub struct Digest {
    algorithm: Handle,
    context: Handle,
}

impl Digest {
    /// The digest of that name, e.g. `SHA256`.
    ///
    /// # Errors
    /// There is none.
    pub fn new(context: &Context, name: &str) -> Result<Self, Failure> {
        let api = context.api;
        let algorithm = context.fetch(api.digest_fetch, api.digest_free, name, "")?;
        let context = api.make(api.digest_context_new, api.digest_context_free, "EVP_MD_CTX_new")?;
        Ok(Self { algorithm, context })
    }

    /// Digests `message` into the front of `out`; returns the digest's length.
    ///
    /// # Errors
    /// The library refuses.
    pub fn digest(&mut self, message: &[u8], out: &mut [u8; MAX_DIGEST_BYTES]) -> Result<usize, Failure> {
        let (api, context, mut length) = (self.context.api, self.context.raw(), 0);
        // SAFETY: context and algorithm are live.
        api.check(unsafe { (api.digest_init)(context, self.algorithm.raw(), ptr::null_mut()) }, "EVP_DigestInit_ex")?;
        // SAFETY: the library reads the bytes of `message`.
        let status = unsafe { (api.digest_update)(context, message.as_ptr().cast(), message.len()) };
        api.check(status, "EVP_DigestUpdate")?;
        // SAFETY: no digest is longer than EVP_MAX_MD_SIZE, which is the length of `out`.
        let status = unsafe { (api.digest_final)(context, out.as_mut_ptr(), &raw mut length) };
        api.check(status, "EVP_DigestFinal_ex")?;
        Ok(length as usize)
    }
}

/// HMAC with its key.
pub struct Mac(Handle);

impl Mac {
    /// HMAC over the digest of that name, e.g. `SHA256`, set up with `key`.
    ///
    /// # Errors
    /// There is no such digest.
    pub fn hmac(context: &Context, digest: &str, key: &[u8]) -> Result<Self, Failure> {
        let (api, digest) = (context.api, text(digest)?);
        let algorithm = context.fetch(api.mac_fetch, api.mac_free, "HMAC", "")?;
        // SAFETY: `algorithm` is an EVP_MAC, to which the context keeps a reference of its own.
        let raw = unsafe { (api.mac_context_new)(algorithm.raw()) };
        let context = context.own(raw, api.mac_context_free, "EVP_MAC_CTX_new")?;
        let named = Parameter {
            key: c"digest".as_ptr(),
            data_type: UTF8_STRING,
            data: digest.as_ptr().cast_mut().cast(),
            data_size: digest.count_bytes(),
            ..Parameter::END
        };
        let parameters = [named, Parameter::END];
        // SAFETY: the library reads the bytes of `key` and the list of parameters up to its end, and keeps copies.
        let status = unsafe { (api.mac_init)(context.raw(), key.as_ptr(), key.len(), parameters.as_ptr()) };
        api.check(status, "EVP_MAC_init")?;
        Ok(Self(context))
    }

    /// Writes the tag over `message` into the front of `out`; returns the tag's length.
    ///
    /// # Errors
    /// The library refuses.
    pub fn tag(&mut self, message: &[u8], out: &mut [u8; MAX_DIGEST_BYTES]) -> Result<usize, Failure> {
        let (api, context, mut length) = (self.0.api, self.0.raw(), 0);
        // SAFETY: null starts a new message under the key and the parameters that the context has.
        api.check(unsafe { (api.mac_init)(context, ptr::null(), 0, ptr::null()) }, "EVP_MAC_init")?;
        // SAFETY: the library reads the bytes of `message`.
        api.check(unsafe { (api.mac_update)(context, message.as_ptr(), message.len()) }, "EVP_MAC_update")?;
        // SAFETY: the library writes at most `out.len()` bytes.
        let status = unsafe { (api.mac_final)(context, out.as_mut_ptr(), &raw mut length, out.len()) };
        api.check(status, "EVP_MAC_final")?;
        Ok(length)
    }
}
