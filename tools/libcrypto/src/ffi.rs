//! The functions of libcrypto, and the common parts of its objects.

mod cipher;
mod context;
mod digest;
mod job;
mod key;
mod operation;

pub use cipher::{Cipher, TAG_BYTES};
pub use context::Context;
pub use digest::{Digest, MAX_DIGEST_BYTES, Mac};
pub use job::{Job, Ready, Step};
pub use key::{Half, Key};
pub use operation::{Action, Operation};

use digest::Parameter;
use libloading::Library;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::LazyLock;

/// Any object of libcrypto: an `EVP_CIPHER`, an `EVP_PKEY`, …; [`Handle`] keeps the kinds apart.
type Object = *mut c_void;
/// `EVP_MD_CTX_new` and similar functions, without preconditions.
type New = unsafe extern "C" fn() -> Object;
/// `EVP_CIPHER_free` and similar functions.
type Free = unsafe extern "C" fn(Object);
/// `EVP_CIPHER_get0_provider` and similar functions, which return a part that stays the object's.
type Part = unsafe extern "C" fn(Object) -> Object;
/// `EVP_CIPHER_get_mode` and similar functions.
type Number = unsafe extern "C" fn(Object) -> c_int;
/// `EVP_CIPHER_fetch` and similar functions: library context, name, properties.
type Fetch = unsafe extern "C" fn(Object, *const c_char, *const c_char) -> Object;
/// `EVP_PKEY_sign_init_ex` and similar functions: context, parameters.
type Init = unsafe extern "C" fn(Object, *const Parameter) -> c_int;
/// `EVP_PKEY_sign` and similar functions: context, output, its length, input, its length.
type Transform = unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
/// `EVP_PKEY_derive` and similar functions: context, output, its length.
type Finish = unsafe extern "C" fn(Object, *mut c_uchar, *mut usize) -> c_int;
/// `EVP_PKEY_verify` and similar functions: context, signature, its length, input, its length.
type Check = unsafe extern "C" fn(Object, *const c_uchar, usize, *const c_uchar, usize) -> c_int;
/// `EVP_DigestUpdate` and similar functions.
type Update = unsafe extern "C" fn(Object, *const c_void, usize) -> c_int;
/// `EVP_DigestSignInit_ex` and similar functions: context, place for the key context, digest's name, library context,
/// properties, key, parameters.
type MessageInit =
    unsafe extern "C" fn(Object, *mut Object, *const c_char, Object, *const c_char, Object, *const Parameter) -> c_int;
/// `PEM_read_bio_PUBKEY_ex` and similar functions: source, key to fill, pass phrase's function and its data, library
/// context, properties.
type FromPem = unsafe extern "C" fn(Object, *mut Object, Object, Object, Object, *const c_char) -> Object;
/// `d2i_PUBKEY_ex` and similar functions: key to fill, position, length, library context, properties.
type FromDer = unsafe extern "C" fn(*mut Object, *mut *const c_uchar, c_long, Object, *const c_char) -> Object;
/// `EVP_PKEY_new_raw_public_key_ex` and similar functions: library context, kind, properties, key, its length.
type FromRaw = unsafe extern "C" fn(Object, *const c_char, *const c_char, *const c_uchar, usize) -> Object;
/// Body of an asynchronous job. Its argument is a copy of the bytes given at the start.
type JobFunction = unsafe extern "C" fn(*mut c_void) -> c_int;

const FILES: [&str; 2] = ["libcrypto.so.3", "libcrypto.so"];
/// Least version. Older libraries are refused before their functions are looked up.
const NEEDED: (u32, u32) = (3, 0);
const REASON_BYTES: usize = 256;
const NAMED_BY: &str = "SIDECORE_TEST_LIBCRYPTO";
const PACKAGES: &str =
    "install its library: package libssl3 on Debian and Ubuntu, openssl-libs on Fedora, openssl on Arch and Alpine";

macro_rules! symbols {
    ($($field:ident = $symbol:literal: $signature:ty;)*) => {
        struct Api {
            _library: Library,
            version: String,
            $($field: $signature,)*
        }

        impl Api {
            fn look_up(library: Library, version: String) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the signatures are those of OpenSSL 3's manual pages, which its ABI keeps within a major
                    // version; `open` has asked for that version. The pointers live as long as the library beside them.
                    $($field: *unsafe { library.get::<$signature>(concat!($symbol, "\0").as_bytes()) }?,)*
                    _library: library,
                    version,
                })
            }
        }
    };
}

