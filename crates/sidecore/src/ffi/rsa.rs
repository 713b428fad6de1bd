//! RSA on digests and on raw blocks.

use std::ffi::{c_int, c_uint};
use std::ptr::NonNull;

use aws_lc_sys as sys;

use super::{hash, pkey::PKey, succeeded};
use crate::spec::{Hash, SaltLength};

/// An RSA key, private or public.
pub(crate) struct RsaKey {
    // Points into `pkey`, which keeps it alive.
    rsa: *mut sys::RSA,
    pkey: PKey,
}

// SAFETY: as PKey; AWS-LC locks what it caches in the key (blinding, Montgomery contexts).
unsafe impl Send for RsaKey {}
// SAFETY: as above.
unsafe impl Sync for RsaKey {}

impl RsaKey {
    /// The RSA key inside `pkey`; `None` where it is of another kind. A key that its encoding restricts to PSS is of
    /// another kind, too: nothing here would heed the restriction.
    pub(crate) fn new(pkey: PKey) -> Option<Self> {
        // SAFETY: the key is live.
        let rsa = unsafe {
            match sys::EVP_PKEY_id(pkey.as_ptr()) {
                sys::EVP_PKEY_RSA => sys::EVP_PKEY_get0_RSA(pkey.as_ptr()),
                _ => std::ptr::null_mut(),
            }
        };
        if rsa.is_null() {
            super::clear_errors();
        }
        (!rsa.is_null()).then_some(Self { rsa, pkey })
    }

    /// Length of the modulus, in bits.
    pub(crate) fn bits(&self) -> u32 {
        // SAFETY: the key is live.
        unsafe { sys::RSA_bits(self.rsa) }
    }

    /// Length of the modulus, in bytes.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the key is live.
        unsafe { sys::RSA_size(self.rsa) as usize }
    }

    /// Writes the private exponent, big-endian, padded to `output`. `None` for a public key.
    pub(crate) fn private_exponent(&self, output: &mut [u8]) -> Option<()> {
        // SAFETY: the number belongs to the live key; `output` is writable for its length.
        let code = unsafe {
            let exponent = NonNull::new(sys::RSA_get0_d(self.rsa).cast_mut())?;
            sys::BN_bn2bin_padded(output.as_mut_ptr(), output.len(), exponent.as_ptr())
        };
        succeeded(code).then_some(())
    }

    /// PKCS#1 v1.5 signature of a digest of `hash`; the number of bytes written.
    pub(crate) fn sign_pkcs1(&self, hash: Hash, digest: &[u8], signature: &mut [u8]) -> Option<usize> {
        assert!(signature.len() >= self.len());
        let mut written: c_uint = 0;
        let (number, output) = (hash::number(hash), signature.as_mut_ptr());
        // SAFETY: the digest is readable for its length and, as just checked, a modulus length is writable.
        let code = unsafe { sys::RSA_sign(number, digest.as_ptr(), digest.len(), output, &raw mut written, self.rsa) };
        succeeded(code).then_some(written as usize)
    }

    /// Whether `signature` is a PKCS#1 v1.5 signature of a digest of `hash`.
    pub(crate) fn verify_pkcs1(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        let number = hash::number(hash);
        // SAFETY: both are readable for their lengths.
        succeeded(unsafe {
            sys::RSA_verify(number, digest.as_ptr(), digest.len(), signature.as_ptr(), signature.len(), self.rsa)
        })
    }

    /// Signature of `payload` with the padding of PKCS#1 v1.5; the number of bytes written.
    pub(crate) fn sign_raw(&self, payload: &[u8], signature: &mut [u8]) -> Option<usize> {
        let mut written = 0;
        // SAFETY: both are valid for their lengths, which the library checks against the modulus.
        let code = unsafe {
            let (target, source, padding) = (signature.as_mut_ptr(), payload.as_ptr(), sys::RSA_PKCS1_PADDING);
            sys::RSA_sign_raw(self.rsa, &raw mut written, target, signature.len(), source, payload.len(), padding)
        };
        succeeded(code).then_some(written)
    }

    /// Whether `signature` is one of `payload` with the padding of PKCS#1 v1.5.
    pub(crate) fn verify_raw(&self, payload: &[u8], signature: &[u8]) -> bool {
        let mut signed = vec![0; self.len()];
        let mut len = 0;
        // SAFETY: both are valid for their lengths, which the library checks against the modulus.
        let code = unsafe {
            let (target, source, padding) = (signed.as_mut_ptr(), signature.as_ptr(), sys::RSA_PKCS1_PADDING);
            sys::RSA_verify_raw(self.rsa, &raw mut len, target, signed.len(), source, signature.len(), padding)
        };
        succeeded(code) && signed.get(..len) == Some(payload)
    }

    /// PSS signature of a digest of `hash`; the number of bytes written.
    pub(crate) fn sign_pss(&self, pss: Pss, digest: &[u8], signature: &mut [u8]) -> Option<usize> {
        let mut written = 0;
        // SAFETY: all pointers are valid for the lengths beside them; the tables are static.
        let code = unsafe {
            sys::RSA_sign_pss_mgf1(
                self.rsa,
                &raw mut written,
                signature.as_mut_ptr(),
                signature.len(),
                digest.as_ptr(),
                digest.len(),
                hash::table(pss.hash),
                hash::table(pss.mgf1),
                pss.salt_number(),
            )
        };
        succeeded(code).then_some(written)
    }

    /// Whether `signature` is a PSS signature of a digest of `hash`.
    pub(crate) fn verify_pss(&self, pss: Pss, digest: &[u8], signature: &[u8]) -> bool {
        // SAFETY: all pointers are valid for the lengths beside them; the tables are static.
        succeeded(unsafe {
            sys::RSA_verify_pss_mgf1(
                self.rsa,
                digest.as_ptr(),
                digest.len(),
                hash::table(pss.hash),
                hash::table(pss.mgf1),
                pss.salt_number(),
                signature.as_ptr(),
                signature.len(),
            )
        })
    }

    /// The raw private operation, blinded, on a block of the modulus length. `None` where it is not below the modulus.
    pub(crate) fn private_raw(&self, input: &[u8], output: &mut [u8]) -> Option<()> {
        self.raw(sys::RSA_decrypt, input, output)
    }

    /// The raw public operation on a block of the modulus length. `None` where it is not below the modulus.
    pub(crate) fn public_raw(&self, input: &[u8], output: &mut [u8]) -> Option<()> {
        self.raw(sys::RSA_encrypt, input, output)
    }

    fn raw(&self, operation: RawOperation, input: &[u8], output: &mut [u8]) -> Option<()> {
        let mut written = 0;
        // SAFETY: both are valid for their lengths; the library checks them against the modulus.
        let code = unsafe {
            let (target, source) = (output.as_mut_ptr(), input.as_ptr());
            let padding = sys::RSA_NO_PADDING;
            operation(self.rsa, &raw mut written, target, output.len(), source, input.len(), padding)
        };
        (succeeded(code) && written == output.len()).then_some(())
    }

    /// OAEP decryption; the number of bytes written. `output` holds at least the modulus length. `None` where the
    /// padding does not verify.
    pub(crate) fn decrypt_oaep(&self, oaep: &Oaep, ciphertext: &[u8], output: &mut [u8]) -> Option<usize> {
        let context = Context::new(&self.pkey)?;
        let mut written = output.len();
        // SAFETY: the context is live, input and output are valid for their lengths, and the library never writes more
        // than the length it is given in `written`.
        let code = unsafe {
            if sys::EVP_PKEY_decrypt_init(context.0.as_ptr()) != 1 || !context.set_oaep(oaep) {
                super::clear_errors();
                return None;
            }
            let (target, source) = (output.as_mut_ptr(), ciphertext.as_ptr());
            sys::EVP_PKEY_decrypt(context.0.as_ptr(), target, &raw mut written, source, ciphertext.len())
        };
        succeeded(code).then_some(written)
    }
}

