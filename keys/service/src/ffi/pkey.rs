//! Asymmetric keys: read, made, written.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

use aws_lc_sys as sys;
use sidecore_client::keys::Kind;
use sidecore_core::session::Algorithm;
use zeroize::Zeroizing;

use super::{context::Context, owned, succeeded};
use crate::spec::Secret;

pub(crate) use sys::{
    EVP_PKEY_EC as EC, EVP_PKEY_ED25519 as ED25519, EVP_PKEY_KEM as KEM, EVP_PKEY_PQDSA as PQDSA, EVP_PKEY_RSA as RSA,
    EVP_PKEY_RSA_PSS as RSA_PSS, EVP_PKEY_X25519 as X25519,
};

pub(crate) const DECAPSULATION_KEY_LEN: usize = 2400;
/// Where FIPS 203 puts the encapsulation key inside it.
const ENCAPSULATION_KEY: Range<usize> = 1152..1152 + 1184;
/// Length of the seed that both follow from (`d` and `z` of FIPS 203), in bytes.
pub(crate) const SEED_LEN: usize = 64;

/// The library's number of an algorithm, and its open parameter: the modulus's length in bits, the curve or the
/// parameter set.
type Parameters = (c_int, c_int);

/// The keys that the project supports. RSA-1024 keys are not stored.
const KEYS: [(Algorithm, Option<Kind>, Parameters); 13] = [
    (Algorithm::Rsa1024, None, (RSA, 1024)),
    (Algorithm::Rsa2048, Some(Kind::Rsa2048), (RSA, 2048)),
    (Algorithm::Rsa3072, Some(Kind::Rsa3072), (RSA, 3072)),
    (Algorithm::Rsa4096, Some(Kind::Rsa4096), (RSA, 4096)),
    (Algorithm::Rsa6144, Some(Kind::Rsa6144), (RSA, 6144)),
    (Algorithm::Rsa8192, Some(Kind::Rsa8192), (RSA, 8192)),
    (Algorithm::P256, Some(Kind::P256), (EC, sys::NID_X9_62_prime256v1)),
    (Algorithm::P384, Some(Kind::P384), (EC, sys::NID_secp384r1)),
    (Algorithm::P521, Some(Kind::P521), (EC, sys::NID_secp521r1)),
    (Algorithm::Ed25519, Some(Kind::Ed25519), (ED25519, 0)),
    (Algorithm::X25519, Some(Kind::X25519), (X25519, 0)),
    (Algorithm::MlKem768, Some(Kind::MlKem768), (KEM, sys::NID_MLKEM768)),
    (Algorithm::MlDsa65, Some(Kind::MlDsa65), (PQDSA, sys::NID_MLDSA65)),
];

pub(crate) struct PKey(NonNull<sys::EVP_PKEY>);

// SAFETY: the key is owned, and after parsing only used through calls that AWS-LC documents as safe from several
// threads at once (it locks what it caches inside: blinding, Montgomery contexts).
unsafe impl Send for PKey {}
// SAFETY: as above.
unsafe impl Sync for PKey {}

impl PKey {
    pub(crate) fn private(pkcs8: &[u8]) -> Option<Self> {
        parse(pkcs8, sys::EVP_parse_private_key)
    }

    pub(crate) fn public(spki: &[u8]) -> Option<Self> {
        parse(spki, sys::EVP_parse_public_key)
    }

    /// Reads a raw private key of those kinds that have one: for ML-DSA-65 and ML-KEM-768 the seed or the expanded key.
    /// `None` where it is none.
    pub(crate) fn raw_private(kind: Kind, raw: &[u8]) -> Option<Self> {
        let (bytes, len) = (raw.as_ptr(), raw.len());
        // SAFETY: the bytes are readable for their length and copied; the key returned is owned or null.
        unsafe {
            Self::from_owned(match kind {
                Kind::Ed25519 => sys::EVP_PKEY_new_raw_private_key(ED25519, null_mut(), bytes, len),
                Kind::X25519 => sys::EVP_PKEY_new_raw_private_key(X25519, null_mut(), bytes, len),
                Kind::MlDsa65 => sys::EVP_PKEY_pqdsa_new_raw_private_key(sys::NID_MLDSA65, bytes, len),
                Kind::MlKem768 if len == SEED_LEN => return make(kind, Some(raw)),
                Kind::MlKem768 => {
                    let public = raw.get(ENCAPSULATION_KEY)?;
                    sys::EVP_PKEY_kem_new_raw_key(sys::NID_MLKEM768, public.as_ptr(), public.len(), bytes, len)
                }
                _ => return None,
            })
        }
    }