symbols! {
    get_error = "ERR_get_error_all": unsafe extern "C" fn(
        *mut *const c_char, *mut c_int, *mut *const c_char, *mut *const c_char, *mut c_int) -> c_ulong;
    error_string = "ERR_error_string_n": unsafe extern "C" fn(c_ulong, *mut c_char, usize);

    context_new = "OSSL_LIB_CTX_new": New;
    context_free = "OSSL_LIB_CTX_free": Free;
    context_configure = "OSSL_LIB_CTX_load_config": unsafe extern "C" fn(Object, *const c_char) -> c_int;
    provider_available = "OSSL_PROVIDER_available": unsafe extern "C" fn(Object, *const c_char) -> c_int;
    provider_name = "OSSL_PROVIDER_get0_name": unsafe extern "C" fn(Object) -> *const c_char;

    cipher_fetch = "EVP_CIPHER_fetch": Fetch;
    cipher_free = "EVP_CIPHER_free": Free;
    cipher_provider = "EVP_CIPHER_get0_provider": Part;
    cipher_mode = "EVP_CIPHER_get_mode": Number;
    cipher_key_length = "EVP_CIPHER_get_key_length": Number;
    cipher_iv_length = "EVP_CIPHER_get_iv_length": Number;
    cipher_context_new = "EVP_CIPHER_CTX_new": New;
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
    digest_provider = "EVP_MD_get0_provider": Part;
    digest_context_new = "EVP_MD_CTX_new": New;
    digest_context_free = "EVP_MD_CTX_free": Free;
    digest_init = "EVP_DigestInit_ex": unsafe extern "C" fn(Object, Object, Object) -> c_int;
    digest_update = "EVP_DigestUpdate": Update;
    digest_final = "EVP_DigestFinal_ex": unsafe extern "C" fn(Object, *mut c_uchar, *mut c_uint) -> c_int;

    mac_fetch = "EVP_MAC_fetch": Fetch;
    mac_free = "EVP_MAC_free": Free;
    mac_context_new = "EVP_MAC_CTX_new": Part;
    mac_context_free = "EVP_MAC_CTX_free": Free;
    mac_init = "EVP_MAC_init": unsafe extern "C" fn(Object, *const c_uchar, usize, *const Parameter) -> c_int;
    mac_update = "EVP_MAC_update": unsafe extern "C" fn(Object, *const c_uchar, usize) -> c_int;
    mac_final = "EVP_MAC_final": unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, usize) -> c_int;

    bio_new = "BIO_new_mem_buf": unsafe extern "C" fn(*const c_void, c_int) -> Object;
    bio_free = "BIO_vfree": Free;
    private_from_pem = "PEM_read_bio_PrivateKey_ex": FromPem;
    public_from_pem = "PEM_read_bio_PUBKEY_ex": FromPem;
    private_from_der = "d2i_AutoPrivateKey_ex": FromDer;
    public_from_der = "d2i_PUBKEY_ex": FromDer;
    private_from_raw = "EVP_PKEY_new_raw_private_key_ex": FromRaw;
    public_from_raw = "EVP_PKEY_new_raw_public_key_ex": FromRaw;
    key_free = "EVP_PKEY_free": Free;
    key_provider = "EVP_PKEY_get0_provider": Part;
    key_equal = "EVP_PKEY_eq": unsafe extern "C" fn(Object, Object) -> c_int;
    key_is_a = "EVP_PKEY_is_a": unsafe extern "C" fn(Object, *const c_char) -> c_int;
    key_bits = "EVP_PKEY_get_bits": Number;
    store_open = "OSSL_STORE_open_ex": unsafe extern "C" fn(
        *const c_char, Object, *const c_char, Object, Object, *const Parameter, Object, Object) -> Object;
    store_load = "OSSL_STORE_load": Part;
    store_eof = "OSSL_STORE_eof": Number;
    store_close = "OSSL_STORE_close": Number;
    info_key = "OSSL_STORE_INFO_get1_PKEY": Part;
    info_free = "OSSL_STORE_INFO_free": Free;

    operation_new = "EVP_PKEY_CTX_new_from_pkey": unsafe extern "C" fn(Object, Object, *const c_char) -> Object;
    operation_free = "EVP_PKEY_CTX_free": Free;
    operation_provider = "EVP_PKEY_CTX_get0_provider": Part;
    operation_setting = "EVP_PKEY_CTX_ctrl_str":
        unsafe extern "C" fn(Object, *const c_char, *const c_char) -> c_int;
    sign_init = "EVP_PKEY_sign_init_ex": Init;
    sign = "EVP_PKEY_sign": Transform;
    verify_init = "EVP_PKEY_verify_init_ex": Init;
    verify = "EVP_PKEY_verify": Check;
    recover_init = "EVP_PKEY_verify_recover_init_ex": Init;
    recover = "EVP_PKEY_verify_recover": Transform;
    encrypt_init = "EVP_PKEY_encrypt_init_ex": Init;
    encrypt = "EVP_PKEY_encrypt": Transform;
    decrypt_init = "EVP_PKEY_decrypt_init_ex": Init;
    decrypt = "EVP_PKEY_decrypt": Transform;
    derive_init = "EVP_PKEY_derive_init_ex": Init;
    derive_peer = "EVP_PKEY_derive_set_peer": unsafe extern "C" fn(Object, Object) -> c_int;
    derive = "EVP_PKEY_derive": Finish;
    encapsulate_init = "EVP_PKEY_encapsulate_init": Init;
    encapsulate = "EVP_PKEY_encapsulate":
        unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, *mut c_uchar, *mut usize) -> c_int;
    decapsulate_init = "EVP_PKEY_decapsulate_init": Init;
    decapsulate = "EVP_PKEY_decapsulate": Transform;

    message_sign_init = "EVP_DigestSignInit_ex": MessageInit;
    message_sign_update = "EVP_DigestSignUpdate": Update;
    message_sign_final = "EVP_DigestSignFinal": Finish;
    message_sign = "EVP_DigestSign": Transform;
    message_verify_init = "EVP_DigestVerifyInit_ex": MessageInit;
    message_verify_update = "EVP_DigestVerifyUpdate": Update;
    message_verify_final = "EVP_DigestVerifyFinal": unsafe extern "C" fn(Object, *const c_uchar, usize) -> c_int;
    message_verify = "EVP_DigestVerify": Check;

    async_start = "ASYNC_start_job":
        unsafe extern "C" fn(*mut Object, Object, *mut c_int, JobFunction, *mut c_void, usize) -> c_int;
    async_wait_new = "ASYNC_WAIT_CTX_new": New;
    async_wait_free = "ASYNC_WAIT_CTX_free": Free;
    async_wait_fds = "ASYNC_WAIT_CTX_get_all_fds": unsafe extern "C" fn(Object, *mut c_int, *mut usize) -> c_int;
}

