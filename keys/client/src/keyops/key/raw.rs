//! Types of keys whose public part is a string of bytes: one row each.

use crate::keys::Kind;
use pkcs8::ObjectIdentifier;
use std::ffi::CStr;

/// A type of key whose public part is a string of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Raw {
    /// Ed25519: a point.
    Ed25519,
    /// X25519: a point.
    X25519,
    /// ML-KEM-768: an encapsulation key.
    MlKem768,
    /// ML-DSA-65.
    MlDsa65,
}

pub(super) struct Facts {
    kind: Kind,
    pub(super) name: &'static CStr,
    pub(super) oid: ObjectIdentifier,
    /// Of the public part, bytes.
    len: usize,
    pub(super) bits: usize,
    pub(super) security_bits: i32,
    pub(super) max_len: usize,
}

const fn row(kind: Kind, name: &'static CStr, oid: &str, lens: (usize, usize), bits: (usize, i32)) -> Facts {
    let ((len, max_len), (bits, security_bits)) = (lens, bits);
    Facts { kind, name, oid: ObjectIdentifier::new_unwrap(oid), len, bits, security_bits, max_len }
}

/// In the order of the enum. Pairs: lengths of the public part and of the longest result, bytes; bits of the size and
/// of the strength.
const FACTS: [Facts; 4] = [
    row(Kind::Ed25519, c"ED25519", "1.3.101.112", (32, 64), (256, 128)),
    row(Kind::X25519, c"X25519", "1.3.101.110", (32, 32), (253, 128)),
    row(Kind::MlKem768, c"ML-KEM-768", "2.16.840.1.101.3.4.4.2", (1184, 1088), (768, 192)),
    row(Kind::MlDsa65, c"ML-DSA-65", "2.16.840.1.101.3.4.3.18", (1952, 3309), (15_616, 192)),
];

impl Raw {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Ed25519, Self::X25519, Self::MlKem768, Self::MlDsa65];

    pub(super) fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }

    /// The service's kind of such keys.
    pub fn kind(self) -> Kind {
        self.facts().kind
    }

    /// Length of the public part, bytes.
    pub fn size(self) -> usize {
        self.facts().len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_order() {
        for raw in Raw::ALL {
            assert_eq!(format!("{raw:?}"), format!("{:?}", raw.kind()));
        }
    }
}
