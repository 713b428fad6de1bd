//! The interface to OpenSSL: functions that it calls, and those it provides. Raw pointers appear only here.

pub(crate) mod abi;
mod agree;
mod asym_cipher;
mod context;
mod decoder;
mod encoder;
mod fips;
mod generate;
mod init;
mod key_data;
mod key_settings;
mod keymgmt;
mod legacy;
mod legacy_builder;
mod libcrypto;
mod memory;
mod object;
mod params;
mod provider;
mod signature;
mod store;
mod strings;
#[cfg(test)]
mod tests;
mod upcalls;

pub use init::OSSL_provider_init;

use abi::{Algorithm, operation};
use decoder::FromDer;
use keymgmt::Keys;
use sidecore_client::keyops::key::{Family, Raw};
use sidecore_client::keyops::large_stack::guard;
use signature::{EcdsaSha256, EcdsaSha384, EcdsaSha512, RsaSha256, RsaSha384, RsaSha512, Signatures};
use std::ffi::{CStr, c_int};

/// A family of keys as a type, so that each has functions of its own.
trait OfFamily {
    const FAMILY: Family;
}

macro_rules! families {
    ($($name:ident = $family:expr;)*) => {
        $(
            enum $name {}

            impl OfFamily for $name {
                const FAMILY: Family = $family;
            }
        )*
    };
}

families! {
    Rsa = Family::Rsa;
    Ec = Family::Ec;
    Ed25519 = Family::Raw(Raw::Ed25519);
    X25519 = Family::Raw(Raw::X25519);
    MlKem768 = Family::Raw(Raw::MlKem768);
    MlDsa65 = Family::Raw(Raw::MlDsa65);
}

const OURS: &CStr = c"provider=sidecore";
const RSA: &CStr = c"RSA:rsaEncryption:1.2.840.113549.1.1.1";
const EC: &CStr = c"EC:id-ecPublicKey:1.2.840.10045.2.1";
const ED25519: &CStr = c"ED25519:1.3.101.112";
const X25519: &CStr = c"X25519:1.3.101.110";
const ML_KEM_768: &CStr = c"ML-KEM-768:MLKEM768:id-alg-ml-kem-768:2.16.840.1.101.3.4.4.2";
const ML_DSA_65: &CStr = c"ML-DSA-65:MLDSA65:id-ml-dsa-65:2.16.840.1.101.3.4.3.18";
const RSA_SHA256: &CStr = c"RSA-SHA2-256:RSA-SHA256:sha256WithRSAEncryption:1.2.840.113549.1.1.11";
const RSA_SHA384: &CStr = c"RSA-SHA2-384:RSA-SHA384:sha384WithRSAEncryption:1.2.840.113549.1.1.12";
const RSA_SHA512: &CStr = c"RSA-SHA2-512:RSA-SHA512:sha512WithRSAEncryption:1.2.840.113549.1.1.13";
const ECDSA_SHA256: &CStr = c"ECDSA-SHA2-256:ECDSA-SHA256:ecdsa-with-SHA256:1.2.840.10045.4.3.2";
const ECDSA_SHA384: &CStr = c"ECDSA-SHA2-384:ECDSA-SHA384:ecdsa-with-SHA384:1.2.840.10045.4.3.3";
const ECDSA_SHA512: &CStr = c"ECDSA-SHA2-512:ECDSA-SHA512:ecdsa-with-SHA512:1.2.840.10045.4.3.4";
/// Algorithms for TLS key exchange. Their keys are made for one connection each, and a program that prefers this
/// provider for its own keys should not get them from here. So they do not match `provider=sidecore`; stored keys
/// reach them nevertheless.
const EXCHANGE: &CStr = c"sidecore.exchange=yes";

static KEYMGMT: [Algorithm; 7] = [
    Algorithm::new(RSA, OURS, Keys::<Rsa>::FUNCTIONS, c"RSA keys of sidecore"),
    Algorithm::new(EC, OURS, Keys::<Ec>::FUNCTIONS, c"EC keys of sidecore"),
    Algorithm::new(ED25519, OURS, Keys::<Ed25519>::FUNCTIONS, c"Ed25519 keys of sidecore"),
    Algorithm::new(ML_DSA_65, OURS, Keys::<MlDsa65>::FUNCTIONS, c"ML-DSA-65 keys of sidecore"),
    Algorithm::new(X25519, EXCHANGE, Keys::<X25519>::FUNCTIONS, c"X25519 keys of sidecore"),
    Algorithm::new(ML_KEM_768, EXCHANGE, Keys::<MlKem768>::FUNCTIONS, c"ML-KEM-768 keys of sidecore"),
    Algorithm::END,
];

