//! ML-KEM-768 keys from their seed, which the Rust interface leaves out.

use std::ptr::NonNull;

use aws_lc_sys as sys;

use super::pkey::PKey;
use crate::spec::Secret;

/// Length of the seed (`d` and `z` of FIPS 203), in bytes.
pub(crate) const SEED_LEN: usize = 64;
/// Length of a decapsulation key, in bytes.
pub(crate) const DECAPSULATION_KEY_LEN: usize = 2400;

/// The decapsulation key that FIPS 203 derives from `seed`; `None` only where the library fails.
pub(crate) fn decapsulation_key(seed: &[u8; SEED_LEN]) -> Option<Secret> {
    key_pair(seed)?.to_raw_private::<DECAPSULATION_KEY_LEN>()
}

/// The key pair that FIPS 203 derives from `seed`; `None` only where the library fails.
pub(crate) fn key_pair(seed: &[u8; SEED_LEN]) -> Option<PKey> {
    // SAFETY: the context is owned and freed below; `seed` is readable for the length given; the key returned is owned.
    unsafe {
        let context = NonNull::new(sys::EVP_PKEY_CTX_new_id(sys::EVP_PKEY_KEM, std::ptr::null_mut()))?.as_ptr();
        let (mut pair, mut seed_len) = (std::ptr::null_mut(), SEED_LEN);
        let made = sys::EVP_PKEY_CTX_kem_set_params(context, sys::NID_MLKEM768) == 1
            && sys::EVP_PKEY_keygen_init(context) == 1
            && sys::EVP_PKEY_keygen_deterministic(context, &raw mut pair, seed.as_ptr(), &raw mut seed_len) == 1;
        sys::EVP_PKEY_CTX_free(context);
        PKey::from_owned(pair).filter(|_| made)
    }
}

/// The SPKI of an encapsulation key; `None` where it is none.
pub(crate) fn spki(encapsulation_key: &[u8]) -> Option<Vec<u8>> {
    // SAFETY: the bytes are readable for their length and copied; the key returned is owned.
    let key = unsafe {
        let (bytes, len) = (encapsulation_key.as_ptr(), encapsulation_key.len());
        PKey::from_owned(sys::EVP_PKEY_kem_new_raw_public_key(sys::NID_MLKEM768, bytes, len))
    };
    key?.to_spki()
}
