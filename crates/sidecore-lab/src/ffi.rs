//! Calls into C libraries: the only `unsafe` code of this crate, each library behind safe types.

pub(crate) mod openssl;
pub(crate) mod pkcs11;
