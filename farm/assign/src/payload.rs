//! The octets of an event or of a result.

use bytes::Bytes;
use std::ops::Deref;

/// What a message has of an event or of a result: its octets, or the reference to an object of the servers that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Octets, or a reference.
    pub carried: Bytes,
    /// Which of the two.
    pub is_reference: bool,
}

impl Payload {
    /// Most octets of a reference. What is larger is none, whoever says so: a letter with it would not fit into a message.
    pub const MAX_REFERENCE: usize = 1024;

    /// What a message carries. `marked`: its sender says that it is a reference.
    #[must_use]
    pub fn new(carried: Bytes, marked: bool) -> Self {
        let is_reference = marked && carried.len() <= Self::MAX_REFERENCE;
        Self { carried, is_reference }
    }

    /// A reference, in the form that nodes and takers understand.
    #[must_use]
    pub fn reference(carried: Bytes) -> Self {
        Self { carried, is_reference: true }
    }
}

impl<B: Into<Bytes>> From<B> for Payload {
    fn from(carried: B) -> Self {
        Self { carried: carried.into(), is_reference: false }
    }
}

impl Deref for Payload {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.carried
    }
}
