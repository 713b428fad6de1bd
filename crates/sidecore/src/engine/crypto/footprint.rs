//! What a session takes of the heap: what its client is charged.

use crate::spec::{DecryptionPadding, Scheme};
use sidecore_core::session::Algorithm;

/// An entry in two tables, and the time it takes to close it with many others at once.
pub(super) const ENTRIES: u64 = 256;
/// The session itself with its entries.
const SESSION: u64 = 512;

/// An estimate from above, bytes, measured with glibc's allocator after the session was used once (some keys compute
/// more at their first use).
pub(super) fn heap_bytes(algorithm: Algorithm, scheme: &Scheme) -> u64 {
    let key = match algorithm {
        Algorithm::Noop | Algorithm::Sha256 | Algorithm::Sha384 | Algorithm::Sha512 => 0,
        Algorithm::Rsa1024 | Algorithm::MlKem768 => 6 << 10,
        Algorithm::Rsa2048 | Algorithm::Aes128Xts | Algorithm::Aes256Xts => 8 << 10,
        Algorithm::Rsa3072 => 10 << 10,
        Algorithm::Rsa4096 => 12 << 10,
        Algorithm::MlDsa65 => 14 << 10,
        _ => 2 << 10,
    };
    let label = match scheme {
        Scheme::RsaDecryption { padding: DecryptionPadding::Oaep { label, .. } } => label.len() as u64,
        _ => 0,
    };
    SESSION + key + label
}
