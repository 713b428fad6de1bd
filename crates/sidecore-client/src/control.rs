//! What client and service say over the socket, outside the hot path: one packet each, `postcard` inside.
//!
//! Decoding is total: any packet is a message or an error. Key bytes in a packet's buffer are wiped after use.

use crate::gateway::{Hello, Welcome};
use crate::keys::{KeyCommand, KeyEntry, KeyInfo, Kind};
use crate::spec::{KeyToken, Secret, SessionSpec};
use crate::sys::packet::{self, MAX_PACKET};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zeroize::Zeroizing;

/// Proof that a process inherited a lane's client by `fork`: lets the child take over the sessions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token(pub [u8; 16]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The lane that a client wants.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Attach {
    /// Layout number of the client, see [`sidecore_core::layout::ABI`].
    pub abi: u32,
    /// Slots of each ring.
    pub slots: u32,
    /// Bytes of arena.
    pub arena_bytes: u32,
    /// Name for people, e.g. of the program; cut at 31 bytes.
    pub name: String,
    /// Take over the sessions of the lane with this token.
    pub adopt: Option<Token>,
    /// The service may end the lane while it is idle, where another process of the same user needs one.
    pub reclaimable: bool,
}

/// What a client asks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// A lane, please. The connection gives up administration with it.
    Attach(Attach),
    /// A session with this key.
    OpenSession(SessionSpec),
    /// The session is not needed any more.
    CloseSession {
        /// Its handle.
        handle: u32,
    },
    /// Change the running service, all of it or nothing: `key=value` each. Only for the service's own user and root, and not on a
    /// lane's connection.
    Set(Vec<String>),
    /// What is in force of what a configuration sets.
    Settings,
    /// What is known of a stored key.
    KeyInfo {
        /// Its name.
        name: String,
    },
    /// Change or list the stored keys. Only for the service's own user and root, and not on a lane's connection.
    Keys(KeyCommand),
    /// A new key for this program, which lives as long as the connection. Not on one that has a lane or a key.
    MakeKey(Kind),
    /// The public part of a private key that is raw: Ed25519, X25519, ML-DSA-65.
    PublicPart {
        /// What the key is.
        kind: Kind,
        /// The private part.
        raw: Secret,
    },
    /// Serve a remote device: from its answer on the connection speaks [`crate::gateway`]. Only for root, the service's own
    /// user and the one that the device's configuration names.
    Gateway(Hello),
}

/// Of what kind a refusal is, as far as programs tell their users apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ground {
    /// Another one than those below: its text says it.
    Other,
    /// There is no key of this name.
    NoKey,
    /// The user may not use the key.
    NotAllowed,
    /// A limit of the service is reached.
    Limit,
}

/// Why the service did not do something. A text becomes one on [other](Ground::Other) grounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its kind.
    pub ground: Ground,
    /// What is wrong and what to do.
    pub text: String,
}

impl Refused {
    /// A refusal of this kind.
    pub fn new(ground: Ground, text: impl Into<String>) -> Self {
        Self { ground, text: text.into() }
    }

    /// A limit is reached, which the text names.
    pub fn limit(text: impl Into<String>) -> Self {
        Self::new(Ground::Limit, text)
    }
}

impl<T: Into<String>> From<T> for Refused {
    fn from(text: T) -> Self {
        Self::new(Ground::Other, text)
    }
}

impl Deref for Refused {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What the service answers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// A lane; with the packet come its memory, the doorbell to ring, the pipe to wait on, and the doorbell's other end.
    Attached {
        /// Slots of each ring.
        slots: u32,
        /// Bytes of arena.
        arena_bytes: u32,
        /// Largest input or output of one request.
        max_request_bytes: u32,
        /// For a forked child.
        token: Token,
    },
    /// The session is open.
    Session {
        /// Names the session in requests on this lane.
        handle: u32,
        /// Number of its algorithm, by which the client tells its requests apart when it predicts their time.
        algorithm: u8,
    },
    /// Done.
    Done,
    /// Not done.
    Refused(Refused),
    /// The lane is ended, because its client broke the protocol in this way.
    Ended(String),
    /// What is known of the key.
    KeyInfo(KeyInfo),
    /// Keys, in the order of their names; none: there are no more.
    Keys(Vec<KeyEntry>),
    /// No such lane will be given, however long its client waits: what is wrong and what to do.
    TooLarge(Refused),
    /// The keys at rest are sealed anew.
    PassphraseChanged {
        /// The file in which the service looks for the passphrase when it starts, where it knows one.
        file: Option<String>,
    },
    /// Done, but not all of it does what it says: what does not, and why.
    Noted(String),
    /// What is in force: key and value of each setting, as a configuration writes them.
    Settings(Vec<(String, String)>),
    /// The key is made; its private part stays where it is.
    KeyMade {
        /// For sessions on it.
        token: KeyToken,
        /// Its public part: a `SubjectPublicKeyInfo` in DER.
        public: Vec<u8>,
    },
    /// The public part: a `SubjectPublicKeyInfo` in DER.
    Public(Vec<u8>),
    /// The connection serves the device from now on.
    Gateway(Welcome),
}

