//! OpenSSL's libcrypto, loaded at run time, behind types that own what they allocate.
//!
//! No header and no import library is needed to build this: the functions of the stable ABI of OpenSSL 3 are looked up
//! by name. [`Api`] is that table; [`Handle`] frees an object with the function that belongs to it.

mod cipher;
mod digest;
mod job;
mod key;
mod library;
mod signer;

pub(crate) use cipher::Cipher;
pub(crate) use digest::{Digest, Mac};
pub(crate) use job::{Job, Jobs, Step, jobs_are_possible};
pub(crate) use key::{Action, Key, KeyKind, MessageSigner, MessageVerifier, Transform, Verifier};
pub(crate) use library::Context;
pub(crate) use signer::Signer;

use std::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use libloading::Library;

/// Any object of libcrypto: an `EVP_CIPHER`, an `EVP_PKEY`, …; [`Handle`] keeps the kinds apart.
type Object = *mut c_void;
/// `EVP_CIPHER_free` and its like.
type Free = unsafe extern "C" fn(Object);
/// `EVP_CIPHER_fetch` and its like: library context, name, properties.
type Fetch = unsafe extern "C" fn(Object, *const c_char, *const c_char) -> Object;
/// `EVP_PKEY_sign` and its like: context, output, its length, input, its length.
type Transforming = unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
/// `EVP_PKEY_sign_init` and its like.
type Init = unsafe extern "C" fn(Object) -> c_int;

/// `EVP_DigestSignInit` and its like: context, where to put the key context, digest, engine, key.
type MessageInit = unsafe extern "C" fn(Object, *mut Object, Object, Object, Object) -> c_int;

/// `EVP_DigestSignInit_ex`: context, where to put the key context, digest's name, library context, properties, key,
/// parameters.
type MessageInitIn = unsafe extern "C" fn(
    Object,
    *mut Object,
    *const c_char,
    Object,
    *const c_char,
    Object,
    *const digest::Parameter,
) -> c_int;
/// What an asynchronous job runs: it gets a copy of the bytes that were given with it.
type JobFunction = unsafe extern "C" fn(*mut c_void) -> c_int;

/// File names of OpenSSL 3's libcrypto, the versioned one first.
const FILES: [&str; 2] = ["libcrypto.so.3", "libcrypto.so"];
const REASON_BYTES: usize = 256;

macro_rules! symbols {
    ($($field:ident = $symbol:literal: $signature:ty;)*) => {
        /// The functions of libcrypto that a baseline needs, with the library that holds them.
        pub(crate) struct Api {
            _library: Library,
            $($field: $signature,)*
        }

        impl Api {
            fn look_up(library: Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the signatures are those of OpenSSL 3's manual pages, which its ABI keeps within a major
                    // version; `loaded_by` has asked for that version. The pointers live as long as the library beside them.
                    $($field: *unsafe { library.get::<$signature>(concat!($symbol, "\0").as_bytes()) }?,)*
                    _library: library,
                })
            }
        }
    };
}

