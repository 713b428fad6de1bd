//! What OpenSSL calls, and what it is called with: the only place for raw pointers.

pub(crate) mod abi;
mod agree;
mod asym_cipher;
mod context;
mod decoder;
mod generate;
mod import;
mod keymgmt;
mod libcrypto;
mod object;
mod output;
mod params;
mod provider;
mod signature;
mod store;
mod strings;
#[cfg(test)]
mod tests;
mod upcalls;

pub use provider::OSSL_provider_init;

use abi::{Algorithm, operation};
use sidecore_client::face::aside::guard;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

const OURS: &std::ffi::CStr = c"provider=sidecore";
const RSA: &std::ffi::CStr = c"RSA:rsaEncryption:1.2.840.113549.1.1.1";
const EC: &std::ffi::CStr = c"EC:id-ecPublicKey:1.2.840.10045.2.1";
const ED25519: &std::ffi::CStr = c"ED25519:1.3.101.112";
const X25519: &std::ffi::CStr = c"X25519:1.3.101.110";
const ML_KEM_768: &std::ffi::CStr = c"ML-KEM-768:MLKEM768:id-alg-ml-kem-768:2.16.840.1.101.3.4.4.2";
const ML_DSA_65: &std::ffi::CStr = c"ML-DSA-65:MLDSA65:id-ml-dsa-65:2.16.840.1.101.3.4.3.18";
/// Keys of TLS's exchanges are made for one connection each: a program that prefers this provider for its own keys does
/// not mean those. So these match no `provider=sidecore`; stored keys reach them all the same.
const EXCHANGE: &std::ffi::CStr = c"sidecore.exchange=yes";

static KEYMGMT: [Algorithm; 7] = [
    Algorithm::new(RSA, OURS, &keymgmt::rsa::FUNCTIONS, c"RSA keys of sidecore"),
    Algorithm::new(EC, OURS, &keymgmt::ec::FUNCTIONS, c"EC keys of sidecore"),
    Algorithm::new(ED25519, OURS, &keymgmt::ed25519::FUNCTIONS, c"Ed25519 keys of sidecore"),
    Algorithm::new(ML_DSA_65, OURS, &keymgmt::ml_dsa_65::FUNCTIONS, c"ML-DSA-65 keys of sidecore"),
    Algorithm::new(X25519, EXCHANGE, &keymgmt::x25519::FUNCTIONS, c"X25519 keys of sidecore"),
    Algorithm::new(ML_KEM_768, EXCHANGE, &keymgmt::ml_kem_768::FUNCTIONS, c"ML-KEM-768 keys of sidecore"),
    Algorithm::END,
];

static KEYEXCH: [Algorithm; 2] =
    [Algorithm::new(X25519, EXCHANGE, &agree::EXCHANGE, c"X25519 by sidecore"), Algorithm::END];

static KEM: [Algorithm; 2] =
    [Algorithm::new(ML_KEM_768, EXCHANGE, &agree::ENCAPSULATION, c"ML-KEM-768 by sidecore"), Algorithm::END];

static SIGNATURE: [Algorithm; 5] = [
    Algorithm::new(RSA, OURS, &signature::FUNCTIONS, c"RSA signatures by sidecore"),
    Algorithm::new(c"ECDSA", OURS, &signature::FUNCTIONS, c"ECDSA by sidecore"),
    Algorithm::new(ED25519, OURS, &signature::MESSAGE_FUNCTIONS, c"Ed25519 by sidecore"),
    Algorithm::new(ML_DSA_65, OURS, &signature::MESSAGE_FUNCTIONS, c"ML-DSA-65 by sidecore"),
    Algorithm::END,
];

static ASYM_CIPHER: [Algorithm; 2] =
    [Algorithm::new(RSA, OURS, &asym_cipher::FUNCTIONS, c"RSA decryption by sidecore"), Algorithm::END];

static STORE: [Algorithm; 2] =
    [Algorithm::new(c"sidecore", OURS, &store::FUNCTIONS, c"Keys of sidecore"), Algorithm::END];

static DECODER: [Algorithm; 8] = [
    Algorithm::new(c"DER", decoder::FROM_PEM, &decoder::PEM_FUNCTIONS, c"Key files of sidecore"),
    Algorithm::new(RSA, decoder::FROM_DER, &decoder::rsa::FUNCTIONS, c"RSA keys of sidecore"),
    Algorithm::new(EC, decoder::FROM_DER, &decoder::ec::FUNCTIONS, c"EC keys of sidecore"),
    Algorithm::new(ED25519, decoder::FROM_DER, &decoder::ed25519::FUNCTIONS, c"Ed25519 keys of sidecore"),
    Algorithm::new(ML_DSA_65, decoder::FROM_DER, &decoder::ml_dsa_65::FUNCTIONS, c"ML-DSA-65 keys of sidecore"),
    Algorithm::new(X25519, decoder::FROM_DER, &decoder::x25519::FUNCTIONS, c"X25519 keys of sidecore"),
    Algorithm::new(ML_KEM_768, decoder::FROM_DER, &decoder::ml_kem_768::FUNCTIONS, c"ML-KEM-768 keys of sidecore"),
    Algorithm::END,
];

/// What is offered, by operation.
fn algorithms(number: c_int) -> Option<&'static [Algorithm]> {
    match number {
        operation::KEYMGMT => Some(&KEYMGMT),
        operation::KEYEXCH => Some(&KEYEXCH),
        operation::KEM => Some(&KEM),
        operation::SIGNATURE => Some(&SIGNATURE),
        operation::ASYM_CIPHER => Some(&ASYM_CIPHER),
        operation::STORE => Some(&STORE),
        operation::DECODER => Some(&DECODER),
        _ => None,
    }
}

/// One more owner of what OpenSSL keeps for us.
///
/// # Safety
/// `pointer` came from `Arc::into_raw` and still has an owner.
unsafe fn shared<T>(pointer: *const c_void) -> Arc<T> {
    // SAFETY: see above.
    unsafe {
        Arc::increment_strong_count(pointer.cast::<T>());
        Arc::from_raw(pointer.cast::<T>())
    }
}

/// Bytes that OpenSSL hands over.
///
/// # Safety
/// `bytes` is null, or `len` bytes are there for `'a`.
unsafe fn bytes<'a>(bytes: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: see above.
    if bytes.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(bytes, len) } }
}
