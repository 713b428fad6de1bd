//! libcrypto, loaded at run time, behind types that own what they allocate.
//!
//! `SIDECORE_TEST_LIBCRYPTO` names another libcrypto than the system's, to run the vectors on another version.

mod bulk;
mod job;
mod key;
mod operation;

pub(crate) use bulk::fetched_from;
pub(crate) use job::{WaitContext, becomes_readable, close_all};
pub(crate) use key::Key;
pub(crate) use operation::{Action, Message, Operation};

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::LazyLock;

/// Any object of libcrypto.
type Object = *mut c_void;
type Free = unsafe extern "C" fn(Object);
type Init = unsafe extern "C" fn(Object) -> c_int;
type Fetch = unsafe extern "C" fn(Object, *const c_char, *const c_char) -> Object;
type FromPem = unsafe extern "C" fn(Object, *mut Object, Object, Object, Object, *const c_char) -> Object;
type Raw = unsafe extern "C" fn(Object, *const c_char, *const c_char, *const c_uchar, usize) -> Object;
type Transform = unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
type Check = unsafe extern "C" fn(Object, *const c_uchar, usize, *const c_uchar, usize) -> c_int;
type MessageInit =
    unsafe extern "C" fn(Object, *mut Object, *const c_char, Object, *const c_char, Object, *const c_void) -> c_int;

macro_rules! symbols {
    ($($field:ident = $symbol:literal: $signature:ty;)*) => {
        struct Api {
            _library: Library,
            $($field: $signature,)*
        }

        impl Api {
            fn look_up(library: Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the signatures are those of OpenSSL's manual pages; the library lives beside the pointers.
                    $($field: *unsafe { library.get::<$signature>(concat!($symbol, "\0").as_bytes()) }?,)*
                    _library: library,
                })
            }
        }
    };
}