    pub(crate) fn raw_public(kind: Kind, raw: &[u8]) -> Option<Self> {
        let (bytes, len) = (raw.as_ptr(), raw.len());
        // SAFETY: the bytes are readable for their length and copied; the key returned is owned or null.
        unsafe {
            Self::from_owned(match kind {
                Kind::Ed25519 => sys::EVP_PKEY_new_raw_public_key(ED25519, null_mut(), bytes, len),
                Kind::X25519 => sys::EVP_PKEY_new_raw_public_key(X25519, null_mut(), bytes, len),
                Kind::MlDsa65 => sys::EVP_PKEY_pqdsa_new_raw_public_key(sys::NID_MLDSA65, bytes, len),
                Kind::MlKem768 => sys::EVP_PKEY_kem_new_raw_public_key(sys::NID_MLKEM768, bytes, len),
                _ => return None,
            })
        }
    }

    /// Makes a new key of this kind; `None` only where the library fails. RSA takes tens of milliseconds to seconds.
    pub(crate) fn generate(kind: Kind) -> Option<Self> {
        make(kind, None)
    }

    /// The algorithm of the key's classes; `None`: the project does not support it.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.row().map(|(algorithm, ..)| *algorithm)
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        self.row()?.1
    }

    fn row(&self) -> Option<&'static (Algorithm, Option<Kind>, Parameters)> {
        let (key, id) = (self.as_ptr(), self.id());
        // SAFETY: the key is live; each getter is asked only of a key of its kind.
        let parameter = unsafe {
            match id {
                RSA => sys::EVP_PKEY_bits(key),
                EC => sys::EC_GROUP_get_curve_name(sys::EC_KEY_get0_group(sys::EVP_PKEY_get0_EC_KEY(key))),
                KEM => sys::EVP_PKEY_kem_get_type(key),
                PQDSA => sys::EVP_PKEY_pqdsa_get_type(key),
                _ => 0,
            }
        };
        KEYS.iter().find(|(.., parameters)| *parameters == (id, parameter))
    }

    pub(crate) fn id(&self) -> c_int {
        // SAFETY: the key is live.
        unsafe { sys::EVP_PKEY_id(self.as_ptr()) }
    }

    /// Length of an RSA key's modulus, or of the order of an elliptic curve, in bits.
    pub(crate) fn bits(&self) -> c_int {
        // SAFETY: the key is live.
        unsafe { sys::EVP_PKEY_bits(self.as_ptr()) }
    }

    pub(crate) fn coordinate_len(&self) -> usize {
        (self.bits() as usize).div_ceil(8)
    }

    /// Length of the longest signature, in bytes; for RSA of the modulus.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the key is live.
        unsafe { sys::EVP_PKEY_size(self.as_ptr()) as usize }
    }

    pub(crate) fn to_pkcs8(&self) -> Option<Secret> {
        marshal(self, sys::EVP_marshal_private_key, |bytes| Secret::from(bytes))
    }

    pub(crate) fn to_spki(&self) -> Option<Vec<u8>> {
        marshal(self, sys::EVP_marshal_public_key, <[u8]>::to_vec)
    }

    pub(crate) fn to_raw_private(&self) -> Option<Secret> {
        let mut raw = Zeroizing::new([0; DECAPSULATION_KEY_LEN]);
        let mut written = DECAPSULATION_KEY_LEN;
        // SAFETY: the key is live; `raw` is writable for the length that `written` gives.
        let code = unsafe { sys::EVP_PKEY_get_raw_private_key(self.as_ptr(), raw.as_mut_ptr(), &raw mut written) };
        succeeded(code).then(|| Secret::from(&raw[..written]))
    }

    /// Writes an RSA key's private exponent, big-endian, padded to `output`. `None` for a public key.
    pub(crate) fn private_exponent(&self, output: &mut [u8]) -> Option<()> {
        self.write_number(sys::RSA_get0_d, output)
    }

    /// The private key of an elliptic curve of 256 bits, big-endian. `None` for others and for a public key.
    pub(crate) fn scalar(&self) -> Option<Zeroizing<[u8; 32]>> {
        if self.id() != EC {
            return None;
        }
        let mut bytes = Zeroizing::new([0; 32]);
        // SAFETY: the key is live and one of a curve; its number, which nobody changes, is null for a public key. The
        // bytes are writable for their length.
        let code = unsafe {
            let number = sys::EC_KEY_get0_private_key(sys::EVP_PKEY_get0_EC_KEY(self.as_ptr()).as_ref()?).as_ref()?;
            sys::BN_bn2bin_padded(bytes.as_mut_ptr(), bytes.len(), number)
        };
        succeeded(code).then_some(bytes)
    }

    pub(super) fn as_ptr(&self) -> *mut sys::EVP_PKEY {
        self.0.as_ptr()
    }

    /// Takes over a key that the library made; `None` for null.
    ///
    /// # Safety
    /// `key` is null or an owned reference to a live key.
    pub(super) unsafe fn from_owned(key: *mut sys::EVP_PKEY) -> Option<Self> {
        owned(key).map(Self)
    }
}

