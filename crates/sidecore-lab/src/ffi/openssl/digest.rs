//! Digests and HMAC, each with a context that is reused from message to message.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;

use super::{Api, Failure, Handle};

/// Room for any digest and any HMAC.
pub(crate) const MAX_DIGEST_BYTES: usize = 64;

const UTF8_STRING: c_uint = 4;
const UNMODIFIED: usize = usize::MAX;

/// `OSSL_PARAM`: one named parameter of an algorithm; a null key ends a list of them.
#[repr(C)]
pub(crate) struct Parameter {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

impl Parameter {
    const END: Self =
        Self { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: UNMODIFIED };

    fn text(key: &'static CStr, value: &CStr) -> Self {
        Self {
            key: key.as_ptr(),
            data_type: UTF8_STRING,
            data: value.as_ptr().cast_mut().cast(),
            data_size: value.count_bytes(),
            return_size: UNMODIFIED,
        }
    }
}

/// A digest algorithm with its context.
pub(crate) struct Digest<'a> {
    api: &'a Api,
    algorithm: Handle<'a>,
    context: Handle<'a>,
}

impl<'a> Digest<'a> {
    /// The digest of that name, e.g. `SHA256`.
    pub(crate) fn new(api: &'a Api, name: &CStr) -> Result<Self, Failure> {
        let algorithm = api.digest(name)?;
        // SAFETY: takes nothing.
        let raw = unsafe { (api.digest_context_new)() };
        let context = api.own(raw, api.digest_context_free, "EVP_MD_CTX_new")?;
        Ok(Self { api, algorithm, context })
    }

    /// Digests `message` into the front of `out`; the digest's length.
    pub(crate) fn digest(&mut self, message: &[u8], out: &mut [u8; MAX_DIGEST_BYTES]) -> Result<usize, Failure> {
        let (api, context) = (self.api, self.context.raw());
        let mut length = 0;
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
pub(crate) struct Mac<'a> {
    api: &'a Api,
    context: Handle<'a>,
}

impl<'a> Mac<'a> {
    /// HMAC over the digest of that name, e.g. `SHA256`, set up with `key`.
    pub(crate) fn hmac(api: &'a Api, digest: &CStr, key: &[u8]) -> Result<Self, Failure> {
        let algorithm = api.fetch(api.mac_fetch, api.mac_free, c"HMAC")?;
        // SAFETY: `algorithm` is an EVP_MAC, to which the context keeps a reference of its own.
        let raw = unsafe { (api.mac_context_new)(algorithm.raw()) };
        let context = api.own(raw, api.mac_context_free, "EVP_MAC_CTX_new")?;
        let parameters = [Parameter::text(c"digest", digest), Parameter::END];
        // SAFETY: the library reads the bytes of `key` and the list of parameters up to its end, and keeps copies.
        let status = unsafe { (api.mac_init)(context.raw(), key.as_ptr(), key.len(), parameters.as_ptr()) };
        api.check(status, "EVP_MAC_init")?;
        Ok(Self { api, context })
    }

    /// Writes the tag over `message` into the front of `out`; the tag's length.
    pub(crate) fn tag(&mut self, message: &[u8], out: &mut [u8; MAX_DIGEST_BYTES]) -> Result<usize, Failure> {
        let (api, context) = (self.api, self.context.raw());
        let mut length = 0;
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
