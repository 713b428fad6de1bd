//! The method of `RSA` objects: PKCS#1 v1.5 signatures, and decryption, in the service.

use super::super::bytes;
use super::super::libcrypto::{Libcrypto, functions_of_libcrypto};
use super::super::memory::MAX_LIBRARIES;
use super::super::object::KeyObject;
use super::super::provider::Provider;
use super::attached::{Attached, Places};
use sidecore_client::keyops::decrypt;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Key, Public};
use sidecore_client::keyops::notice::Remark;
use sidecore_client::keyops::sign;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

/// `CRYPTO_EX_INDEX_RSA`.
const CLASS: c_int = 9;
/// `RSA_FLAG_EXT_PKEY`: the private numbers are elsewhere.
const ELSEWHERE: c_int = 0x20;

/// OpenSSL's numbers of paddings.
mod padding {
    use std::ffi::c_int;

    pub(super) const PKCS1: c_int = 1;
    pub(super) const NONE: c_int = 3;
    pub(super) const OAEP: c_int = 4;
}

/// `rsa_priv_enc` and `rsa_priv_dec`: length and place of the input, room for the result, object, padding.
type Operation = unsafe extern "C" fn(c_int, *const u8, *mut u8, *mut c_void, c_int) -> c_int;

functions_of_libcrypto! {
    Functions {
        openssls_own = c"RSA_PKCS1_OpenSSL": fn() -> *const c_void;
        duplicate = c"RSA_meth_dup": fn(*const c_void) -> *mut c_void;
        free = c"RSA_meth_free": fn(*mut c_void);
        flags = c"RSA_meth_get_flags": fn(*const c_void) -> c_int;
        set_flags = c"RSA_meth_set_flags": fn(*mut c_void, c_int) -> c_int;
        set_private_encrypt = c"RSA_meth_set_priv_enc": fn(*mut c_void, Operation) -> c_int;
        set_private_decrypt = c"RSA_meth_set_priv_dec": fn(*mut c_void, Operation) -> c_int;
        set_method = c"RSA_set_method": fn(*mut c_void, *const c_void) -> c_int;
        set_object_flags = c"RSA_set_flags": fn(*mut c_void, c_int);
        set_exponent = c"RSA_set0_key": fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int;
        set_factors = c"RSA_set0_factors": fn(*mut c_void, *mut c_void, *mut c_void) -> c_int;
        set_crt = c"RSA_set0_crt_params": fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void) -> c_int;
        get_public = c"RSA_get0_key": fn(*const c_void, *mut *const c_void, *mut *const c_void, *mut *const c_void);
        size = c"RSA_size": fn(*const c_void) -> c_int;
        new_number = c"BN_new": fn() -> *mut c_void;
        free_number = c"BN_free": fn(*mut c_void);
        bits = c"BN_num_bits": fn(*const c_void) -> c_int;
        to_bytes = c"BN_bn2bin": fn(*const c_void, *mut u8) -> c_int;
    }
}

struct Library {
    functions: Functions,
    attached: Attached,
    operations: [Operation; 2],
    method: OnceLock<usize>,
}

static LIBRARIES: Places<Library> = [const { OnceLock::new() }; MAX_LIBRARIES];

/// The operations for each libcrypto: OpenSSL passes only its object, which does not say where it belongs.
static OPERATIONS: [[Operation; 2]; MAX_LIBRARIES] = [
    [private_encrypt::<0>, private_decrypt::<0>],
    [private_encrypt::<1>, private_decrypt::<1>],
    [private_encrypt::<2>, private_decrypt::<2>],
    [private_encrypt::<3>, private_decrypt::<3>],
    [private_encrypt::<4>, private_decrypt::<4>],
    [private_encrypt::<5>, private_decrypt::<5>],
    [private_encrypt::<6>, private_decrypt::<6>],
    [private_encrypt::<7>, private_decrypt::<7>],
];

