//! A PKCS#11 module whose private keys stay in the sidecore service.
//!
//! Programs load the library and ask for its table of functions. Only `ffi` touches their memory; the rest is safe code.
//!
//! |Module|For|
//! |---|---|
//! |`ffi`|all raw pointers: tables of functions, buffers, templates, parameters; one file for each group of functions|
//! |`life`|initialised or not, by process; `config`, its settings; `rv`, its return values; `log`, the reasons of failures|
//! |`sessions`|the table of sessions; `session`, one of them|
//! |`objects`|keys and certificates: a snapshot of the service's, `own` ones of this program, attributes, search|
//! |`mechanism`|operations and their parameters; `sign`, `cipher`, `generate` carry them out; `store` changes the service's keys|
//! |`template`|attributes that a program asks for: applied, or refused by `rules`|
//! |`ecdsa`, `certificate`|DER of signatures; fields of certificates|
//! |`sys`|a lock with a known process, a value read without a lock|
//!
//! Left out: derivation (`ECDH1_DERIVE`), raw RSA, secret keys, ML-KEM, and the tables of PKCS#11 3.2.

mod certificate;
mod cipher;
mod config;
mod ecdsa;
pub mod ffi;
mod generate;
mod life;
mod log;
mod mechanism;
mod objects;
mod rules;
mod rv;
mod session;
mod sessions;
mod sign;
mod store;
mod sys;
mod template;