/// The parameters of a PSS signature.
#[derive(Clone, Copy)]
pub(crate) struct Pss {
    /// Hash of the message.
    pub(crate) hash: Hash,
    /// Hash of the mask generation function.
    pub(crate) mgf1: Hash,
    /// Length of the salt.
    pub(crate) salt: SaltLength,
}

impl Pss {
    fn salt_number(self) -> c_int {
        match self.salt {
            SaltLength::Digest => -1,
            SaltLength::Any => -2,
            SaltLength::Bytes(bytes) => c_int::from(bytes),
        }
    }
}

/// The parameters of an OAEP encryption.
pub(crate) struct Oaep {
    /// Hash of the label.
    pub(crate) hash: Hash,
    /// Hash of the mask generation function.
    pub(crate) mgf1: Hash,
    /// Label, mostly empty.
    pub(crate) label: Vec<u8>,
}

type RawOperation = unsafe extern "C" fn(*mut sys::RSA, *mut usize, *mut u8, usize, *const u8, usize, c_int) -> c_int;

struct Context(NonNull<sys::EVP_PKEY_CTX>);

impl Context {
    fn new(pkey: &PKey) -> Option<Self> {
        // SAFETY: the key is live; the context takes a reference of its own.
        NonNull::new(unsafe { sys::EVP_PKEY_CTX_new(pkey.as_ptr(), std::ptr::null_mut()) }).map(Self)
    }

    fn set_oaep(&self, oaep: &Oaep) -> bool {
        let context = self.0.as_ptr();
        // SAFETY: the context is live and its operation was started; the tables are static.
        let set = unsafe {
            sys::EVP_PKEY_CTX_set_rsa_padding(context, sys::RSA_PKCS1_OAEP_PADDING) == 1
                && sys::EVP_PKEY_CTX_set_rsa_oaep_md(context, hash::table(oaep.hash)) == 1
                && sys::EVP_PKEY_CTX_set_rsa_mgf1_md(context, hash::table(oaep.mgf1)) == 1
        };
        set && (oaep.label.is_empty() || self.set_label(&oaep.label))
    }

    fn set_label(&self, label: &[u8]) -> bool {
        // SAFETY: the copy is on the library's heap; the context takes it over where the call succeeds.
        unsafe {
            let copy = sys::OPENSSL_memdup(label.as_ptr().cast(), label.len()).cast();
            let taken = sys::EVP_PKEY_CTX_set0_rsa_oaep_label(self.0.as_ptr(), copy, label.len()) == 1;
            if !taken {
                sys::OPENSSL_free(copy.cast());
            }
            taken
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it came from EVP_PKEY_CTX_new and is freed once.
        unsafe { sys::EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}
