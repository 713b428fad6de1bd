//! The method of `EC_KEY` objects: ECDSA and ECDH in the service.

use super::super::bytes;
use super::super::libcrypto::{Libcrypto, functions_of_libcrypto};
use super::super::memory::{MAX_LIBRARIES, Memory};
use super::super::object::KeyObject;
use super::attached::{Attached, Places};
use sidecore_client::keyops::agree;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Key, Private, Public};
use sidecore_client::keyops::sign::Settings;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// `CRYPTO_EX_INDEX_EC_KEY`.
const CLASS: c_int = 8;
/// `EC_PKEY_NO_PARAMETERS`.
const NO_PARAMETERS: c_uint = 1;
/// `POINT_CONVERSION_UNCOMPRESSED`.
const UNCOMPRESSED: c_int = 4;
/// Longest encoded point, on P-521, bytes.
const MAX_POINT: usize = 133;

/// `sign`: type of the digest, digest, room and length of the result, values computed before, object.
type Sign = unsafe extern "C" fn(
    c_int,
    *const u8,
    c_int,
    *mut u8,
    *mut c_uint,
    *const c_void,
    *const c_void,
    *mut c_void,
) -> c_int;
type Setup = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void, *mut *mut c_void) -> c_int;
/// As `sign`, with a new `ECDSA_SIG` as the result.
type SignSig = unsafe extern "C" fn(*const u8, c_int, *const c_void, *const c_void, *mut c_void) -> *mut c_void;
type Compute = unsafe extern "C" fn(*mut *mut u8, *mut usize, *const c_void, *const c_void) -> c_int;

functions_of_libcrypto! {
    Functions {
        openssls_own = c"EC_KEY_OpenSSL": fn() -> *const c_void;
        new_method = c"EC_KEY_METHOD_new": fn(*const c_void) -> *mut c_void;
        free_method = c"EC_KEY_METHOD_free": fn(*mut c_void);
        set_sign = c"EC_KEY_METHOD_set_sign": fn(*mut c_void, Sign, Setup, SignSig);
        set_compute = c"EC_KEY_METHOD_set_compute_key": fn(*mut c_void, Compute);
        set_method = c"EC_KEY_set_method": fn(*mut c_void, *const c_void) -> c_int;
        set_private = c"EC_KEY_set_private_key": fn(*mut c_void, *const c_void) -> c_int;
        set_encoding = c"EC_KEY_set_enc_flags": fn(*mut c_void, c_uint);
        get_group = c"EC_KEY_get0_group": fn(*const c_void) -> *const c_void;
        get_point = c"EC_KEY_get0_public_key": fn(*const c_void) -> *const c_void;
        point_to_bytes = c"EC_POINT_point2oct":
            fn(*const c_void, *const c_void, c_int, *mut u8, usize, *mut c_void) -> usize;
        read_signature = c"d2i_ECDSA_SIG": fn(*mut *mut c_void, *mut *const u8, c_long) -> *mut c_void;
        new_number = c"BN_new": fn() -> *mut c_void;
        free_number = c"BN_free": fn(*mut c_void);
    }
}

#[derive(Clone, Copy)]
struct Operations {
    sign: Sign,
    sign_sig: SignSig,
    compute: Compute,
}

struct Library {
    functions: Functions,
    attached: Attached,
    operations: Operations,
    method: OnceLock<usize>,
}

static LIBRARIES: Places<Library> = [const { OnceLock::new() }; MAX_LIBRARIES];

/// The operations for each libcrypto: OpenSSL passes only its object, which does not say where it belongs.
static OPERATIONS: [Operations; MAX_LIBRARIES] = [
    operations::<0>(),
    operations::<1>(),
    operations::<2>(),
    operations::<3>(),
    operations::<4>(),
    operations::<5>(),
    operations::<6>(),
    operations::<7>(),
];

const fn operations<const LIBRARY: usize>() -> Operations {
    Operations { sign: sign::<LIBRARY>, sign_sig: sign_sig::<LIBRARY>, compute: compute::<LIBRARY> }
}

pub(super) fn find(library: &Libcrypto, number: usize) {
    LIBRARIES[number].get_or_init(|| {
        // SAFETY: these are the functions of this class.
        let attached = unsafe { Attached::find(library, CLASS, c"EC_KEY_get_ex_data", c"EC_KEY_set_ex_data")? };
        let operations = OPERATIONS[number];
        Some(Library { functions: Functions::find(library)?, attached, operations, method: OnceLock::new() })
    });
}

fn get(number: usize) -> Option<&'static Library> {
    LIBRARIES[number].get()?.as_ref()
}