symbols! {
    version = "OpenSSL_version": unsafe extern "C" fn(c_int) -> *const c_char;
    get_error = "ERR_get_error": unsafe extern "C" fn() -> c_ulong;
    error_string = "ERR_error_string_n": unsafe extern "C" fn(c_ulong, *mut c_char, usize);
    clear_errors = "ERR_clear_error": unsafe extern "C" fn();

    cipher_fetch = "EVP_CIPHER_fetch": Fetch;
    cipher_free = "EVP_CIPHER_free": Free;
    cipher_mode = "EVP_CIPHER_get_mode": unsafe extern "C" fn(Object) -> c_int;
    cipher_key_length = "EVP_CIPHER_get_key_length": unsafe extern "C" fn(Object) -> c_int;
    cipher_iv_length = "EVP_CIPHER_get_iv_length": unsafe extern "C" fn(Object) -> c_int;
    cipher_context_new = "EVP_CIPHER_CTX_new": unsafe extern "C" fn() -> Object;
    cipher_context_free = "EVP_CIPHER_CTX_free": Free;
    cipher_padding = "EVP_CIPHER_CTX_set_padding": unsafe extern "C" fn(Object, c_int) -> c_int;
    cipher_control = "EVP_CIPHER_CTX_ctrl": unsafe extern "C" fn(Object, c_int, c_int, *mut c_void) -> c_int;
    cipher_init = "EVP_CipherInit_ex":
        unsafe extern "C" fn(Object, Object, Object, *const c_uchar, *const c_uchar, c_int) -> c_int;
    cipher_update = "EVP_CipherUpdate":
        unsafe extern "C" fn(Object, *mut c_uchar, *mut c_int, *const c_uchar, c_int) -> c_int;
    cipher_final = "EVP_CipherFinal_ex": unsafe extern "C" fn(Object, *mut c_uchar, *mut c_int) -> c_int;

    digest_fetch = "EVP_MD_fetch": Fetch;
    digest_free = "EVP_MD_free": Free;
    digest_context_new = "EVP_MD_CTX_new": unsafe extern "C" fn() -> Object;
    digest_context_free = "EVP_MD_CTX_free": Free;
    digest_init = "EVP_DigestInit_ex": unsafe extern "C" fn(Object, Object, Object) -> c_int;
    digest_update = "EVP_DigestUpdate": unsafe extern "C" fn(Object, *const c_void, usize) -> c_int;
    digest_final = "EVP_DigestFinal_ex": unsafe extern "C" fn(Object, *mut c_uchar, *mut c_uint) -> c_int;

    mac_fetch = "EVP_MAC_fetch": Fetch;
    mac_free = "EVP_MAC_free": Free;
    mac_context_new = "EVP_MAC_CTX_new": unsafe extern "C" fn(Object) -> Object;
    mac_context_free = "EVP_MAC_CTX_free": Free;
    mac_init = "EVP_MAC_init": unsafe extern "C" fn(Object, *const c_uchar, usize, *const digest::Parameter) -> c_int;
    mac_update = "EVP_MAC_update": unsafe extern "C" fn(Object, *const c_uchar, usize) -> c_int;
    mac_final = "EVP_MAC_final": unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, usize) -> c_int;

    key_from_der = "d2i_AutoPrivateKey": unsafe extern "C" fn(*mut Object, *mut *const c_uchar, c_long) -> Object;
    key_from_der_in = "d2i_AutoPrivateKey_ex":
        unsafe extern "C" fn(*mut Object, *mut *const c_uchar, c_long, Object, *const c_char) -> Object;
    key_from_pem = "PEM_read_bio_PrivateKey_ex":
        unsafe extern "C" fn(Object, *mut Object, Object, Object, Object, *const c_char) -> Object;
    key_generate = "EVP_PKEY_Q_keygen": unsafe extern "C" fn(Object, *const c_char, *const c_char, ...) -> Object;
    key_free = "EVP_PKEY_free": Free;
    key_is_a = "EVP_PKEY_is_a": unsafe extern "C" fn(Object, *const c_char) -> c_int;
    key_bits = "EVP_PKEY_get_bits": unsafe extern "C" fn(Object) -> c_int;
    key_context_new = "EVP_PKEY_CTX_new": unsafe extern "C" fn(Object, Object) -> Object;
    key_context_in = "EVP_PKEY_CTX_new_from_pkey": unsafe extern "C" fn(Object, Object, *const c_char) -> Object;
    key_context_provider = "EVP_PKEY_CTX_get0_provider": unsafe extern "C" fn(Object) -> Object;
    key_context_free = "EVP_PKEY_CTX_free": Free;
    key_padding = "EVP_PKEY_CTX_set_rsa_padding": unsafe extern "C" fn(Object, c_int) -> c_int;
    key_oaep_digest = "EVP_PKEY_CTX_set_rsa_oaep_md": unsafe extern "C" fn(Object, Object) -> c_int;
    key_signature_digest = "EVP_PKEY_CTX_set_signature_md": unsafe extern "C" fn(Object, Object) -> c_int;
    sign_init = "EVP_PKEY_sign_init": Init;
    sign = "EVP_PKEY_sign": Transforming;
    encrypt_init = "EVP_PKEY_encrypt_init": Init;
    encrypt = "EVP_PKEY_encrypt": Transforming;
    decrypt_init = "EVP_PKEY_decrypt_init": Init;
    decrypt = "EVP_PKEY_decrypt": Transforming;
    verify_init = "EVP_PKEY_verify_init": Init;
    verify = "EVP_PKEY_verify": unsafe extern "C" fn(Object, *const c_uchar, usize, *const c_uchar, usize) -> c_int;
    derive_init = "EVP_PKEY_derive_init": Init;
    derive_peer = "EVP_PKEY_derive_set_peer": unsafe extern "C" fn(Object, Object) -> c_int;
    derive = "EVP_PKEY_derive": unsafe extern "C" fn(Object, *mut c_uchar, *mut usize) -> c_int;
    message_key_context = "EVP_MD_CTX_get_pkey_ctx": unsafe extern "C" fn(Object) -> Object;
    message_sign_init = "EVP_DigestSignInit": MessageInit;
    message_sign = "EVP_DigestSign": Transforming;
    message_sign_init_in = "EVP_DigestSignInit_ex": MessageInitIn;
    message_verify_init = "EVP_DigestVerifyInit": MessageInit;
    message_verify = "EVP_DigestVerify":
        unsafe extern "C" fn(Object, *const c_uchar, usize, *const c_uchar, usize) -> c_int;

    memory_bio = "BIO_new_mem_buf": unsafe extern "C" fn(*const c_void, c_int) -> Object;
    bio_free = "BIO_vfree": Free;
    context_new = "OSSL_LIB_CTX_new": unsafe extern "C" fn() -> Object;
    context_free = "OSSL_LIB_CTX_free": Free;
    context_configure = "OSSL_LIB_CTX_load_config": unsafe extern "C" fn(Object, *const c_char) -> c_int;
    provider_available = "OSSL_PROVIDER_available": unsafe extern "C" fn(Object, *const c_char) -> c_int;
    provider_name = "OSSL_PROVIDER_get0_name": unsafe extern "C" fn(Object) -> *const c_char;

    async_capable = "ASYNC_is_capable": unsafe extern "C" fn() -> c_int;
    async_start = "ASYNC_start_job":
        unsafe extern "C" fn(*mut Object, Object, *mut c_int, JobFunction, *mut c_void, usize) -> c_int;
    async_wait_new = "ASYNC_WAIT_CTX_new": unsafe extern "C" fn() -> Object;
    async_wait_free = "ASYNC_WAIT_CTX_free": Free;
    async_wait_fds = "ASYNC_WAIT_CTX_get_all_fds": unsafe extern "C" fn(Object, *mut c_int, *mut usize) -> c_int;
}

