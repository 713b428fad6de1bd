//! Octets that are read without a copy, and written as one block.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Formatter};

/// Octets that lie in the message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Octets<'a>(pub &'a [u8]);

impl Serialize for Octets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Octets<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Borrowed).map(Octets)
    }
}

struct Borrowed;

impl<'de> Visitor<'de> for Borrowed {
    type Value = &'de [u8];

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("octets")
    }

    fn visit_borrowed_bytes<E: Error>(self, octets: &'de [u8]) -> Result<Self::Value, E> {
        Ok(octets)
    }
}
