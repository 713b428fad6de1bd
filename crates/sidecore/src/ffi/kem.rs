//! ML-KEM-768 keys from their seed, which the Rust interface leaves out.

use std::ptr::NonNull;

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use super::{pkey::PKey, succeeded};

/// Length of the seed (`d` and `z` of FIPS 203), in bytes.
pub(crate) const SEED_LEN: usize = 64;
/// Length of a decapsulation key, in bytes.
pub(crate) const DECAPSULATION_KEY_LEN: usize = 2400;

/// The decapsulation key that FIPS 203 derives from `seed`; `None` only where the library fails.
pub(crate) fn decapsulation_key(seed: &[u8; SEED_LEN]) -> Option<Zeroizing<Vec<u8>>> {
    let pair = key_pair(seed)?;
    let mut key = Zeroizing::new(vec![0; DECAPSULATION_KEY_LEN]);
    let mut written = key.len();
    // SAFETY: the pair is live; `key` is writable for the length that `written` gives.
    let code = unsafe { sys::EVP_PKEY_get_raw_private_key(pair.as_ptr(), key.as_mut_ptr(), &raw mut written) };
    (succeeded(code) && written == DECAPSULATION_KEY_LEN).then_some(key)
}

fn key_pair(seed: &[u8; SEED_LEN]) -> Option<PKey> {
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