/// The one libcrypto of this process, which is never unloaded.
static API: LazyLock<Result<Api, Failure>> = LazyLock::new(|| match std::env::var(NAMED_BY) {
    Ok(file) => Api::named(&file),
    Err(_) => Api::installed(&FILES),
});

fn api() -> Result<&'static Api, Failure> {
    API.as_ref().map_err(Clone::clone)
}

impl Api {
    fn named(file: &str) -> Result<Self, Failure> {
        let advice = format!("{NAMED_BY} names this file: let it name the libcrypto of an OpenSSL 3, or unset it");
        Self::first_of(&[file], advice)
    }

    fn installed(files: &[&str]) -> Result<Self, Failure> {
        Self::first_of(files, PACKAGES.to_owned())
    }

    fn first_of(files: &[&str], advice: String) -> Result<Self, Failure> {
        let mut tried = Vec::new();
        for file in files {
            match Self::open(file) {
                Ok(api) => return Ok(api),
                Err(why) => tried.push(format!("{file}: {why}")),
            }
        }
        tried.push(advice);
        Err(Failure { call: "loading it", reasons: tried })
    }

    fn open(file: &str) -> Result<Self, OpenError> {
        // SAFETY: libcrypto's initialisers only set up its own state.
        let library = unsafe { Library::new(file) }?;
        // SAFETY: `OpenSSL_version` has had this signature since OpenSSL 1.1; older libraries do not have it.
        let version = unsafe { library.get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"OpenSSL_version\0") };
        // SAFETY: for any number the library returns a static string.
        let version = unsafe { CStr::from_ptr(version?(0)) }.to_string_lossy().into_owned();
        if release(&version).is_none_or(|release| release < NEEDED) {
            return Err(OpenError::Release(version));
        }
        Ok(Self::look_up(library, version)?)
    }

    fn make(&'static self, new: New, free: Free, call: &'static str) -> Result<Handle, Failure> {
        // SAFETY: functions of this type ask nothing of their caller.
        self.own(unsafe { new() }, free, call, None)
    }

    /// Takes the ownership of an object from `call`, made within this library context.
    fn own(
        &'static self,
        raw: Object,
        free: Free,
        call: &'static str,
        within: Option<Rc<Handle>>,
    ) -> Result<Handle, Failure> {
        let raw = NonNull::new(raw).ok_or_else(|| self.failure(call))?;
        Ok(Handle { api: self, raw, free, _within: within })
    }

    /// Turns a positive return value into `Ok`, any other into the failure that the library reports.
    #[inline]
    fn check(&self, status: c_int, call: &'static str) -> Result<(), Failure> {
        if status > 0 { Ok(()) } else { Err(self.failure(call)) }
    }

    #[cold]
    fn failure(&self, call: &'static str) -> Failure {
        let mut reasons = Vec::new();
        loop {
            let (mut data, mut flags) = (ptr::null(), 0);
            // SAFETY: what is not wanted may be null.
            let code = unsafe {
                (self.get_error)(ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), &raw mut data, &raw mut flags)
            };
            if code == 0 {
                return Failure { call, reasons };
            }
            let mut line = [0; REASON_BYTES];
            // SAFETY: the text is cut to the buffer and ends in a zero byte.
            let line = unsafe {
                (self.error_string)(code, line.as_mut_ptr(), line.len());
                CStr::from_ptr(line.as_ptr()).to_string_lossy()
            };
            let reason = line.rsplit(':').next().unwrap_or_default();
            // SAFETY: a C string if it is not null, which lives until the next call on the queue.
            let data = unsafe { string(data) }.filter(|data| !data.is_empty());
            reasons.push(data.map_or_else(|| reason.to_owned(), |data| format!("{reason}: {data}")));
        }
    }

    /// # Safety
    /// `provider` is null or a provider that is loaded.
    unsafe fn name_of(&self, provider: Object) -> Option<String> {
        // SAFETY: see above; names are C strings.
        NonNull::new(provider).and_then(|provider| unsafe { string((self.provider_name)(provider.as_ptr())) })
    }
}