pub(super) fn is_there(number: usize) -> bool {
    get(number).is_some()
}

/// Makes a new object with the public part into one of the service's key.
///
/// # Safety
/// `ec` is null or such an object, in this libcrypto.
pub(super) unsafe fn complete(number: usize, ec: *mut c_void, object: &KeyObject) -> Result<(), Failure> {
    let refused = || Failure::new(Reason::Internal, "libcrypto makes no EC_KEY object: raise the limits on memory");
    let library = get(number).filter(|_| !ec.is_null()).ok_or_else(refused)?;
    let (method, functions) = (library.method().ok_or_else(refused)?, &library.functions);
    // SAFETY: `ec` is not null, so a new object of this libcrypto, as the functions are. EC_KEY_set_private_key(3) copies
    // the number, which is freed here. The method is never freed.
    unsafe {
        let zero = (functions.new_number)();
        let set = !zero.is_null() && (functions.set_private)(ec, zero) > 0;
        (functions.free_number)(zero);
        if !set {
            return Err(refused());
        }
        // A file of the object lacks its curve, so nobody can load it and sign with the zero.
        (functions.set_encoding)(ec, NO_PARAMETERS);
        library.attached.attach(ec, object)?;
        if (functions.set_method)(ec, method) <= 0 {
            return Err(refused());
        }
    }
    Ok(())
}

impl Library {
    /// Our method: OpenSSL's own, with other private operations. It is never freed, because programs may free its
    /// objects last.
    fn method(&self) -> Option<*const c_void> {
        let functions = &self.functions;
        if self.method.get().is_none() {
            // SAFETY: the functions of EC_KEY_METHOD_new on a method that they made, and that no other thread knows yet.
            unsafe {
                let method = (functions.new_method)((functions.openssls_own)());
                if method.is_null() {
                    return None;
                }
                (functions.set_sign)(method, self.operations.sign, setup, self.operations.sign_sig);
                (functions.set_compute)(method, self.operations.compute);
                if self.method.set(method.expose_provenance()).is_err() {
                    // Another thread was faster.
                    (functions.free_method)(method);
                }
            }
        }
        self.method.get().map(|method| ptr::with_exposed_provenance(*method))
    }

    /// # Safety
    /// `ec` and `point` are objects of this libcrypto.
    unsafe fn point(&self, ec: *const c_void, point: *const c_void) -> Vec<u8> {
        let mut bytes = vec![0; MAX_POINT];
        // SAFETY: `ec` and `point` are of this libcrypto, and not null where they are used; the buffer has `MAX_POINT` bytes.
        let len = unsafe {
            let group = (self.functions.get_group)(ec);
            if group.is_null() || point.is_null() {
                0
            } else {
                (self.functions.point_to_bytes)(
                    group,
                    point,
                    UNCOMPRESSED,
                    bytes.as_mut_ptr(),
                    MAX_POINT,
                    ptr::null_mut(),
                )
            }
        };
        bytes.truncate(len);
        bytes
    }

    /// Refuses an object that has got another public part: the service would use another key than the program means.
    ///
    /// # Safety
    /// `ec` is an object of this libcrypto.
    unsafe fn check(&self, ec: *const c_void, key: &Key) -> Result<(), Failure> {
        // SAFETY: `ec` is of this libcrypto, and so is its point.
        let found = unsafe { self.point(ec, (self.functions.get_point)(ec)) };
        match &key.public {
            Public::Ec { point, .. } if *point == found => Ok(()),
            _ => {
                let text = "the program has replaced the numbers of its EC_KEY object: load the key again";
                Err(Failure::new(Reason::Key, text))
            }
        }
    }

    /// The signature of the digest in DER, no longer than the longest one by this key.
    ///
    /// # Safety
    /// `ec` is an object of this libcrypto; `kinv` and `r` are numbers or null.
    unsafe fn sign(&self, ec: *mut c_void, digest: &[u8], kinv: *const c_void, r: *const c_void) -> Option<Vec<u8>> {
        // SAFETY: `ec` is of this libcrypto.
        unsafe {
            self.attached.with_key(ec, c"sign", |provider, key| {
                if !kinv.is_null() || !r.is_null() {
                    return Err(computed_before());
                }
                self.check(ec, key)?;
                let signature = Settings::default().sign(provider.caller()?, key, digest)?;
                if signature.len() > key.public.max_len() {
                    return Err(Failure::new(Reason::Service, "the signature is longer than any of this key"));
                }
                Ok(signature)
            })
        }
    }
}

