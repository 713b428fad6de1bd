//! Messages between a service and a gateway: requests on keys that services on other machines hold.
//!
//! A gateway is a separate process on the service's machine. It connects to the service's socket
//! ([`Gateway::connect`]) and names the remote device that it serves. From then on the connection carries [`Ask`] one
//! way and [`Tell`] the other: one packet each, encoded with `postcard`, at most [`MAX_PACKET`] bytes. Decoding is
//! total: any packet is a message or an error.
//!
//! - The gateway offers and withdraws keys of the other machines, one at a time ([`Tell::Offer`], [`Tell::Withdraw`]).
//!   It starts with none. The service uses a key only if the offer has the public part it knows, and tells the gateway
//!   which that is ([`Ask::Known`]): machines that offer another one must not keep others out.
//! - The service sends requests, each with a ticket that is never reused. The gateway answers each ticket once, in any
//!   order, within [`Welcome::timeout_ms`]. At most [`Welcome::depth`] requests are unanswered at a time.
//! - Each side sends at least one message per [`BEAT`]. A gateway that is silent for [`PEER_TIMEOUT`] has lost its
//!   device: the service closes the connection and gives its requests to other devices. An answer without an open
//!   ticket or a malformed packet ends the connection as well, and the service logs the reason. A gateway that lost its
//!   connection connects again, as a new one.
//! - A signature that does not verify is one machine's fault. The service reports it ([`Ask::Wrong`]) and asks the
//!   gateway again, up to [`TRIES`] times in all. If every answer is wrong, the gateway has lost its device.

mod connection;

pub use connection::{ConnectError, Gateway};
pub use sidecore_ipc::sys::packet::MAX_PACKET;

use crate::keys::MAX_NAME;
use crate::spec::Scheme;
use serde::{Deserialize, Serialize};
use sidecore_core::session::{Op, Refusal};
use sidecore_core::time::Nanos;

/// Version of this protocol.
pub const VERSION: u32 = 4;
/// Longest interval between two messages of a side, ns.
pub const BEAT: Nanos = 20_000_000;
/// A side that is silent for this time counts as dead, ns.
pub const PEER_TIMEOUT: Nanos = 25 * BEAT;
/// Longest input of a request, bytes: digests, ciphertexts, and messages of algorithms that sign them whole.
pub const MAX_INPUT: usize = 8 * 1024;
/// Longest result of a request, bytes.
pub const MAX_RESULT: usize = 8 * 1024;
/// Attempts of a request, counting those with wrong answers.
pub const TRIES: u8 = 3;
/// Most keys that one gateway offers at a time.
pub const MAX_OFFERS: usize = 4096;
/// Longest public part of an offer, bytes.
pub const MAX_PUBLIC: usize = 4 * 1024;

/// The gateway's first message, inside a control message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its version of the protocol: [`VERSION`].
    pub version: u32,
    /// The remote device of the service's configuration that it serves.
    pub device: String,
}

/// The service's answer to [`Hello`], inside a control message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The farm of the device, as the service's configuration names it.
    pub farm: String,
    /// Limit of unanswered requests at a time.
    pub depth: u32,
    /// A gateway that leaves one request unanswered for this time counts as dead, ms.
    pub timeout_ms: u32,
}

/// Messages from service to gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask<'a> {
    /// A request to carry out.
    #[serde(borrow)]
    Request(Request<'a>),
    /// A sign of life.
    Beat,
    /// The answer with this ticket was wrong. The request may follow with another ticket, for another machine.
    Wrong(u64),
    /// The public part of the service's key of this name, which was offered. An earlier one is void.
    #[serde(borrow)]
    Known(Known<'a>),
}

/// A key as the service knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known<'a> {
    /// Its name.
    pub key: &'a str,
    /// Its public part: a `SubjectPublicKeyInfo` in DER, at most [`MAX_PUBLIC`] bytes. `None`: the service has no such
    /// key any more.
    pub public: Option<&'a [u8]>,
}

