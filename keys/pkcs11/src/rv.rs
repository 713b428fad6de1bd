//! Errors as PKCS#11 reports them: a program sees a number only.

use cryptoki_sys::CK_RV;

/// A return value other than `CKR_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("PKCS#11 return value {0:#x}")]
pub(crate) struct Rv(pub(crate) CK_RV);
