//! Keys on their way to another machine's service: addresses, sealed keys and receipts, as bytes and as text.
//!
//! An address is public, a sealed key opens at one service only, and a receipt proves that this service opened it. Reading
//! is total: any text is one of these or an error in words.

use super::pem::first_block;
use super::{Acl, MAX_NAME, check_name};
use der::pem::{self, LineEnding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use zeroize::Zeroizing;

/// Label in the `BEGIN` and `END` lines of an address.
pub const ADDRESS_LABEL: &str = "SIDECORE TRANSFER ADDRESS";
/// Label of a sealed key.
pub const SEALED_LABEL: &str = "SIDECORE SEALED KEY";
/// Longest file of an address, bytes.
pub const MAX_ADDRESS_FILE: u64 = 4096;
/// Largest sealed key, bytes: the largest key at rest, addresses and tags.
pub const MAX_SEALED: usize = 64 * 1024 + 256;
/// Largest part of a sealed key in one message, bytes.
pub const PART: usize = 12 * 1024;
/// First word of a line with a receipt.
const RECEIPT_WORD: &str = "sidecore-receipt";
/// Longest line with a receipt, bytes.
pub const MAX_RECEIPT_LINE: usize = RECEIPT_WORD.len() + MAX_NAME + 2 * LEN + 16;
/// `SubjectPublicKeyInfo` of X25519, up to its 32 bytes (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00];
const LEN: usize = 32;

/// Public transfer key of a service: X25519.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address(pub [u8; LEN]);

/// Reason why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no address of a service in it: write the output of `sidecore keys address` there")]
pub struct AddressError;

impl Address {
    /// The text that `sidecore keys address` prints.
    pub fn to_pem(self) -> String {
        // It is too short to fail.
        pem::encode_string(ADDRESS_LABEL, LineEnding::LF, &[&SPKI[..], &self.0].concat()).unwrap_or_default()
    }

    /// The first address of a text.
    ///
    /// # Errors
    /// There is none.
    pub fn from_pem(text: &[u8]) -> Result<Self, AddressError> {
        let block = first_block(text, |label| label == ADDRESS_LABEL.as_bytes()).ok_or(AddressError)?;
        let (_, der) = pem::decode_vec(&block).map_err(|_| AddressError)?;
        let key = der.strip_prefix(&SPKI).and_then(|key| key.try_into().ok());
        key.map(Self).ok_or(AddressError)
    }
}

/// The middle line of its text.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_pem().lines().nth(1).unwrap_or_default())
    }
}

/// Longest name of a user or group that travels, bytes.
pub const MAX_USER_NAME: usize = 64;

/// Names of the users and groups of an access list. Their numbers differ between machines, so the list goes by names, and
/// the receiver puts its own numbers in their place. A number without a name stays what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclNames {
    /// Users, by their numbers on the sender's machine.
    pub users: Vec<(u32, String)>,
    /// Groups, likewise.
    pub groups: Vec<(u32, String)>,
}

impl AclNames {
    /// Those of the numbers of this list, each once, as far as they may be names.
    #[must_use]
    pub fn of(self, acl: &Acl) -> Self {
        let kept = |names: Vec<(u32, String)>, ids: &[u32]| {
            let mut kept = Vec::<(u32, String)>::new();
            for (id, name) in names {
                let is_name = (1..=MAX_USER_NAME).contains(&name.len()) && !name.contains(char::is_control);
                if is_name && ids.contains(&id) && kept.iter().all(|(other, _)| *other != id) {
                    kept.push((id, name));
                }
            }
            kept
        };
        Self { users: kept(self.users, &acl.uids), groups: kept(self.groups, &acl.gids) }
    }

    /// The list with other numbers for the named users and groups, in the order of the names.
    ///
    /// # Errors
    /// There are more or fewer numbers than names.
    pub fn mapped(&self, acl: &Acl, to: &Acl) -> Result<Acl, AclNumbersError> {
        let mapped = |ids: &[u32], names: &[(u32, String)], to: &[u32]| {
            if names.len() != to.len() {
                return Err(AclNumbersError);
            }
            let of = |id: u32| names.iter().zip(to).find(|((known, _), _)| *known == id).map_or(id, |(_, to)| *to);
            Ok(ids.iter().map(|id| of(*id)).collect::<BTreeSet<_>>().into_iter().collect())
        };
        Ok(Acl { uids: mapped(&acl.uids, &self.users, &to.uids)?, gids: mapped(&acl.gids, &self.groups, &to.gids)? })
    }
}

