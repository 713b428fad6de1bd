//! What a service and a gateway say to each other: requests on keys that services on other machines hold.
//!
//! A gateway is a process beside a service. It connects to the service's socket ([`Gateway::connect`]), names the remote
//! device that it serves, and from then on the connection carries [`Ask`] one way and [`Tell`] the other: one packet each,
//! `postcard` inside, at most [`MAX_PACKET`] bytes. Decoding is total: any packet is a message or an error.
//!
//! - The gateway tells which keys the other machines hold now, one at a time ([`Tell::Offer`], [`Tell::Withdraw`]). At first
//!   there are none. Only a key with the public part that the service knows is used.
//! - The service asks for operations, each under a ticket that it gives out once. The gateway answers each ticket once,
//!   in any order, and soon enough: [`Welcome::timeout_ms`]. There are never more than [`Welcome::depth`] without an answer.
//! - Each side says something every [`BEAT`] at least. A gateway that is silent for [`SILENCE`] has lost its device: the
//!   service closes the connection and gives its requests to other devices. An answer without an open ticket or a
//!   malformed packet ends the connection as well, and the service logs the reason. A gateway that lost its connection
//!   connects again, as a new one.
//! - A signature that does not verify is one machine's fault. The service reports it ([`Ask::Wrong`]) and asks the
//!   gateway again, [`TRIES`] times in all. A gateway that answers only wrongly has lost its device.

mod connection;

pub use crate::sys::packet::MAX_PACKET;
pub use connection::{ConnectError, Gateway};

use crate::keys::MAX_NAME;
use crate::spec::Scheme;
use serde::{Deserialize, Serialize};
use sidecore_core::session::{Op, Refusal};
use sidecore_core::time::Nanos;

/// Number of this protocol.
pub const VERSION: u32 = 2;
/// Each side says something at least so often, ns.
pub const BEAT: Nanos = 20_000_000;
/// A side that says nothing for so long is taken for dead, ns.
pub const SILENCE: Nanos = 25 * BEAT;
/// Longest input of a request, bytes: digests, ciphertexts, and messages of algorithms that sign them whole.
pub const MAX_INPUT: usize = 8 * 1024;
/// Longest result of a request, bytes.
pub const MAX_RESULT: usize = 8 * 1024;
/// Most attempts of a request with wrong answers.
pub const TRIES: u8 = 3;
/// Most keys that one gateway offers at a time.
pub const MAX_OFFERS: usize = 4096;
/// Longest public part of an offer, bytes.
pub const MAX_PUBLIC: usize = 4 * 1024;

/// What a gateway says first, in a control message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its protocol: [`VERSION`].
    pub version: u32,
    /// The remote device of the service's configuration that it serves.
    pub device: String,
}

/// What it is answered, in a control message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The farm of the device, as the service's configuration names it.
    pub farm: String,
    /// Most requests without an answer at a time.
    pub depth: u32,
    /// A gateway that leaves one request without an answer for so long is taken for dead, ms.
    pub timeout_ms: u32,
}

/// What the service says to a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask<'a> {
    /// Do this.
    #[serde(borrow)]
    Request(Request<'a>),
    /// The service is there.
    Beat,
    /// The answer to this ticket was wrong. The request may follow under another ticket, for another machine.
    Wrong(u64),
}

/// What a gateway says to the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell<'a> {
    /// The other machines hold this key from now on.
    #[serde(borrow)]
    Offer(Offer<'a>),
    /// They hold the key of this name no more.
    Withdraw(&'a str),
    /// What became of a request.
    Answer(Answer<'a>),
    /// The gateway is there.
    Beat,
}

/// An operation with a private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request<'a> {
    /// Names the request; not given out again on this connection.
    pub ticket: u64,
    /// The key, by the name that was offered.
    pub key: &'a str,
    /// What a session on the key does.
    pub scheme: Scheme,
    /// What is asked of it.
    pub operation: Operation,
    /// Digest, message, ciphertext or a peer's public key, at most [`MAX_INPUT`] bytes.
    pub input: &'a [u8],
}

/// The operations that take a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// Signature of a message: of algorithms that take it whole.
    Sign,
    /// Signature of a digest.
    SignDigest,
    /// RSA decryption.
    Decrypt,
    /// Shared secret from the peer's public key.
    Derive,
    /// Shared secret from an encapsulation.
    Decapsulate,
}

