//! An OpenSSL 3 provider whose private keys stay in the sidecore service.
//!
//! OpenSSL loads the library and calls `OSSL_provider_init`. What touches OpenSSL's memory is under `ffi`; the rest
//! is safe code. It does not link libcrypto: numbers of functions and names of parameters are OpenSSL's stable interface.

mod algorithm_id;
pub mod ffi;
mod generate;
mod hasher;
mod jobs;
mod kdf;
mod text;