/// Reason why numbers do not belong to the names of a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a number is needed for each name of a user or group of the sealed key: receive it again")]
pub struct AclNumbersError;

/// What a received key may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replace {
    /// Nothing.
    Never,
    /// An earlier state of the same key, also another key that this one replaced at the sender.
    Newer,
    /// Whatever key has its name.
    Always,
}

/// Proof that a service opened a sealed key. Never printed by `Debug`.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
pub struct Receipt(pub [u8; LEN]);

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt(..)")
    }
}

/// Change at the receiving service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It had no key of this name.
    New,
    /// It had another key of this name, or this one with other users or terms.
    Replaced,
    /// It had the same key with the same users and terms.
    Same,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::New, Self::Replaced, Self::Same];

    /// Its word in a line with a receipt.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replaced => "replaced",
            Self::Same => "same",
        }
    }
}

/// A key that a service received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Its name.
    pub name: String,
    /// Change at the receiving service.
    pub outcome: Outcome,
    /// The proof.
    pub receipt: Receipt,
}

impl Received {
    /// A line for the sender, without its end.
    pub fn to_line(&self) -> String {
        let Self { name, outcome, receipt } = self;
        format!("{RECEIPT_WORD} {name} {} {}", outcome.name(), hex(&receipt.0))
    }

    /// Reads a line. `None`: it is none of these.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut words = line.trim_ascii_end().split(' ');
        let (first, name) = (words.next()?, words.next()?);
        let (outcome, receipt) = (words.next()?, words.next()?);
        if first != RECEIPT_WORD || words.next().is_some() || check_name(name).is_err() {
            return None;
        }
        let outcome = Outcome::ALL.into_iter().find(|known| known.name() == outcome)?;
        Some(Self { name: name.to_owned(), outcome, receipt: Receipt(unhex(receipt)?) })
    }
}

/// A sealed key as text.
pub fn sealed_to_pem(sealed: &[u8]) -> String {
    pem::encode_string(SEALED_LABEL, LineEnding::LF, sealed).unwrap_or_default()
}

/// Reason why a text has no sealed keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealedTextError {
    /// A block without an end, with another content, or longer than any sealed key.
    #[error("sealed key {0} of it is cut off or damaged: send it again")]
    Damaged(usize),
    /// There is none.
    #[error("there is no sealed key in it: give the output of `sidecore keys send`")]
    None,
}