impl Operation {
    const ALL: [Self; 5] = [Self::Sign, Self::SignDigest, Self::Decrypt, Self::Derive, Self::Decapsulate];

    /// The operation as requests on a lane name it.
    pub fn op(self) -> Op {
        match self {
            Self::Sign => Op::Sign,
            Self::SignDigest => Op::SignDigest,
            Self::Decrypt => Op::Decrypt,
            Self::Derive => Op::Derive,
            Self::Decapsulate => Op::Decapsulate,
        }
    }

    /// The operation of a lane's request. `None`: it takes no private key.
    pub fn of(op: Op) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.op() == op)
    }
}

/// A key that other machines hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer<'a> {
    /// Its name, there and here.
    pub key: &'a str,
    /// Its public part: a `SubjectPublicKeyInfo` in DER.
    pub public: &'a [u8],
}

impl Offer<'_> {
    /// Whether name and public part have lengths that are allowed.
    pub fn is_bounded(&self) -> bool {
        self.key.len() <= MAX_NAME && self.public.len() <= MAX_PUBLIC
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer<'a> {
    /// Which one.
    pub ticket: u64,
    /// What became of it.
    #[serde(borrow)]
    pub outcome: Outcome<'a>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome<'a> {
    /// Done: the result, at most [`MAX_RESULT`] bytes.
    Done(&'a [u8]),
    /// Whoever holds the key refuses it, for the reason of this number: see [`Outcome::refused`]. Another would refuse it as
    /// well.
    Refused(u8),
    /// Nobody does it: no machine has the key now, or the ones that had the request are lost. Others may do it.
    Elsewhere,
}

impl Outcome<'_> {
    /// Refused for this reason.
    pub fn refused(reason: Refusal) -> Self {
        Self::Refused(reason as u8)
    }

    /// Why it was refused, if it was for a known reason.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(reason) => Refusal::from_u8(*reason),
            _ => None,
        }
    }
}

/// Encodes a message into `buffer`. Returns the part that was used.
///
/// # Errors
/// The buffer is too small: see [`MAX_PACKET`].
pub fn encode<'b>(message: &impl Serialize, buffer: &'b mut [u8]) -> Result<&'b [u8], postcard::Error> {
    crate::control::encode(message, buffer)
}

/// Decodes what the service says: borrowed from the packet, which it must fill.
///
/// # Errors
/// The bytes are no such message, or beyond the limits.
pub fn decode_ask(packet: &[u8]) -> Result<Ask<'_>, postcard::Error> {
    match postcard::take_from_bytes(packet)? {
        (Ask::Request(Request { key, input, .. }), _) if key.len() > MAX_NAME || input.len() > MAX_INPUT => {
            Err(postcard::Error::SerdeDeCustom)
        }
        (ask, []) => Ok(ask),
        _ => Err(postcard::Error::SerdeDeCustom),
    }
}

/// Decodes what a gateway says: borrowed from the packet, which it must fill.
///
/// # Errors
/// The bytes are no such message, or beyond the limits.
pub fn decode_tell(packet: &[u8]) -> Result<Tell<'_>, postcard::Error> {
    let (tell, rest) = postcard::take_from_bytes(packet)?;
    let bounded = match &tell {
        Tell::Offer(offer) => offer.is_bounded(),
        Tell::Withdraw(key) => key.len() <= MAX_NAME,
        Tell::Answer(Answer { outcome: Outcome::Done(result), .. }) => result.len() <= MAX_RESULT,
        Tell::Answer(_) | Tell::Beat => true,
    };
    if bounded && rest.is_empty() { Ok(tell) } else { Err(postcard::Error::SerdeDeCustom) }
}

#[cfg(test)]
mod tests;