pub(super) fn find(library: &Libcrypto, number: usize) {
    LIBRARIES[number].get_or_init(|| {
        // SAFETY: these are the functions of this class.
        let attached = unsafe { Attached::find(library, CLASS, c"RSA_get_ex_data", c"RSA_set_ex_data")? };
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
/// `rsa` is null or such an object, in this libcrypto.
pub(super) unsafe fn complete(number: usize, rsa: *mut c_void, object: &KeyObject) -> Result<(), Failure> {
    let refused = || Failure::new(Reason::Internal, "libcrypto makes no RSA object: raise the limits on memory");
    let library = get(number).filter(|_| !rsa.is_null()).ok_or_else(refused)?;
    let method = library.method().ok_or_else(refused)?;
    // SAFETY: `rsa` is not null, so a new object of this libcrypto, as the functions are; the method is never freed.
    unsafe {
        library.set_zeros(rsa).ok_or_else(refused)?;
        library.attached.attach(rsa, object)?;
        if (library.functions.set_method)(rsa, method) <= 0 {
            return Err(refused());
        }
        (library.functions.set_object_flags)(rsa, ELSEWHERE);
    }
    Ok(())
}

impl Library {
    /// Our method: OpenSSL's own, with other private operations. It is never freed, because programs may free its
    /// objects last.
    fn method(&self) -> Option<*const c_void> {
        let functions = &self.functions;
        if self.method.get().is_none() {
            // SAFETY: the functions of RSA_meth_new(3) on a method that they made, and that no other thread knows yet.
            unsafe {
                let method = (functions.duplicate)((functions.openssls_own)());
                if method.is_null() {
                    return None;
                }
                (functions.set_flags)(method, (functions.flags)(method) | ELSEWHERE);
                (functions.set_private_encrypt)(method, self.operations[0]);
                (functions.set_private_decrypt)(method, self.operations[1]);
                if self.method.set(method.expose_provenance()).is_err() {
                    // Another thread was faster.
                    (functions.free)(method);
                }
            }
        }
        self.method.get().map(|method| ptr::with_exposed_provenance(*method))
    }

    /// # Safety
    /// `rsa` is a new object with the public part.
    unsafe fn set_zeros(&self, rsa: *mut c_void) -> Option<()> {
        let functions = &self.functions;
        // SAFETY: `rsa` and the numbers are of one libcrypto, as the functions are. The object takes over the numbers of a
        // call that succeeds, by RSA_set0_key(3), and only the others are freed.
        unsafe {
            let zeros: [*mut c_void; 6] = std::array::from_fn(|_| (functions.new_number)());
            let [d, p, q, dp, dq, coefficient] = zeros;
            let none = ptr::null_mut();
            let taken = if zeros.contains(&none) || (functions.set_exponent)(rsa, none, none, d) <= 0 {
                0
            } else if (functions.set_factors)(rsa, p, q) <= 0 {
                1
            } else if (functions.set_crt)(rsa, dp, dq, coefficient) <= 0 {
                3
            } else {
                zeros.len()
            };
            zeros[taken..].iter().for_each(|zero| (functions.free_number)(*zero));
            (taken == zeros.len()).then_some(())
        }
    }

    /// Refuses an object that has got another modulus: the service would sign with another key than the program means.
    ///
    /// # Safety
    /// `rsa` is an object of this libcrypto.
    unsafe fn check(&self, rsa: *const c_void, key: &Key) -> Result<usize, Failure> {
        let replaced =
            || Failure::new(Reason::Key, "the program has replaced the numbers of its RSA object: load the key again");
        let Public::Rsa { n, .. } = &key.public else { return Err(replaced()) };
        let functions = &self.functions;
        let mut modulus = ptr::null();
        // SAFETY: `rsa` is of this libcrypto. Its modulus lives as long as it, and has no more bytes than were compared with
        // the buffer's.
        unsafe {
            (functions.get_public)(rsa, &raw mut modulus, ptr::null_mut(), ptr::null_mut());
            if modulus.is_null() || ((functions.bits)(modulus) as usize).div_ceil(8) != n.len() {
                return Err(replaced());
            }
            let mut bytes = vec![0; n.len()];
            (functions.to_bytes)(modulus, bytes.as_mut_ptr());
            if bytes != *n || (functions.size)(rsa) as usize != n.len() {
                return Err(replaced());
            }
        }
        Ok(n.len())
    }
}

/// `RSA_private_encrypt`, which `RSA_sign` calls with its encoded digest.
///
/// # Safety
/// Only OpenSSL may call it, by `openssl/rsa.h`, with an object of this libcrypto.
unsafe extern "C" fn private_encrypt<const LIBRARY: usize>(
    len: c_int,
    input: *const u8,
    room: *mut u8,
    rsa: *mut c_void,
    padding: c_int,
) -> c_int {
    // SAFETY: `from` has `flen` bytes, by RSA_private_encrypt(3).
    let input = unsafe { bytes(input, usize::try_from(len).unwrap_or(0)) };
    let work = |library: &Library, provider: &Provider, key: &Arc<Key>| {
        if padding != padding::PKCS1 {
            let text = "an RSA signature that the program has padded itself, e.g. PSS through RSA_private_encrypt: the service \
                        signs no number that it has not padded. Use PKCS#1 v1.5, or EVP on the loaded key";
            provider.remark(Remark::RawRsa, Some(key), text);
            return Err(Failure::unsupported(text));
        }
        // SAFETY: OpenSSL calls a method with the object that has it, of this libcrypto.
        let size = unsafe { library.check(rsa, key)? };
        let signature = sign::Settings::default().sign(provider.caller()?, key, input)?;
        fits(&signature, size)?;
        Ok(signature)
    };
    // SAFETY: `to` has RSA_size bytes, by RSA_private_encrypt(3), and `fits` compares.
    unsafe { answer::<LIBRARY, _>(rsa, room, c"sign", work) }
}

/// `RSA_private_decrypt`.
///
/// # Safety
/// As for `private_encrypt`.
unsafe extern "C" fn private_decrypt<const LIBRARY: usize>(
    len: c_int,
    input: *const u8,
    room: *mut u8,
    rsa: *mut c_void,
    padding: c_int,
) -> c_int {
    // SAFETY: `from` has `flen` bytes, by RSA_private_decrypt(3).
    let input = unsafe { bytes(input, usize::try_from(len).unwrap_or(0)) };
    let work = |library: &Library, provider: &Provider, key: &Arc<Key>| {
        let padding = match padding {
            padding::PKCS1 => decrypt::Padding::Pkcs1,
            padding::OAEP => decrypt::Padding::Oaep,
            padding::NONE => decrypt::Padding::None,
            _ => return Err(Failure::unsupported("this padding of RSA ciphertexts: use PKCS#1 v1.5 or OAEP")),
        };
        // SAFETY: OpenSSL calls a method with the object that has it, of this libcrypto.
        let size = unsafe { library.check(rsa, key)? };
        let plaintext = decrypt::Settings { padding, ..Default::default() }.decrypt(provider.caller()?, key, input)?;
        fits(&plaintext, size)?;
        Ok(plaintext)
    };
    // SAFETY: `room` has space for the longest plaintext, by OpenSSL's documentation.
    unsafe { answer::<LIBRARY, _>(rsa, room, c"decrypt", work) }
}

fn fits(result: &[u8], size: usize) -> Result<(), Failure> {
    if result.len() <= size {
        Ok(())
    } else {
        Err(Failure::new(Reason::Service, "the result is longer than the modulus"))
    }
}

/// Writes the result of `work`, and returns its length; -1: it failed.
///
/// # Safety
/// `rsa` is an object of this libcrypto; `room` has space for the result.
unsafe fn answer<const LIBRARY: usize, R: AsRef<[u8]>>(
    rsa: *mut c_void,
    room: *mut u8,
    doing: &'static CStr,
    work: impl FnOnce(&Library, &Provider, &Arc<Key>) -> Result<R, Failure>,
) -> c_int {
    let Some(library) = get(LIBRARY) else { return -1 };
    // SAFETY: `rsa` is of this libcrypto, and the room has space for what `work` gives, which is this library's memory.
    unsafe {
        let result = library.attached.with_key(rsa, doing, |provider, key| work(library, provider, key));
        let Some(result) = result.as_ref().map(AsRef::as_ref) else { return -1 };
        let Ok(len) = c_int::try_from(result.len()) else { return -1 };
        room.copy_from_nonoverlapping(result.as_ptr(), result.len());
        len
    }
}
