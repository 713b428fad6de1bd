//! New keys.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};

use aws_lc_sys as sys;

use super::pkey::PKey;
use sidecore_client::keys::Kind;

/// A new key of this kind; `None` only where the library fails. RSA takes tens of milliseconds to seconds.
pub(crate) fn generate(kind: Kind) -> Option<PKey> {
    let context = Context::new(match kind {
        Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096 => sys::EVP_PKEY_RSA,
        Kind::P256 | Kind::P384 => sys::EVP_PKEY_EC,
        Kind::Ed25519 => sys::EVP_PKEY_ED25519,
        Kind::X25519 => sys::EVP_PKEY_X25519,
        Kind::MlKem768 => sys::EVP_PKEY_KEM,
        Kind::MlDsa65 => sys::EVP_PKEY_PQDSA,
    })?;
    let context = context.0.as_ptr();
    let mut key = null_mut();
    // SAFETY: the context is live; each parameter is set on a context of its kind, some of them after the operation was
    // started; the key made is owned by whoever takes it.
    unsafe {
        let before = match kind {
            Kind::MlKem768 => sys::EVP_PKEY_CTX_kem_set_params(context, sys::NID_MLKEM768),
            Kind::MlDsa65 => sys::EVP_PKEY_CTX_pqdsa_set_params(context, sys::NID_MLDSA65),
            _ => 1,
        };
        let made = before == 1
            && sys::EVP_PKEY_keygen_init(context) == 1
            && set_size(context, kind) == 1
            && sys::EVP_PKEY_keygen(context, &raw mut key) == 1;
        if !made {
            super::clear_errors();
        }
        PKey::from_owned(key).filter(|_| made)
    }
}

/// Sets the modulus's length or the curve, where the kind has one.
///
/// # Safety
/// `context` is live, of the algorithm of `kind`, and started for key generation.
unsafe fn set_size(context: *mut sys::EVP_PKEY_CTX, kind: Kind) -> c_int {
    let rsa = |bits| {
        // SAFETY: the caller keeps the context live.
        unsafe { sys::EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits) }
    };
    let curve = |nid| {
        // SAFETY: as above.
        unsafe { sys::EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, nid) }
    };
    match kind {
        Kind::Rsa2048 => rsa(2048),
        Kind::Rsa3072 => rsa(3072),
        Kind::Rsa4096 => rsa(4096),
        Kind::P256 => curve(sys::NID_X9_62_prime256v1),
        Kind::P384 => curve(sys::NID_secp384r1),
        _ => 1,
    }
}

struct Context(NonNull<sys::EVP_PKEY_CTX>);

impl Context {
    fn new(algorithm: c_int) -> Option<Self> {
        // SAFETY: the context returned is owned.
        NonNull::new(unsafe { sys::EVP_PKEY_CTX_new_id(algorithm, null_mut()) }).map(Self)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it came from EVP_PKEY_CTX_new_id and is freed once.
        unsafe { sys::EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}