/// The sealed keys of a text, in its order. Text between them is ignored.
///
/// # Errors
/// One is damaged, or there is none.
pub fn sealed_from_pem(text: &[u8]) -> Result<Vec<Vec<u8>>, SealedTextError> {
    let (begin, end) = (format!("-----BEGIN {SEALED_LABEL}-----"), format!("-----END {SEALED_LABEL}-----"));
    let mut found = Vec::new();
    let mut block: Option<Zeroizing<Vec<u8>>> = None;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let content = line.trim_ascii();
        let damaged = SealedTextError::Damaged(found.len() + 1);
        if content == begin.as_bytes() {
            if block.replace(Zeroizing::new([begin.as_bytes(), b"\n"].concat())).is_some() {
                return Err(damaged);
            }
        } else if let Some(mut open) = block.take() {
            open.extend(content);
            open.push(b'\n');
            if open.len() > 2 * MAX_SEALED {
                return Err(damaged);
            }
            if content == end.as_bytes() {
                let (_, sealed) = pem::decode_vec(&open).map_err(|_| damaged)?;
                found.push(sealed);
            } else {
                block = Some(open);
            }
        }
    }
    if block.is_some() {
        return Err(SealedTextError::Damaged(found.len() + 1));
    }
    if found.is_empty() { Err(SealedTextError::None) } else { Ok(found) }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<[u8; LEN]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * LEN || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; LEN];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_is_read_as_it_was_written_and_other_keys_are_none() {
        let address = Address([7; LEN]);
        let pem = address.to_pem();
        assert!(pem.starts_with("-----BEGIN SIDECORE TRANSFER ADDRESS-----\n") && pem.lines().count() == 3, "{pem}");
        assert_eq!(address.to_string(), pem.lines().nth(1).unwrap());
        assert_eq!(Address::from_pem(format!("text\r\n{}", pem.replace('\n', "\r\n")).as_bytes()), Ok(address));
        for other in ["", "PUBLIC KEY", "SIDECORE SEALED KEY"] {
            assert_eq!(Address::from_pem(pem.replace(ADDRESS_LABEL, other).as_bytes()), Err(AddressError));
        }
        let short = pem::encode_string(ADDRESS_LABEL, LineEnding::LF, &SPKI).unwrap();
        assert_eq!(Address::from_pem(short.as_bytes()), Err(AddressError));
    }

    #[test]
    fn a_receipt_is_one_line_and_others_are_none() {
        let received =
            Received { name: "x".repeat(MAX_NAME), outcome: Outcome::Replaced, receipt: Receipt([0xa5; LEN]) };
        let line = received.to_line();
        assert!(line.len() <= MAX_RECEIPT_LINE, "{}", line.len());
        assert_eq!(Received::from_line(&format!("{line}\r\n")), Some(received));
        for other in [
            "",
            "sidecore-receipt",
            &line[1..],
            &line[..line.len() - 1],
            &format!("{line} more"),
            &line.replace("replaced", "lost"),
            &line.replace("xx", "/x"),
            &line.replace("a5a5", "a5g5"),
        ] {
            assert_eq!(Received::from_line(other), None, "{other}");
        }
    }

    #[test]
    fn a_list_gets_the_receivers_numbers_for_names_and_keeps_those_without() {
        let acl = Acl { uids: vec![33, 1000, 70_000], gids: vec![33] };
        let named = |id: u32, name: &str| (id, name.to_owned());
        let users = vec![named(33, "www-data"), named(33, "again"), named(7, "other"), named(1000, &"x".repeat(65))];
        let known = AclNames { users, groups: vec![named(33, "www-data"), named(4, "a\nb")] }.of(&acl);
        assert_eq!(known, AclNames { users: vec![named(33, "www-data")], groups: vec![named(33, "www-data")] });
        let to = Acl { uids: vec![101], gids: vec![82] };
        let expected = Acl { uids: vec![101, 1000, 70_000], gids: vec![82] };
        assert_eq!(known.mapped(&acl, &to), Ok(expected));
        assert_eq!(known.mapped(&acl, &Acl::default()), Err(AclNumbersError));
        // Two users of there may be one here, and numbers may be exchanged.
        let both = AclNames { users: vec![named(33, "a"), named(1000, "b")], groups: vec![] };
        let mapped = |uids| both.mapped(&acl, &Acl { uids, gids: vec![] }).unwrap().uids;
        assert_eq!((mapped(vec![5, 5]), mapped(vec![1000, 33])), (vec![5, 70_000], vec![33, 1000, 70_000]));
    }

    #[test]
    fn sealed_keys_are_read_in_their_order_and_a_cut_one_is_named() {
        let keys = vec![vec![1; 10], vec![2; MAX_SEALED], vec![3; 48]];
        let text: String = keys.iter().map(|key| sealed_to_pem(key)).collect();
        assert_eq!(sealed_from_pem(format!("hello\n{text}bye").as_bytes()), Ok(keys));
        let cut = text.trim_end().len() - 1;
        assert_eq!(sealed_from_pem(&text.as_bytes()[..cut]), Err(SealedTextError::Damaged(3)));
        assert_eq!(sealed_from_pem(b"nothing"), Err(SealedTextError::None));
        let begin = text.lines().next().unwrap();
        assert_eq!(sealed_from_pem(format!("{begin}\n{text}").as_bytes()), Err(SealedTextError::Damaged(1)));
        let endless = format!("{begin}\n{}", "AAAA\n".repeat(MAX_SEALED));
        assert_eq!(sealed_from_pem(endless.as_bytes()), Err(SealedTextError::Damaged(1)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,300}") {
            let _ = (Address::from_pem(text.as_bytes()), sealed_from_pem(text.as_bytes()), Received::from_line(&text));
        }
    }
}