fn computed_before() -> Failure {
    Failure::unsupported(
        "ECDSA with values computed before (ECDSA_sign_setup): the service chooses them. Call ECDSA_sign",
    )
}

/// `ECDSA_sign`.
///
/// # Safety
/// Only OpenSSL may call it, by `openssl/ec.h`, with an object of this libcrypto.
unsafe extern "C" fn sign<const LIBRARY: usize>(
    _digest_type: c_int,
    digest: *const u8,
    len: c_int,
    room: *mut u8,
    room_len: *mut c_uint,
    kinv: *const c_void,
    r: *const c_void,
    ec: *mut c_void,
) -> c_int {
    let Some(library) = get(LIBRARY) else { return 0 };
    // SAFETY: OpenSSL calls a method with the object that has it. By ECDSA_sign(3) `dgst` has `dgst_len` bytes, and `sig` is
    // null or has ECDSA_size bytes, and `Library::sign` gives no more; `siglen` is valid.
    unsafe {
        if room.is_null() {
            let longest = library.attached.with_key(ec, c"sign", |_, key| Ok(key.public.max_len()));
            *room_len = longest.and_then(|len| c_uint::try_from(len).ok()).unwrap_or(0);
            return c_int::from(*room_len > 0);
        }
        let digest = bytes(digest, usize::try_from(len).unwrap_or(0));
        let signature = library.sign(ec, digest, kinv, r).unwrap_or_default();
        room.copy_from_nonoverlapping(signature.as_ptr(), signature.len());
        *room_len = c_uint::try_from(signature.len()).unwrap_or(0);
        c_int::from(*room_len > 0)
    }
}

/// `ECDSA_do_sign`.
///
/// # Safety
/// As for `sign`.
unsafe extern "C" fn sign_sig<const LIBRARY: usize>(
    digest: *const u8,
    len: c_int,
    kinv: *const c_void,
    r: *const c_void,
    ec: *mut c_void,
) -> *mut c_void {
    let Some(library) = get(LIBRARY) else { return ptr::null_mut() };
    // SAFETY: OpenSSL calls a method with the object that has it. By ECDSA_do_sign(3) `dgst` has `dgst_len` bytes. The
    // signature that is read is valid for its length.
    unsafe {
        let digest = bytes(digest, usize::try_from(len).unwrap_or(0));
        let Some(signature) = library.sign(ec, digest, kinv, r) else { return ptr::null_mut() };
        let Ok(len) = c_long::try_from(signature.len()) else { return ptr::null_mut() };
        let mut place = signature.as_ptr();
        (library.functions.read_signature)(ptr::null_mut(), &raw mut place, len)
    }
}

/// `ECDSA_sign_setup`, refused.
///
/// # Safety
/// Only OpenSSL may call it, by `openssl/ec.h`.
unsafe extern "C" fn setup(
    _ec: *mut c_void,
    _context: *mut c_void,
    _kinv: *mut *mut c_void,
    _r: *mut *mut c_void,
) -> c_int {
    super::super::guard((), || {
        super::super::provider::tell::<()>(None, c"sign", Err(computed_before()));
    });
    0
}

/// `ECDH_compute_key`, before any derivation from the secret.
///
/// # Safety
/// As for `sign`.
unsafe extern "C" fn compute<const LIBRARY: usize>(
    secret: *mut *mut u8,
    secret_len: *mut usize,
    point: *const c_void,
    ec: *const c_void,
) -> c_int {
    let Some(library) = get(LIBRARY) else { return 0 };
    // SAFETY: OpenSSL calls a method with the object that has it, a point of its libcrypto, and places for the answers. It
    // frees the secret with its own allocator, from which that is.
    unsafe {
        let shared = library.attached.with_key(ec, c"derive", |provider, key| {
            library.check(ec, key)?;
            let Public::Ec { curve, .. } = &key.public else { return Err(Failure::unsupported("ECDH with this key")) };
            let peer = Public::Ec { curve: *curve, point: library.point(ec, point) };
            let shared = agree::derive(provider.caller()?, key, &Key::new(peer, Private::None))?;
            let memory: Memory = provider.core.memory;
            let place = memory.zeroed(shared.len());
            let place =
                place.ok_or_else(|| Failure::new(Reason::Internal, "libcrypto gives no memory: raise the limits"))?;
            place.as_ptr().copy_from_nonoverlapping(shared.as_ptr(), shared.len());
            Ok((place, shared.len()))
        });
        let Some((place, len)) = shared else { return 0 };
        (*secret, *secret_len) = (place.as_ptr(), len);
        1
    }
}