impl Api {
    /// Loads the system's libcrypto of OpenSSL 3.
    pub(crate) fn load() -> Result<Self, LoadError> {
        let mut tried = String::new();
        for file in FILES {
            match Self::loaded_by(file) {
                Ok(api) => return Ok(api),
                Err(why) => tried = if tried.is_empty() { why } else { format!("{tried}; {why}") },
            }
        }
        Err(LoadError { tried })
    }

    /// The version as the library words it, e.g. `OpenSSL 3.0.19 27 Jan 2026`.
    pub(crate) fn version(&self) -> String {
        version_text(self.version)
    }

    fn loaded_by(file: &str) -> Result<Self, String> {
        // SAFETY: libcrypto's initialisers only set up its own state.
        let library = unsafe { Library::new(file) }.map_err(|error| explain(file, &error))?;
        // SAFETY: `OpenSSL_version` has had this signature since OpenSSL 1.1; older libraries do not have it.
        let version = unsafe { library.get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"OpenSSL_version\0") };
        let text = version.map(|version| version_text(*version)).map_err(|error| explain(file, &error))?;
        if !text.starts_with("OpenSSL 3.") {
            return Err(format!("{file}: found {text}, need OpenSSL 3"));
        }
        Self::look_up(library).map_err(|error| explain(file, &error))
    }

    /// An algorithm by its name, e.g. a cipher by `AES-256-GCM`.
    fn fetch(&self, fetch: Fetch, free: Free, name: &CStr) -> Result<Handle<'_>, Failure> {
        // SAFETY: null means the default library context and no properties; `name` ends in a zero byte.
        let raw = unsafe { fetch(ptr::null_mut(), name.as_ptr(), ptr::null()) };
        self.own(raw, free, "fetch of an algorithm")
    }

    fn digest(&self, name: &CStr) -> Result<Handle<'_>, Failure> {
        self.fetch(self.digest_fetch, self.digest_free, name)
    }

    /// Takes the ownership of what `call` returned.
    fn own(&self, raw: Object, free: Free, call: &'static str) -> Result<Handle<'_>, Failure> {
        let raw = NonNull::new(raw).ok_or_else(|| self.failure(call))?;
        Ok(Handle { raw, free, api: PhantomData })
    }

    /// Turns a return value of 1 into `Ok`, any other into the failure that the library reports.
    #[inline]
    fn check(&self, status: c_int, call: &'static str) -> Result<(), Failure> {
        if status == 1 { Ok(()) } else { Err(self.failure(call)) }
    }

    #[cold]
    fn failure(&self, call: &'static str) -> Failure {
        let mut text = [0; REASON_BYTES];
        // SAFETY: the error queue belongs to this thread; the text is cut to the buffer and ends in a zero byte.
        unsafe {
            (self.error_string)((self.get_error)(), text.as_mut_ptr(), text.len());
            (self.clear_errors)();
        }
        // SAFETY: `ERR_error_string_n` has written a string that ends within `text`.
        let reason = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
        Failure { call, reason }
    }
}

