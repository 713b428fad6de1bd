//! Messages between client and service over the socket, outside the hot path: one packet each, encoded with
//! `postcard`.
//!
//! Decoding is total: any packet is a message or an error. Key bytes in a packet's buffer are wiped after use.

mod refusal;

use crate::gateway::{Hello, Welcome};
use crate::keys::transfer::{Address, Received};
use crate::keys::{KeyCommand, KeyEntry, KeyInfo, Kind, UsableKey};
use crate::spec::{KeyToken, Secret, SessionSpec};
use serde::{Deserialize, Serialize};
use sidecore_ipc::versions::{SIDECORE, other_layout};
use std::fmt;

pub use refusal::{RefusalCode, Refused};
pub use sidecore_ipc::message::{decode, encode, read, receive, room, send, stated_layout};

/// Proof that a process inherited a lane's client by `fork`: allows the child to take over the sessions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token(pub [u8; 16]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The lane that a client requests.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Attach {
    /// Layout number of the client, see [`sidecore_core::layout::ABI`].
    pub abi: u32,
    /// Slots of each ring.
    pub slots: u32,
    /// Bytes of arena.
    pub arena_bytes: u32,
    /// Name shown to operators, e.g. of the program; cut at 31 bytes.
    pub name: String,
    /// Take over the sessions of the lane with this token.
    pub adopt: Option<Token>,
    /// The service may end the lane while it is idle and another process of the same user needs one.
    pub reclaimable: bool,
}

/// Messages from client to service.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Attach a lane. The connection loses the right to administer.
    Attach(Attach),
    /// Open a session with this key.
    OpenSession(SessionSpec),
    /// Close the session.
    CloseSession {
        /// Its handle.
        handle: u32,
    },
    /// Change the running service: `key=value` each, all of them or none. Only for the service's own user and root,
    /// and not on a lane's connection.
    Set(Vec<String>),
    /// List the settings in force.
    Settings,
    /// Ask for kind and public part of a stored key.
    KeyInfo {
        /// Its name.
        name: String,
    },
    /// Change or list the stored keys. For the service's own user and root, a user's own keys also for that user, and not
    /// on a lane's connection.
    Keys(KeyCommand),
    /// Make a key for this program, which lives as long as the connection. Refused on a connection that has a lane or
    /// a key.
    MakeKey(Kind),
    /// Compute the public part of a raw private key: Ed25519, X25519, ML-DSA-65.
    PublicPart {
        /// Kind of the key.
        kind: Kind,
        /// The private part.
        raw: Secret,
    },
    /// Serve a remote device: after the answer, the connection carries [`crate::gateway`]. Only for root, the
    /// service's own user and the user named in the device's configuration.
    Gateway(Hello),
    /// List the keys that the sender may use, in the order of names, up to the size of a message.
    MyKeys {
        /// List only names after this one; empty: from the first.
        after: String,
        /// The revision of a former list: if it is the present one, the answer is [`Reply::Unchanged`].
        known: Option<u64>,
    },
    /// Ask for a certificate of a stored key.
    Certificate {
        /// The key's name.
        name: String,
        /// 0: that of the key itself.
        index: u8,
    },
    /// A service that takes this one's place asks for the next step. Only for the service's own user and root, and not on
    /// a lane's connection. See [`sidecore_core::policy::succession`].
    Succeed(Succession),
    /// List the identifiers of those keys that the sender may use and that have one, in the order of names, up to the size
    /// of a message.
    Identifiers {
        /// List only names after this one; empty: from the first.
        after: String,
    },
    /// Answer another service, which sealed these bytes to this one: see [`crate::channel`].
    Serve(Vec<u8>),
    /// Ask for the service's address, where it serves others.
    ServingAddress,
}

/// What a service asks of the one whose place it takes, in this order on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Succession {
    /// Stop writing the keys at rest. Answer: [`Reply::Done`].
    Keys,
    /// Accept no further client. Answer: [`Reply::Socket`].
    Socket,
    /// End. Answer: [`Reply::Done`].
    End,
}

impl Request {
    /// Number of requests: those of later versions have larger numbers on the wire.
    const COUNT: u8 = 16;
    /// The number of [`Request::Keys`].
    const KEYS: u8 = 6;
    /// From this value on, a byte is only a part of a number.
    const CONTINUED: u8 = 0x80;

    /// The refusal of a packet that cannot be decoded and is a request of another version. `None`: it is no request.
    pub fn of_other_version(packet: &[u8]) -> Option<Refused> {
        stated_layout(packet)
            .and_then(Self::of_other_layout)
            .or_else(|| Self::is_of_later_version(packet).then(Self::unknown))
    }

    /// The refusal of a lane for a client with this layout. `None`: it is the service's own.
    pub fn of_other_layout(theirs: u32) -> Option<Refused> {
        other_layout(theirs).map(|text| Refused::new(RefusalCode::OtherVersion, text))
    }

    fn unknown() -> Refused {
        let text = format!(
            "the service is of an older version and does not know this request: update it and start it anew; the service is \
             sidecore {SIDECORE}"
        );
        Refused::new(RefusalCode::UnknownRequest, text)
    }

    /// The refusal of a packet that is no request of any version.
    pub fn of_no_message() -> Refused {
        let text = format!(
            "no message of this protocol: client and service must be of one version; the service is sidecore {SIDECORE}"
        );
        Refused::new(RefusalCode::NoRequest, text)
    }

    fn is_of_later_version(packet: &[u8]) -> bool {
        match packet {
            [Self::KEYS, command, ..] => (KeyCommand::COUNT..Self::CONTINUED).contains(command),
            [request, ..] => (Self::COUNT..Self::CONTINUED).contains(request),
            [] => false,
        }
    }
}

