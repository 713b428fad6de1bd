//! OpenSSL's libcrypto, loaded at run time, behind types that own their memory.
//!
//! The build needs no header and no import library: the functions of the stable ABI of OpenSSL 3 are looked up by
//! name, once for a process. `SIDECORE_TEST_LIBCRYPTO` names another libcrypto than the system's.
//!
//! Where a function takes properties, an empty text means none.

mod ffi;

pub use ffi::{
    Action, Cipher, Context, Digest, Failure, Half, Job, Key, MAX_DIGEST_BYTES, Mac, Operation, Ready, Step, TAG_BYTES,
};