symbols! {
    version = "OPENSSL_version_major": unsafe extern "C" fn() -> c_uint;
    minor = "OPENSSL_version_minor": unsafe extern "C" fn() -> c_uint;
    get_error = "ERR_get_error_all": unsafe extern "C" fn(
        *mut *const c_char, *mut c_int, *mut *const c_char, *mut *const c_char, *mut c_int) -> c_ulong;
    error_string = "ERR_error_string_n": unsafe extern "C" fn(c_ulong, *mut c_char, usize);
    context_new = "OSSL_LIB_CTX_new": unsafe extern "C" fn() -> Object;
    context_free = "OSSL_LIB_CTX_free": Free;
    load_config = "OSSL_LIB_CTX_load_config": unsafe extern "C" fn(Object, *const c_char) -> c_int;
    provider_name = "OSSL_PROVIDER_get0_name": unsafe extern "C" fn(Object) -> *const c_char;

    bio_new = "BIO_new_mem_buf": unsafe extern "C" fn(*const c_void, c_int) -> Object;
    bio_free = "BIO_free": unsafe extern "C" fn(Object) -> c_int;
    private_from_pem = "PEM_read_bio_PrivateKey_ex": FromPem;
    public_from_pem = "PEM_read_bio_PUBKEY_ex": FromPem;
    public_from_der = "d2i_PUBKEY_ex":
        unsafe extern "C" fn(*mut Object, *mut *const c_uchar, c_long, Object, *const c_char) -> Object;
    private_from_der = "d2i_AutoPrivateKey_ex":
        unsafe extern "C" fn(*mut Object, *mut *const c_uchar, c_long, Object, *const c_char) -> Object;
    raw_private = "EVP_PKEY_new_raw_private_key_ex": Raw;
    raw_public = "EVP_PKEY_new_raw_public_key_ex": Raw;
    key_provider = "EVP_PKEY_get0_provider": unsafe extern "C" fn(Object) -> Object;
    key_equal = "EVP_PKEY_eq": unsafe extern "C" fn(Object, Object) -> c_int;
    key_free = "EVP_PKEY_free": Free;
    store_open = "OSSL_STORE_open_ex": unsafe extern "C" fn(
        *const c_char, Object, *const c_char, Object, Object, *const c_void, Object, Object) -> Object;
    store_load = "OSSL_STORE_load": unsafe extern "C" fn(Object) -> Object;
    store_eof = "OSSL_STORE_eof": unsafe extern "C" fn(Object) -> c_int;
    store_close = "OSSL_STORE_close": unsafe extern "C" fn(Object) -> c_int;
    info_key = "OSSL_STORE_INFO_get1_PKEY": unsafe extern "C" fn(Object) -> Object;
    info_free = "OSSL_STORE_INFO_free": Free;

    operation_new = "EVP_PKEY_CTX_new_from_pkey": unsafe extern "C" fn(Object, Object, *const c_char) -> Object;
    operation_free = "EVP_PKEY_CTX_free": Free;
    operation_provider = "EVP_PKEY_CTX_get0_provider": unsafe extern "C" fn(Object) -> Object;
    operation_setting = "EVP_PKEY_CTX_ctrl_str":
        unsafe extern "C" fn(Object, *const c_char, *const c_char) -> c_int;
    sign_init = "EVP_PKEY_sign_init": Init;
    sign = "EVP_PKEY_sign": Transform;
    verify_init = "EVP_PKEY_verify_init": Init;
    verify = "EVP_PKEY_verify": Check;
    recover_init = "EVP_PKEY_verify_recover_init": Init;
    recover = "EVP_PKEY_verify_recover": Transform;
    encrypt_init = "EVP_PKEY_encrypt_init": Init;
    encrypt = "EVP_PKEY_encrypt": Transform;
    decrypt_init = "EVP_PKEY_decrypt_init": Init;
    decrypt = "EVP_PKEY_decrypt": Transform;
    derive_init = "EVP_PKEY_derive_init": Init;
    derive_peer = "EVP_PKEY_derive_set_peer": unsafe extern "C" fn(Object, Object) -> c_int;
    derive = "EVP_PKEY_derive": unsafe extern "C" fn(Object, *mut c_uchar, *mut usize) -> c_int;

    encapsulate_init = "EVP_PKEY_encapsulate_init": unsafe extern "C" fn(Object, *const c_void) -> c_int;
    encapsulate = "EVP_PKEY_encapsulate":
        unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, *mut c_uchar, *mut usize) -> c_int;
    decapsulate_init = "EVP_PKEY_decapsulate_init": unsafe extern "C" fn(Object, *const c_void) -> c_int;
    decapsulate = "EVP_PKEY_decapsulate": Transform;

    job_start = "ASYNC_start_job": unsafe extern "C" fn(
        *mut Object, Object, *mut c_int, job::Function, *const c_void, usize) -> c_int;
    wait_new = "ASYNC_WAIT_CTX_new": unsafe extern "C" fn() -> Object;
    wait_free = "ASYNC_WAIT_CTX_free": Free;
    wait_fds = "ASYNC_WAIT_CTX_get_all_fds": unsafe extern "C" fn(Object, *mut c_int, *mut usize) -> c_int;

    digest_fetch = "EVP_MD_fetch": Fetch;
    digest_free = "EVP_MD_free": Free;
    digest_provider = "EVP_MD_get0_provider": unsafe extern "C" fn(Object) -> Object;
    digest_context = "EVP_MD_CTX_new": unsafe extern "C" fn() -> Object;
    digest_context_free = "EVP_MD_CTX_free": Free;
    message_sign_init = "EVP_DigestSignInit_ex": MessageInit;
    message_sign_update = "EVP_DigestSignUpdate": unsafe extern "C" fn(Object, *const c_void, usize) -> c_int;
    message_sign_final = "EVP_DigestSignFinal": unsafe extern "C" fn(Object, *mut c_uchar, *mut usize) -> c_int;
    message_sign = "EVP_DigestSign": Transform;
    message_verify_init = "EVP_DigestVerifyInit_ex": MessageInit;
    message_verify_update = "EVP_DigestVerifyUpdate": unsafe extern "C" fn(Object, *const c_void, usize) -> c_int;
    message_verify_final = "EVP_DigestVerifyFinal": unsafe extern "C" fn(Object, *const c_uchar, usize) -> c_int;
    message_verify = "EVP_DigestVerify": Check;

    cipher_fetch = "EVP_CIPHER_fetch": Fetch;
    cipher_free = "EVP_CIPHER_free": Free;
    cipher_provider = "EVP_CIPHER_get0_provider": unsafe extern "C" fn(Object) -> Object;
}