/// Encodes a message and sends it.
///
/// # Errors
/// Those of the socket, or a message beyond [`MAX_PACKET`] bytes.
pub fn send(socket: impl AsFd, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut buffer = room();
    let packet = encode(message, &mut buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    packet::send(socket, packet, fds)
}

/// Receives a message and the descriptors that came with it. `UnexpectedEof`: the peer is gone.
///
/// # Errors
/// Those of the socket, or `InvalidData`.
pub fn receive<M: DeserializeOwned>(socket: impl AsFd) -> io::Result<(M, Vec<OwnedFd>)> {
    let mut buffer = room();
    let (len, fds) = packet::receive(socket, &mut buffer)?;
    Ok((read(&buffer[..len])?, fds))
}

/// Room for a packet, wiped after use. Not on the stack: that of a caller's coroutine can be as small as two packets.
pub fn room() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(vec![0; MAX_PACKET])
}

/// Reads a packet as it was received.
///
/// # Errors
/// `UnexpectedEof`: it is empty, so the peer is gone. `InvalidData`: it is no such message.
pub fn read<M: DeserializeOwned>(packet: &[u8]) -> io::Result<M> {
    if packet.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode(packet).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Encodes a message into `buffer`. Returns the part that was used.
///
/// # Errors
/// The buffer is too small.
pub fn encode<'b>(message: &impl Serialize, buffer: &'b mut [u8]) -> Result<&'b [u8], postcard::Error> {
    postcard::to_slice(message, buffer).map(|used| &*used)
}

/// Decodes a message that fills the packet.
///
/// # Errors
/// The bytes are no such message.
pub fn decode<M: DeserializeOwned>(packet: &[u8]) -> Result<M, postcard::Error> {
    match postcard::take_from_bytes(packet)? {
        (message, []) => Ok(message),
        _ => Err(postcard::Error::SerdeDeCustom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Acl;
    use crate::spec::{Cipher, Hash, KeyMaterial, Scheme, SignaturePadding};
    use proptest::prelude::*;

    fn round_trip(request: &Request) {
        let mut buffer = [0; MAX_PACKET];
        let packet = encode(request, &mut buffer).unwrap();
        assert_eq!(decode::<Request>(packet).as_ref(), Ok(request));
    }

    #[test]
    fn messages_survive_the_wire() {
        let token = Some(Token([7; 16]));
        let name = "nginx".to_owned();
        round_trip(&Request::Attach(Attach {
            abi: 1,
            slots: 64,
            arena_bytes: 4096,
            name,
            adopt: token,
            reclaimable: true,
        }));
        round_trip(&Request::Set(vec!["notify=park".to_owned()]));
        round_trip(&Request::MakeKey(Kind::Rsa4096));
        let (name, acl) = ("www".to_owned(), Acl { uids: vec![1, u32::MAX], gids: vec![] });
        round_trip(&Request::Keys(KeyCommand::Import { name, pkcs8: Secret::new(vec![7; 2400]), acl }));
        let signature = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };
        let specs = [
            (Scheme::Noop, KeyMaterial::None),
            (Scheme::Cipher(Cipher::Aes256Gcm), KeyMaterial::Symmetric(Secret::new(vec![7; 32]))),
            (signature, KeyMaterial::Stored("www".to_owned())),
            (Scheme::Ed25519, KeyMaterial::Public(vec![7; 32])),
            (Scheme::Ed25519, KeyMaterial::Made(KeyToken([7; 16]))),
        ];
        for (scheme, key) in specs {
            round_trip(&Request::OpenSession(SessionSpec { scheme, key }));
        }
    }

    #[test]
    fn a_packet_with_a_tail_is_refused() {
        let mut buffer = [0; 64];
        let len = encode(&Request::CloseSession { handle: 3 }, &mut buffer).unwrap().len();
        assert!(decode::<Request>(&buffer[..=len]).is_err());
    }

    #[test]
    fn a_token_is_not_printed() {
        assert_eq!(format!("{:?} {:?}", Token([1; 16]), KeyToken([1; 16])), "Token(..) KeyToken(..)");
    }

    proptest! {
        #[test]
        fn any_packet_is_a_message_or_an_error(packet in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode::<Request>(&packet);
            let _ = decode::<Reply>(&packet);
        }
    }
}
