//! Keys in DER.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use crate::spec::Secret;
use sidecore_client::keys::Kind;

/// An asymmetric key of any kind.
pub(crate) struct PKey(NonNull<sys::EVP_PKEY>);

// SAFETY: the key is owned, and after parsing only used through calls that AWS-LC documents as safe from several
// threads at once (it locks what it caches inside).
unsafe impl Send for PKey {}
// SAFETY: as above.
unsafe impl Sync for PKey {}

impl PKey {
    /// Parses a PKCS#8 private key; `None` where it is none, or bytes follow it.
    pub(crate) fn private(pkcs8: &[u8]) -> Option<Self> {
        parse(pkcs8, sys::EVP_parse_private_key)
    }

    /// Parses a `SubjectPublicKeyInfo`; `None` where it is none, or bytes follow it.
    pub(crate) fn public(spki: &[u8]) -> Option<Self> {
        parse(spki, sys::EVP_parse_public_key)
    }

    /// Reads a raw private key of those kinds that have one: for ML-DSA-65 its seed or the expanded key. `None` where it is
    /// none.
    pub(crate) fn raw_private(kind: Kind, raw: &[u8]) -> Option<Self> {
        let (bytes, len) = (raw.as_ptr(), raw.len());
        let plain = |algorithm| {
            // SAFETY: the bytes are readable for their length and copied; the key returned is owned.
            unsafe { sys::EVP_PKEY_new_raw_private_key(algorithm, std::ptr::null_mut(), bytes, len) }
        };
        let key = match kind {
            Kind::Ed25519 => plain(sys::EVP_PKEY_ED25519),
            Kind::X25519 => plain(sys::EVP_PKEY_X25519),
            // SAFETY: as above.
            Kind::MlDsa65 => unsafe { sys::EVP_PKEY_pqdsa_new_raw_private_key(sys::NID_MLDSA65, bytes, len) },
            _ => return None,
        };
        // SAFETY: null, or owned here.
        unsafe { Self::from_owned(key) }
    }

    /// Which kind of key it is; `None`: none that can be stored.
    pub(crate) fn kind(&self) -> Option<Kind> {
        // SAFETY: the key is live; each getter is asked only of a key of its kind.
        unsafe {
            let key = self.as_ptr();
            match sys::EVP_PKEY_id(key) {
                sys::EVP_PKEY_RSA => match sys::EVP_PKEY_bits(key) {
                    2048 => Some(Kind::Rsa2048),
                    3072 => Some(Kind::Rsa3072),
                    4096 => Some(Kind::Rsa4096),
                    _ => None,
                },
                sys::EVP_PKEY_EC => {
                    match sys::EC_GROUP_get_curve_name(sys::EC_KEY_get0_group(sys::EVP_PKEY_get0_EC_KEY(key))) {
                        sys::NID_X9_62_prime256v1 => Some(Kind::P256),
                        sys::NID_secp384r1 => Some(Kind::P384),
                        _ => None,
                    }
                }
                sys::EVP_PKEY_ED25519 => Some(Kind::Ed25519),
                sys::EVP_PKEY_X25519 => Some(Kind::X25519),
                sys::EVP_PKEY_KEM => (sys::EVP_PKEY_kem_get_type(key) == sys::NID_MLKEM768).then_some(Kind::MlKem768),
                sys::EVP_PKEY_PQDSA => (sys::EVP_PKEY_pqdsa_get_type(key) == sys::NID_MLDSA65).then_some(Kind::MlDsa65),
                _ => None,
            }
        }
    }

    /// The private key as PKCS#8; `None` where the library cannot write it.
    pub(crate) fn to_pkcs8(&self) -> Option<Secret> {
        marshal(self, sys::EVP_marshal_private_key, |bytes| Secret::from(bytes))
    }

    /// The public key as `SubjectPublicKeyInfo`; `None` where the library cannot write it.
    pub(crate) fn to_spki(&self) -> Option<Vec<u8>> {
        marshal(self, sys::EVP_marshal_public_key, <[u8]>::to_vec)
    }

    /// The raw private key of those kinds that have one, of `N` bytes.
    pub(crate) fn to_raw_private<const N: usize>(&self) -> Option<Secret> {
        let mut raw = Zeroizing::new([0; N]);
        let mut written = N;
        // SAFETY: the key is live; `raw` is writable for the length that `written` gives.
        let code = unsafe { sys::EVP_PKEY_get_raw_private_key(self.as_ptr(), raw.as_mut_ptr(), &raw mut written) };
        (super::succeeded(code) && written == N).then(|| Secret::from(&raw[..]))
    }

    pub(super) fn as_ptr(&self) -> *mut sys::EVP_PKEY {
        self.0.as_ptr()
    }

    /// Takes over a key that the library made; `None` for null.
    ///
    /// # Safety
    /// `key` is null or an owned reference to a live key.
    pub(super) unsafe fn from_owned(key: *mut sys::EVP_PKEY) -> Option<Self> {
        if key.is_null() {
            super::clear_errors();
        }
        NonNull::new(key).map(Self)
    }
}

impl Drop for PKey {
    fn drop(&mut self) {
        // SAFETY: this owned one reference and gives it back once.
        unsafe { sys::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

type Parse = unsafe extern "C" fn(*mut sys::CBS) -> *mut sys::EVP_PKEY;

fn parse(der: &[u8], parse: Parse) -> Option<PKey> {
    let mut input = MaybeUninit::<sys::CBS>::uninit();
    // SAFETY: CBS_init makes `input` valid over `der`, which outlives both calls; the parser returns an owned key or null.
    let (key, rest) = unsafe {
        sys::CBS_init(input.as_mut_ptr(), der.as_ptr(), der.len());
        let key = PKey::from_owned(parse(input.as_mut_ptr()));
        (key, sys::CBS_len(input.as_ptr()))
    };
    key.filter(|_| rest == 0)
}

type Marshal = unsafe extern "C" fn(*mut sys::CBB, *const sys::EVP_PKEY) -> std::ffi::c_int;

/// What the library writes of a key. Its own buffer is wiped when it is freed.
fn marshal<T>(key: &PKey, write: Marshal, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let mut buffer = MaybeUninit::<sys::CBB>::uninit();
    let (mut bytes, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the buffer is made valid by CBB_init, written by the library alone, and finished or cleaned up once.
    let finished = unsafe {
        if sys::CBB_init(buffer.as_mut_ptr(), 512) != 1 {
            return None;
        }
        let done = write(buffer.as_mut_ptr(), key.as_ptr()) == 1
            && sys::CBB_finish(buffer.as_mut_ptr(), &raw mut bytes, &raw mut len) == 1;
        if !done {
            sys::CBB_cleanup(buffer.as_mut_ptr());
        }
        done
    };
    if !finished {
        super::clear_errors();
        return None;
    }
    // SAFETY: after CBB_finish `bytes` is owned here and holds `len` bytes; OPENSSL_free wipes before it frees.
    unsafe {
        let taken = take(std::slice::from_raw_parts(bytes, len));
        sys::OPENSSL_free(bytes.cast());
        Some(taken)
    }
}