impl Drop for PKey {
    fn drop(&mut self) {
        // SAFETY: this owned one reference and gives it back once.
        unsafe { sys::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

fn make(kind: Kind, seed: Option<&[u8]>) -> Option<PKey> {
    let (.., (id, parameter)) = *KEYS.iter().find(|row| row.1 == Some(kind))?;
    let context = Context::of_algorithm(id)?;
    let (context, mut key) = (context.as_ptr(), null_mut());
    // SAFETY: the context is live, and each parameter is set on one of its algorithm; the seed is readable for its
    // length; the key is owned where it is made, and null where it is not.
    unsafe {
        let ready = sys::EVP_PKEY_keygen_init(context) == 1
            && match id {
                RSA => sys::EVP_PKEY_CTX_set_rsa_keygen_bits(context, parameter),
                EC => sys::EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, parameter),
                KEM => sys::EVP_PKEY_CTX_kem_set_params(context, parameter),
                PQDSA => sys::EVP_PKEY_CTX_pqdsa_set_params(context, parameter),
                _ => 1,
            } == 1;
        match seed {
            _ if !ready => {}
            None => drop(sys::EVP_PKEY_keygen(context, &raw mut key)),
            Some(seed) => {
                let (seed, mut len) = (seed.as_ptr(), seed.len());
                sys::EVP_PKEY_keygen_deterministic(context, &raw mut key, seed, &raw mut len);
            }
        }
        PKey::from_owned(key)
    }
}

type Parse = unsafe extern "C" fn(*mut sys::CBS) -> *mut sys::EVP_PKEY;

fn parse(der: &[u8], parse: Parse) -> Option<PKey> {
    let mut input = sys::CBS { data: der.as_ptr(), len: der.len() };
    // SAFETY: `input` stands for `der`, which outlives the call; the parser returns an owned key or null.
    let key = unsafe { PKey::from_owned(parse(&raw mut input)) };
    key.filter(|_| input.len == 0)
}

type Marshal = unsafe extern "C" fn(*mut sys::CBB, *const sys::EVP_PKEY) -> c_int;

fn marshal<T>(key: &PKey, write: Marshal, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let mut buffer = MaybeUninit::<sys::CBB>::uninit();
    let buffer = buffer.as_mut_ptr();
    // SAFETY: the buffer is made valid by CBB_init, written by the library alone, lent as far as it is written, and
    // cleaned up once, which wipes it.
    unsafe {
        if !succeeded(sys::CBB_init(buffer, 512)) {
            return None;
        }
        let written = write(buffer, key.as_ptr()) == 1 && sys::CBB_flush(buffer) == 1;
        let taken = succeeded(written.into())
            .then(|| take(std::slice::from_raw_parts(sys::CBB_data(buffer), sys::CBB_len(buffer))));
        sys::CBB_cleanup(buffer);
        taken
    }
}
