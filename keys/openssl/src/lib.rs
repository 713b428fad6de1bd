//! An OpenSSL 3 provider whose private keys stay in the sidecore service.
//!
//! OpenSSL loads the library and calls `OSSL_provider_init`. Only `ffi` touches OpenSSL's memory; the rest
//! is safe code. It does not link libcrypto: numbers of functions and names of parameters are OpenSSL's stable interface.
//!
//! |Module|For|
//! |---|---|
//! |`ffi`|all raw pointers: types, parameters, key objects; then one file for each operation of OpenSSL|
//! |`jobs`|waiting in OpenSSL's asynchronous jobs: `waiting`, a paused job's descriptors; `ffi`, OpenSSL's functions|
//! |`generate`|keys that OpenSSL requests and the service creates|
//! |`algorithm_id`, `kdf`|identifiers of signatures; derivation by X9.63 from agreed secrets|
//! |`text`|keys as `openssl pkey -text` shows them|

mod algorithm_id;
pub mod ffi;
mod generate;
mod jobs;
mod kdf;
mod text;