/// An object of libcrypto and the function that frees it. The library outlives it.
struct Handle<'a> {
    raw: NonNull<c_void>,
    free: Free,
    api: PhantomData<&'a Api>,
}

impl Handle<'_> {
    #[inline]
    fn raw(&self) -> Object {
        self.raw.as_ptr()
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: `own` got this object from the library, `free` belongs to its kind, and it is freed only here.
        unsafe { (self.free)(self.raw()) }
    }
}

/// Why there is no libcrypto to compare with.
#[derive(Debug)]
pub(crate) struct LoadError {
    tried: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot load OpenSSL 3 ({}); install its library: package libssl3 on Debian and Ubuntu, openssl-libs on \
             Fedora, openssl on Arch and Alpine",
            self.tried
        )
    }
}

impl std::error::Error for LoadError {}

/// A call that libcrypto refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    call: &'static str,
    reason: String,
}

impl Failure {
    /// A failure found on this side of the call.
    pub(crate) fn new(call: &'static str, reason: impl Into<String>) -> Self {
        Self { call, reason: reason.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenSSL, {}: {}", self.call, self.reason)
    }
}

impl std::error::Error for Failure {}

/// The loader's own words, which `libloading` keeps as the source of its error.
fn explain(file: &str, error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| format!("{file}: {error}"), ToString::to_string)
}

fn version_text(version: unsafe extern "C" fn(c_int) -> *const c_char) -> String {
    // SAFETY: for any number the library returns a static string.
    unsafe { CStr::from_ptr(version(0)) }.to_string_lossy().into_owned()
}

/// A length as libcrypto's older calls take it.
fn c_length(length: usize, call: &'static str) -> Result<c_int, Failure> {
    c_int::try_from(length).map_err(|_| Failure::new(call, format!("{length} bytes do not fit a C int")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_reported_with_the_packages_to_install() {
        let why = Api::loaded_by("libcrypto-of-nobody.so").err().expect("there is no such library");
        let text = LoadError { tried: why }.to_string();
        assert!(text.contains("libcrypto-of-nobody.so"), "{text}");
        assert!(text.contains("libssl3") && text.contains("openssl"), "{text}");
    }

    #[test]
    fn a_library_that_is_no_openssl_is_refused() {
        assert!(Api::loaded_by("libc.so.6").is_err());
    }

    #[test]
    fn an_unknown_algorithm_is_a_failure_with_the_reason() {
        let api = Api::load().expect("the test machine has OpenSSL 3");
        let failure = api.digest(c"SHA-0815").err().expect("there is no such digest");
        assert!(failure.to_string().contains("unsupported"), "{failure}");
    }
}
