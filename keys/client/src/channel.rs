//! Messages of one service to another, as far as the processes between them read them.
//!
//! A service without a key (near) has requests done by one that has it (far). A gateway, a broker and a key server carry
//! the messages between the two, and are trusted with nothing: everything but a few numbers is sealed from service to
//! service. The key server is the last of them. It gives a [`Relayed::Control`] to its service as
//! [`Request::Serve`](crate::control::Request::Serve), and a [`Relayed::Operation`] as a request on a session of
//! [`KeyMaterial::Served`](crate::spec::KeyMaterial::Served), and sends back what it gets.

use crate::gateway::Operation;
use crate::keys::transfer::Address;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Longest sealed answer of an operation, bytes.
pub const MAX_ANSWER: usize = 4 * 1024;

/// The name under which a key server offers its service, in the place of a key's. The offer's public part is the address
/// itself.
pub fn route(address: &Address) -> String {
    address.0[..16].iter().fold(String::from("service-"), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// A message of a near service to a far one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relayed<'a> {
    /// A set-up, or a question about keys.
    Control(&'a [u8]),
    /// A request.
    Operation {
        /// Opens a session at the far service. The same bytes stand for the same session, as long as their channel.
        opening: &'a [u8],
        /// The operation of that session.
        operation: Operation,
        /// The sealed request.
        sealed: &'a [u8],
    },
}

impl<'a> Relayed<'a> {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        // Serialising to memory does not fail: lengths of all parts are known.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// `None`: the bytes are no such message, or more follows.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((message, [])) => Some(message),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_way_and_nothing_else_is_one() {
        for message in [
            Relayed::Control(&[7; 300]),
            Relayed::Operation { opening: &[1; 90], operation: Operation::SignDigest, sealed: &[2; 140] },
        ] {
            let bytes = message.encode();
            assert_eq!(Relayed::decode(&bytes), Some(message));
            assert!((0..bytes.len()).all(|cut| Relayed::decode(&bytes[..cut]).is_none()));
            assert_eq!(Relayed::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }
}