static API: LazyLock<Api> = LazyLock::new(|| {
    let file = std::env::var("SIDECORE_TEST_LIBCRYPTO").unwrap_or_else(|_| "libcrypto.so.3".to_owned());
    // SAFETY: libcrypto's initialisers do nothing to this process.
    let library = unsafe { Library::new(&file) }.unwrap_or_else(|error| panic!("{file}: {error}; install openssl"));
    Api::look_up(library).unwrap_or_else(|error| panic!("{file} is no OpenSSL of version 3.0 or later: {error}"))
});

/// Major and minor version of libcrypto.
pub(crate) fn version() -> (u32, u32) {
    // SAFETY: they ask nothing of their caller.
    unsafe { ((API.version)(), (API.minor)()) }
}

/// Something of libcrypto that is freed with its owner.
struct Owned {
    object: Object,
    free: Free,
}

impl Owned {
    fn new(object: Object, free: Free) -> Result<Self, Error> {
        if object.is_null() { Err(Error::take()) } else { Ok(Self { object, free }) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by libcrypto, freed once by the function for its kind.
        unsafe { (self.free)(self.object) };
    }
}

/// A library context with its own configuration.
pub(crate) struct Context(Owned);

impl Context {
    /// One that reads this configuration.
    pub(crate) fn load(cnf: &Path) -> Result<Self, Error> {
        // SAFETY: asks nothing of its caller.
        let context = Self(Owned::new(unsafe { (API.context_new)() }, API.context_free)?);
        let path = text(cnf.to_str().expect("a plain path"));
        // SAFETY: the context lives, the path is a C string.
        done(unsafe { (API.load_config)(context.0.object, path.as_ptr()) })?;
        Ok(context)
    }
}

/// What libcrypto's queue of errors said.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Error(pub(crate) Vec<String>);

impl Error {
    /// Takes all errors out of this thread's queue.
    fn take() -> Self {
        let mut all = Vec::new();
        loop {
            let (mut data, mut flags) = (ptr::null(), 0);
            // SAFETY: what is not wanted may be null.
            let code = unsafe {
                (API.get_error)(ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), &raw mut data, &raw mut flags)
            };
            if code == 0 {
                return Self(all);
            }
            let mut line = [0; 256];
            // SAFETY: the room is there; the result ends with zero.
            let reason = unsafe {
                (API.error_string)(code, line.as_mut_ptr(), line.len());
                CStr::from_ptr(line.as_ptr()).to_string_lossy().into_owned()
            };
            // SAFETY: a C string if it is not null.
            let data = if data.is_null() { "".into() } else { unsafe { CStr::from_ptr(data) }.to_string_lossy() };
            let reason = reason.rsplit(':').next().unwrap_or_default().to_owned();
            all.push(if data.is_empty() { reason } else { format!("{reason}: {data}") });
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// Success as OpenSSL says it.
fn done(result: c_int) -> Result<(), Error> {
    if result > 0 { Ok(()) } else { Err(Error::take()) }
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no zeros in names")
}

/// # Safety
/// `provider` is null or a provider that is loaded.
unsafe fn name_of(provider: Object) -> Option<String> {
    if provider.is_null() {
        return None;
    }
    // SAFETY: see above; names are C strings.
    let name = unsafe { CStr::from_ptr((API.provider_name)(provider)) };
    Some(name.to_string_lossy().into_owned())
}