static KEYEXCH: [Algorithm; 3] = [
    Algorithm::new(X25519, EXCHANGE, &agree::EXCHANGE, c"X25519 by sidecore"),
    Algorithm::new(c"ECDH", EXCHANGE, &agree::ON_CURVES, c"ECDH by sidecore"),
    Algorithm::END,
];

static KEM: [Algorithm; 2] =
    [Algorithm::new(ML_KEM_768, EXCHANGE, &agree::ENCAPSULATION, c"ML-KEM-768 by sidecore"), Algorithm::END];

static SIGNATURE: [Algorithm; 11] = [
    Algorithm::new(RSA, OURS, Signatures::<signature::Rsa>::OVER_DIGESTS, c"RSA signatures by sidecore"),
    Algorithm::new(c"ECDSA", OURS, Signatures::<signature::Ecdsa>::OVER_DIGESTS, c"ECDSA by sidecore"),
    Algorithm::new(ED25519, OURS, Signatures::<signature::Ed25519>::WITHOUT_DIGEST, c"Ed25519 by sidecore"),
    Algorithm::new(ML_DSA_65, OURS, Signatures::<signature::MlDsa65>::WITHOUT_DIGEST, c"ML-DSA-65 by sidecore"),
    Algorithm::new(RSA_SHA256, OURS, Signatures::<RsaSha256>::OVER_MESSAGES, c"RSA with SHA-256 by sidecore"),
    Algorithm::new(RSA_SHA384, OURS, Signatures::<RsaSha384>::OVER_MESSAGES, c"RSA with SHA-384 by sidecore"),
    Algorithm::new(RSA_SHA512, OURS, Signatures::<RsaSha512>::OVER_MESSAGES, c"RSA with SHA-512 by sidecore"),
    Algorithm::new(ECDSA_SHA256, OURS, Signatures::<EcdsaSha256>::OVER_MESSAGES, c"ECDSA with SHA-256 by sidecore"),
    Algorithm::new(ECDSA_SHA384, OURS, Signatures::<EcdsaSha384>::OVER_MESSAGES, c"ECDSA with SHA-384 by sidecore"),
    Algorithm::new(ECDSA_SHA512, OURS, Signatures::<EcdsaSha512>::OVER_MESSAGES, c"ECDSA with SHA-512 by sidecore"),
    Algorithm::END,
];

static ASYM_CIPHER: [Algorithm; 2] =
    [Algorithm::new(RSA, OURS, &asym_cipher::FUNCTIONS, c"RSA encryption by sidecore"), Algorithm::END];

static STORE: [Algorithm; 2] =
    [Algorithm::new(c"sidecore", store::PROPERTIES, &store::FUNCTIONS, c"Keys of sidecore"), Algorithm::END];

