//! Parameters of operations with asymmetric keys, in the library's terms.

use std::ffi::c_int;

use aws_lc_sys as sys;

use super::hash::table;
use crate::spec::{DecryptionPadding, EncryptionPadding, Hash, SaltLength, SignaturePadding};

pub(crate) enum Padding {
    /// None: the key determines the operation.
    None,
    /// Of RSA signatures, over digests of this hash.
    Signature(SignaturePadding, Hash),
    /// Of RSA ciphertexts. PKCS#1 v1.5 padding stays in the output: the engine's `ImplicitRejection` checks it.
    Decryption(DecryptionPadding),
    Encryption(EncryptionPadding),
}

impl Padding {
    /// # Safety
    /// The context is live and its operation was started.
    pub(super) unsafe fn set(&self, context: *mut sys::EVP_PKEY_CTX) -> bool {
        // SAFETY: the caller promises the same of the context; the tables are static.
        unsafe {
            match self {
                Self::None | Self::Signature(SignaturePadding::Pkcs1Raw, _) => true,
                Self::Signature(SignaturePadding::Pkcs1, hash) => {
                    sys::EVP_PKEY_CTX_set_signature_md(context, table(*hash)) == 1
                }
                Self::Signature(
                    SignaturePadding::Pss { mgf1, salt } | SignaturePadding::PssRaw { mgf1, salt },
                    hash,
                ) => {
                    sys::EVP_PKEY_CTX_set_signature_md(context, table(*hash)) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_padding(context, sys::RSA_PKCS1_PSS_PADDING) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_mgf1_md(context, table(*mgf1)) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_pss_saltlen(context, salt_len(*salt)) == 1
                }
                Self::Decryption(DecryptionPadding::Pkcs1) | Self::Encryption(EncryptionPadding::None) => {
                    sys::EVP_PKEY_CTX_set_rsa_padding(context, sys::RSA_NO_PADDING) == 1
                }
                Self::Encryption(EncryptionPadding::Padded(DecryptionPadding::Pkcs1)) => {
                    sys::EVP_PKEY_CTX_set_rsa_padding(context, sys::RSA_PKCS1_PADDING) == 1
                }
                Self::Decryption(DecryptionPadding::Oaep { hash, mgf1, label })
                | Self::Encryption(EncryptionPadding::Padded(DecryptionPadding::Oaep { hash, mgf1, label })) => {
                    sys::EVP_PKEY_CTX_set_rsa_padding(context, sys::RSA_PKCS1_OAEP_PADDING) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_oaep_md(context, table(*hash)) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_mgf1_md(context, table(*mgf1)) == 1
                        && (label.is_empty() || set_label(context, label))
                }
            }
        }
    }
}

/// # Safety
/// The context is live and started for OAEP.
unsafe fn set_label(context: *mut sys::EVP_PKEY_CTX, label: &[u8]) -> bool {
    // SAFETY: the copy is on the library's heap; the context takes it over where the call succeeds.
    unsafe {
        let copy = sys::OPENSSL_memdup(label.as_ptr().cast(), label.len()).cast();
        let taken = sys::EVP_PKEY_CTX_set0_rsa_oaep_label(context, copy, label.len()) == 1;
        if !taken {
            sys::OPENSSL_free(copy.cast());
        }
        taken
    }
}

/// In the library's encoding.
pub(super) fn salt_len(salt: SaltLength) -> c_int {
    match salt {
        SaltLength::Digest => -1,
        SaltLength::Any => -2,
        SaltLength::Bytes(bytes) => c_int::from(bytes),
    }
}
