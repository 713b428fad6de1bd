//! Channels: a service without a key (near) has requests done by the service that has it (far), through processes that
//! learn how long messages are and when they pass, and nothing else.
//!
//! Near and far know each other's address, the X25519 key of transfers, from their configurations. What lies between
//! them, a gateway, a broker and a key server, may read, change, repeat, mix and drop every message. From it follow the
//! rules here:
//!
//! - **Set-up.** Near sends a fresh public key, sealed by HPKE in mode Auth: only far reads it, and far knows that near
//!   wrote it. Far answers with the channel's number, sealed to that fresh key: near knows that far answered to this
//!   very message, and nobody can open either message once the fresh key is forgotten. Both messages go into the keys of
//!   the channel, so that a set-up that was changed on its way ends in keys that fit nothing.
//! - **Requests.** Each is sealed by AES-256-GCM with a number of its own. Far takes each number once
//!   ([`ReplayWindow`](sidecore_core::policy::replay::ReplayWindow)), so a repeated request is not done again, and an answer
//!   opens only for the request with its number.
//! - **Openings.** Far's dispatch, shares, limits and counters are for sessions on lanes. So that they hold for requests of
//!   others, the key server opens a session for each key and operation with bytes that near sealed: the opening. It names
//!   the key, its public part, the scheme and the operation. A request is bound to its opening, and does nothing on a
//!   session of another one.
//!
//! A set-up that comes again, late or after a later one is refused, since near's set-ups have growing times. Where far has
//! forgotten a channel, the key server says so without proof: near then sets one up again, which is all that a lie costs.
//!
//! Mode Auth has key-compromise impersonation: whoever has far's private key can pose to far as any near service.

mod cipher;
mod far;
mod near;
#[cfg(test)]
mod tests;

pub(crate) use cipher::OVERHEAD;
pub(crate) use far::{Asked, Grant, Limited, Serving};
pub use far::{ServeError, Served};
pub(crate) use near::{FarAnswer, Near, Proposal};

use crate::ffi::hpke::KEY_LEN;
use serde::{Deserialize, Serialize};
use sidecore_client::gateway::Operation;
use sidecore_client::keys::transfer::Address;
use sidecore_client::spec::Scheme;

/// Begins each message that is not on a session.
const LINE: &[u8] = b"sidecore channel v1\n";

/// Messages of near that the far service itself reads.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    SetUp { to: Address, from: Address, encapsulated: [u8; KEY_LEN], sealed: Vec<u8> },
    Question { channel: u64, number: u64, sealed: Vec<u8> },
}

/// Sealed in [`Message::SetUp`].
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    /// Names this set-up in its answer.
    set_up: u64,
    /// Near's clock, ms since 1970. Later set-ups have later times.
    sent_ms: u64,
    /// The fresh key to which far seals its answer.
    answer_to: [u8; KEY_LEN],
}

/// Far's answer to a set-up.
#[derive(Debug, Serialize, Deserialize)]
struct Accepted {
    encapsulated: [u8; KEY_LEN],
    sealed: Vec<u8>,
}

/// Sealed in [`Accepted`].
#[derive(Debug, Serialize, Deserialize)]
struct Acceptance {
    set_up: u64,
    channel: u64,
}

/// Names a key, and what is to be done with it: opens a session.
#[derive(Debug, Serialize, Deserialize)]
struct Opening {
    channel: u64,
    number: u64,
    sealed: Vec<u8>,
}

/// Sealed in [`Opening`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Purpose {
    key: String,
    /// SHA-256 of its `SubjectPublicKeyInfo`: a key that was replaced is another one.
    public: [u8; 32],
    scheme: Scheme,
    operation: Operation,
}

/// Sealed in a request on a session.
#[derive(Debug, Serialize, Deserialize)]
struct Work<'a> {
    /// The user at near who asks, as near says: for far's log.
    user: u32,
    #[serde(borrow)]
    input: &'a [u8],
}

/// Sealed in the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Verdict<'a> {
    #[serde(borrow)]
    Done(&'a [u8]),
    /// The number of a [`Refusal`](sidecore_core::session::Refusal).
    Refused(u8),
}

/// Sealed in a question: keys after this name.
#[derive(Debug, Serialize, Deserialize)]
struct Question<'a> {
    after: &'a str,
}

/// Sealed in the answer to a question: names and public parts, in the order of names.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) keys: Vec<(String, Vec<u8>)>,
    /// More keys follow after the last of these.
    pub(crate) more: bool,
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Serialising to memory does not fail: lengths of all parts are known.
    postcard::to_extend(message, LINE.to_vec()).unwrap_or_default()
}

fn decode<'a, M: Deserialize<'a>>(bytes: &'a [u8]) -> Option<M> {
    match postcard::take_from_bytes(bytes.strip_prefix(LINE)?) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}