static DECODER: [Algorithm; 14] = [
    Algorithm::new(c"DER", decoder::FROM_PEM, &decoder::PEM_FUNCTIONS, c"Key files of sidecore"),
    Algorithm::new(RSA, decoder::FROM_DER, FromDer::<Rsa>::FUNCTIONS, c"RSA keys of sidecore"),
    Algorithm::new(EC, decoder::FROM_DER, FromDer::<Ec>::FUNCTIONS, c"EC keys of sidecore"),
    Algorithm::new(ED25519, decoder::FROM_DER, FromDer::<Ed25519>::FUNCTIONS, c"Ed25519 keys of sidecore"),
    Algorithm::new(ML_DSA_65, decoder::FROM_DER, FromDer::<MlDsa65>::FUNCTIONS, c"ML-DSA-65 keys of sidecore"),
    Algorithm::new(X25519, decoder::FROM_DER, FromDer::<X25519>::FUNCTIONS, c"X25519 keys of sidecore"),
    Algorithm::new(ML_KEM_768, decoder::FROM_DER, FromDer::<MlKem768>::FUNCTIONS, c"ML-KEM-768 keys of sidecore"),
    Algorithm::new(RSA, decoder::FROM_PKCS8, FromDer::<Rsa>::IN_PKCS8, c"RSA keys of sidecore"),
    Algorithm::new(EC, decoder::FROM_PKCS8, FromDer::<Ec>::IN_PKCS8, c"EC keys of sidecore"),
    Algorithm::new(ED25519, decoder::FROM_PKCS8, FromDer::<Ed25519>::IN_PKCS8, c"Ed25519 keys of sidecore"),
    Algorithm::new(ML_DSA_65, decoder::FROM_PKCS8, FromDer::<MlDsa65>::IN_PKCS8, c"ML-DSA-65 keys of sidecore"),
    Algorithm::new(X25519, decoder::FROM_PKCS8, FromDer::<X25519>::IN_PKCS8, c"X25519 keys of sidecore"),
    Algorithm::new(ML_KEM_768, decoder::FROM_PKCS8, FromDer::<MlKem768>::IN_PKCS8, c"ML-KEM-768 keys of sidecore"),
    Algorithm::END,
];

static ENCODER: [Algorithm; 13] = [
    Algorithm::new(RSA, encoder::TO_TEXT, &encoder::TEXT_FUNCTIONS, c"RSA keys of sidecore"),
    Algorithm::new(EC, encoder::TO_TEXT, &encoder::TEXT_FUNCTIONS, c"EC keys of sidecore"),
    Algorithm::new(ED25519, encoder::TO_TEXT, &encoder::TEXT_FUNCTIONS, c"Ed25519 keys of sidecore"),
    Algorithm::new(ML_DSA_65, encoder::TO_TEXT, &encoder::TEXT_FUNCTIONS, c"ML-DSA-65 keys of sidecore"),
    Algorithm::new(X25519, encoder::TO_TEXT, &encoder::TEXT_FUNCTIONS, c"X25519 keys of sidecore"),
    Algorithm::new(ML_KEM_768, encoder::TO_TEXT, &encoder::TEXT_FUNCTIONS, c"ML-KEM-768 keys of sidecore"),
    Algorithm::new(RSA, encoder::TO_PEM, &encoder::PEM_FUNCTIONS, c"RSA keys of sidecore"),
    Algorithm::new(EC, encoder::TO_PEM, &encoder::PEM_FUNCTIONS, c"EC keys of sidecore"),
    Algorithm::new(ED25519, encoder::TO_PEM, &encoder::PEM_FUNCTIONS, c"Ed25519 keys of sidecore"),
    Algorithm::new(ML_DSA_65, encoder::TO_PEM, &encoder::PEM_FUNCTIONS, c"ML-DSA-65 keys of sidecore"),
    Algorithm::new(X25519, encoder::TO_PEM, &encoder::PEM_FUNCTIONS, c"X25519 keys of sidecore"),
    Algorithm::new(ML_KEM_768, encoder::TO_PEM, &encoder::PEM_FUNCTIONS, c"ML-KEM-768 keys of sidecore"),
    Algorithm::END,
];

fn algorithms(number: c_int) -> Option<&'static [Algorithm]> {
    match number {
        operation::KEYMGMT => Some(&KEYMGMT),
        operation::KEYEXCH => Some(&KEYEXCH),
        operation::KEM => Some(&KEM),
        operation::SIGNATURE => Some(&SIGNATURE),
        operation::ASYM_CIPHER => Some(&ASYM_CIPHER),
        operation::STORE => Some(&STORE),
        operation::ENCODER => Some(&ENCODER),
        operation::DECODER => Some(&DECODER),
        _ => None,
    }
}

extern "C" fn free<T>(owned: Option<Box<T>>) {
    guard((), || drop(owned));
}

/// A slice from OpenSSL's pointer and length.
///
/// # Safety
/// `bytes` is null, or points to `len` bytes that are valid for `'a`.
unsafe fn bytes<'a>(bytes: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: not null where a slice is made, so valid for `len` bytes; OpenSSL's lengths are those of objects.
    if bytes.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(bytes, len) } }
}