/// Messages from gateway to service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell<'a> {
    /// The other machines hold this key from now on.
    #[serde(borrow)]
    Offer(Offer<'a>),
    /// The other machines no longer hold the key of this name.
    Withdraw(&'a str),
    /// The answer to a request.
    Answer(Answer<'a>),
    /// A sign of life.
    Beat,
}

/// An operation with a private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request<'a> {
    /// Names the request; never reused on this connection.
    pub ticket: u64,
    /// Name of the key, as offered.
    pub key: &'a str,
    /// What is to be done with the input.
    pub task: Task,
    /// Digest, message, ciphertext or a peer's public key, or what is sealed, at most [`MAX_INPUT`] bytes.
    pub input: &'a [u8],
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// An operation, which everybody on the way can read.
    Open {
        /// Scheme of a session on the key.
        scheme: Scheme,
        /// Operation to carry out.
        operation: Operation,
    },
    /// The input is a [`Relayed`](crate::channel::Relayed) for another service, and the key is the
    /// [`route`](crate::channel::route) to that one. The answer is what that service says.
    Relay,
}

/// The operations that take a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// Signature of a message, for algorithms that take the whole message.
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

    /// The operation of a lane's request. `None`: it needs no private key.
    pub fn of(op: Op) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.op() == op)
    }
}

/// A key that other machines hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer<'a> {
    /// Its name, the same on all machines.
    pub key: &'a str,
    /// Its public part: a `SubjectPublicKeyInfo` in DER.
    pub public: &'a [u8],
}

impl Offer<'_> {
    /// Whether name and public part are within their limits.
    pub fn is_bounded(&self) -> bool {
        self.key.len() <= MAX_NAME && self.public.len() <= MAX_PUBLIC
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer<'a> {
    /// Ticket of the request.
    pub ticket: u64,
    /// Result of the request.
    #[serde(borrow)]
    pub outcome: Outcome<'a>,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome<'a> {
    /// Done: the result, at most [`MAX_RESULT`] bytes.
    Done(&'a [u8]),
    /// The machine that holds the key refuses, for the [`Refusal`] with this number: see [`Outcome::refusal`]. Another
    /// machine would refuse as well.
    Refused(u8),
    /// No machine of this gateway carried it out: none has the key now, or the machines that had the request are lost.
    /// Other devices may do it.
    Elsewhere,
}

impl Outcome<'_> {
    /// A refusal with this reason.
    pub fn refused(reason: Refusal) -> Self {
        Self::Refused(reason as u8)
    }

    /// The reason of a refusal. `None`: it is none, or its number is 0, which no version has. A reason that only later
    /// versions know is [`Refusal::Internal`].
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(KEY_LIMIT_BEFORE) => Some(Refusal::KeyLimit),
            Self::Refused(number @ 1..) => Some(Refusal::from_u8(*number).unwrap_or(Refusal::Internal)),
            Self::Refused(0) | Self::Done(_) | Self::Elsewhere => None,
        }
    }
}

/// Gateways and key servers built before the codes of version 0.1.0 have this number, that of [`Refusal::NoDevice`], for the
/// key's limit. No machine with a key refuses for a missing device. To be removed in 0.2.0.
const KEY_LIMIT_BEFORE: u8 = Refusal::NoDevice as u8;

/// Decodes a service's message. It borrows from the packet, and must fill it.
///
/// # Errors
/// The bytes are no such message, or exceed the limits.
pub fn decode_ask(packet: &[u8]) -> Result<Ask<'_>, postcard::Error> {
    match postcard::take_from_bytes(packet)? {
        (Ask::Request(Request { key, input, .. }), _) if key.len() > MAX_NAME || input.len() > MAX_INPUT => {
            Err(postcard::Error::SerdeDeCustom)
        }
        (Ask::Known(Known { key, public }), _)
            if key.len() > MAX_NAME || public.is_some_and(|public| public.len() > MAX_PUBLIC) =>
        {
            Err(postcard::Error::SerdeDeCustom)
        }
        (ask, []) => Ok(ask),
        _ => Err(postcard::Error::SerdeDeCustom),
    }
}

/// Decodes a gateway's message. It borrows from the packet, and must fill it.
///
/// # Errors
/// The bytes are no such message, or exceed the limits.
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