/// Messages from service to client.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// A lane. The packet carries four descriptors: its memory, the doorbell to ring, the pipe to wait on, and the
    /// doorbell's other end.
    Attached {
        /// Slots of each ring.
        slots: u32,
        /// Bytes of arena.
        arena_bytes: u32,
        /// Largest input or output of one request.
        max_request_bytes: u32,
        /// Lets a forked child take over the sessions.
        token: Token,
    },
    /// The session is open.
    Session {
        /// Handle of the session in requests on this lane.
        handle: u32,
    },
    /// The request was carried out.
    Done,
    /// The request was refused.
    Refused(Refused),
    /// The lane was ended because its client broke the protocol in this way.
    Ended(String),
    /// Kind and public part of the key.
    KeyInfo(KeyInfo),
    /// Keys, in the order of their names; an empty list is the end.
    Keys(Vec<KeyEntry>),
    /// The service never gives a lane of this shape: error and remedy.
    TooLarge(Refused),
    /// The keys at rest are sealed anew.
    PassphraseChanged {
        /// The passphrase file that the service reads at its start, if it knows one.
        file: Option<String>,
    },
    /// The change was made, but part of it has no effect: which part, and the reason.
    Noted(String),
    /// Settings in force: key and value, as in a configuration.
    Settings(Vec<(String, String)>),
    /// The key was made; its private part stays in the service.
    KeyMade {
        /// Token for opening sessions on it.
        token: KeyToken,
        /// Its public part: a `SubjectPublicKeyInfo` in DER.
        public: Vec<u8>,
    },
    /// The public part: a `SubjectPublicKeyInfo` in DER.
    Public(Vec<u8>),
    /// The connection serves the device from now on.
    Gateway(Welcome),
    /// Keys that the asking user may use, in the order of their names.
    MyKeys {
        /// See [`UsableKeys::revision`](crate::keys::UsableKeys::revision).
        revision: u64,
        /// The keys.
        keys: Vec<UsableKey>,
        /// There are more, after the last of these.
        more: bool,
    },
    /// The list of keys is that of the revision in the question.
    Unchanged,
    /// A certificate, DER.
    Certificate(Vec<u8>),
    /// The service's transfer address.
    Address(Address),
    /// A part of a sealed key.
    Sealed {
        /// The part.
        part: Vec<u8>,
        /// Another part follows.
        more: bool,
    },
    /// A key was received and stored.
    Received(Received),
    /// The sealed key is for these users and groups of its sender's machine. [`KeyCommand::Users`] gives their numbers here.
    Users {
        /// The key's name.
        name: String,
        /// Names of users.
        users: Vec<String>,
        /// Names of groups.
        groups: Vec<String>,
    },
    /// The packet carries two descriptors: the listening socket, and the locked file of its place.
    Socket,
    /// Names of keys with their identifiers, in the order of names; an empty list is the end.
    Identifiers(Vec<(String, Vec<u8>)>),
    /// The answer to another service, sealed to it.
    Served(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Acl, Terms};
    use crate::spec::{Cipher, Hash, KeyMaterial, Scheme, SignaturePadding};
    use proptest::prelude::*;
    use sidecore_core::layout::ABI;
    use sidecore_ipc::message::FIRST;
    use sidecore_ipc::sys::packet::MAX_PACKET;

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
    fn the_numbers_of_requests_are_known_and_later_ones_are_told_from_broken_ones() {
        let number = |request: &Request| {
            let mut buffer = [0; 64];
            let packet = encode(request, &mut buffer).unwrap();
            assert!(!Request::is_of_later_version(packet), "{request:?}");
            (packet[0], packet.get(1).copied().unwrap_or_default())
        };
        let last = Request::ServingAddress;
        assert_eq!(number(&last).0 + 1, Request::COUNT);
        let last = KeyCommand::KeepMadeWith { token: KeyToken([0; 16]), name: String::new(), terms: Terms::default() };
        assert_eq!(number(&Request::Keys(last)), (Request::KEYS, KeyCommand::COUNT - 1));
        for later in [&[Request::COUNT][..], &[100, 1, 2], &[Request::KEYS, KeyCommand::COUNT], &[0x7f]] {
            assert!(decode::<Request>(later).is_err() && Request::is_of_later_version(later), "{later:?}");
        }
        for broken in [&[][..], &[0], &[1], &[Request::KEYS], &[Request::KEYS, 0x80], &[0x80, 1], &[0xff; 64]] {
            assert!(decode::<Request>(broken).is_err() && !Request::is_of_later_version(broken), "{broken:?}");
        }
    }

    #[test]
    fn a_lane_of_another_layout_is_refused_by_both_numbers_in_any_form() {
        let (name, slots, arena_bytes) = ("nginx".to_owned(), 64, 4096);
        let attach = |abi| {
            Request::Attach(Attach { abi, slots, arena_bytes, name: name.clone(), adopt: None, reclaimable: true })
        };
        let mut buffer = [0; 64];
        let len = encode(&attach(ABI + 300), &mut buffer).unwrap().len();
        // A later version may add fields, remove all or change them.
        for later in [&buffer[..=len], &buffer[..3], &buffer[..len - 1]] {
            assert!(decode::<Request>(later).is_err());
            assert_eq!(Request::of_other_version(later), Request::of_other_layout(ABI + 300), "{later:?}");
        }
        let len = encode(&attach(ABI), &mut buffer).unwrap().len();
        assert_eq!(Request::of_other_version(&buffer[..=len]), None);
        for broken in [&[][..], &[FIRST], &[FIRST, 0x80], &[FIRST, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(Request::of_other_version(broken), None, "{broken:?}");
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
            let _ = Request::of_other_version(&packet);
        }
    }
}