struct Handle {
    api: &'static Api,
    raw: NonNull<c_void>,
    free: Free,
    /// The library context whose providers it comes from, which must outlive it.
    _within: Option<Rc<Handle>>,
}

impl Handle {
    #[inline]
    fn raw(&self) -> Object {
        self.raw.as_ptr()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: `own` got this object from the library, `free` belongs to its kind, and it is freed only here.
        unsafe { (self.free)(self.raw()) }
    }
}

/// A call that libcrypto refused, or why there is no libcrypto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    call: &'static str,
    /// Messages of the library's error queue, in order.
    pub reasons: Vec<String>,
}

impl Failure {
    /// A failure found on this side of the call.
    pub fn new(call: &'static str, reason: impl Into<String>) -> Self {
        Self { call, reasons: vec![reason.into()] }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenSSL, {}: {}", self.call, self.reasons.join("; "))
    }
}

impl std::error::Error for Failure {}

/// Major and minor number in the library's wording of its version, e.g. `OpenSSL 3.0.19 27 Jan 2026`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("OpenSSL ")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[derive(Debug, thiserror::Error)]
enum OpenError {
    /// The loader's own words, where it has some.
    #[error("{}", std::error::Error::source(.0).map_or_else(|| .0.to_string(), ToString::to_string))]
    Loader(#[from] libloading::Error),
    #[error("found {0}, need OpenSSL 3")]
    Release(String),
}

/// # Safety
/// `text` is null or a C string.
unsafe fn string(text: *const c_char) -> Option<String> {
    // SAFETY: see above.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

fn text(text: impl AsRef<OsStr>) -> Result<CString, Failure> {
    let text = text.as_ref();
    CString::new(text.as_bytes()).map_err(|_| Failure::new("a name", format!("{} has a zero byte", text.display())))
}

fn or_null(text: &CStr) -> *const c_char {
    if text.is_empty() { ptr::null() } else { text.as_ptr() }
}

/// A length in the type of libcrypto's older calls.
fn c_length(length: usize, call: &'static str) -> Result<c_int, Failure> {
    c_int::try_from(length).map_err(|_| Failure::new(call, format!("{length} bytes do not fit a C int")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_reported_with_the_packages_to_install() {
        let text = Api::installed(&["libcrypto-of-nobody.so"]).err().expect("there is no such library").to_string();
        assert!(text.contains("libcrypto-of-nobody.so"), "{text}");
        assert!(text.contains("libssl3") && text.contains("openssl"), "{text}");
    }

    #[test]
    fn a_missing_library_that_was_named_is_reported_with_what_names_it() {
        let text = Api::named("libcrypto-of-nobody.so").err().expect("there is no such library").to_string();
        assert!(text.contains("libcrypto-of-nobody.so"), "{text}");
        let advice = "SIDECORE_TEST_LIBCRYPTO names this file: let it name the libcrypto of an OpenSSL 3, or unset it";
        assert!(text.ends_with(advice), "{text}");
    }

    #[test]
    fn a_library_that_is_no_openssl_or_an_older_one_is_refused() {
        assert!(Api::open("libc.so.6").is_err());
        assert_eq!(release("OpenSSL 3.0.19 27 Jan 2026"), Some((3, 0)));
        assert!(release("OpenSSL 1.1.1w  11 Sep 2023") < Some(NEEDED) && release("LibreSSL 3.8.2").is_none());
    }

    #[test]
    fn an_unknown_algorithm_is_a_failure_with_the_reason() {
        let context = Context::system().expect("the test machine has OpenSSL 3");
        let failure = Digest::new(&context, "SHA-0815").err().expect("there is no such digest");
        assert!(failure.to_string().contains("unsupported"), "{failure}");
    }
}
