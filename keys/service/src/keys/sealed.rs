//! Keys sealed to one other service by HPKE (RFC 9180, mode Auth), and files of addresses.
//!
//! A sealed key names both services, and the recipient knows that this sender sealed it. Both export the same receipts,
//! which no other process can compute. Reading is total.

use super::attributes::Attributes;
use super::lineage::Lineage;
use crate::ffi::hpke::{Context, KEY_LEN, public_of};
use crate::spec::Secret;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::{constant_time, rand};
use serde::{Deserialize, Serialize};
use sidecore_client::keys::transfer::{AclNames, Address, AddressError, MAX_ADDRESS_FILE, MAX_SEALED, Receipt};
use sidecore_daemon::sys::packet::MAX_PACKET;
use sidecore_ipc::named_file::NamedFile;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Begins a sealed key. Authenticated with it.
const LINE: &[u8] = b"sidecore sealed key v2\n";
/// Separates the transfer key from other uses of the master key.
const TRANSFER_LABEL: &[u8] = b"sidecore transfer key v1";
const AT_REST_LABEL: &[u8] = b"sidecore receipt v1: at rest";
const IN_MEMORY_LABEL: &[u8] = b"sidecore receipt v1: in memory";
/// Largest key with its attributes, bytes.
const MAX_PLAIN: usize = 64 * 1024;
/// Longest private key, bytes: that of a message. Attributes of PKCS#8 may make one of any length.
const MAX_PKCS8: usize = MAX_PACKET;
const HOUR_MS: u64 = 3_600_000;
/// A sealed key opens for this time.
const MAX_AGE_MS: u64 = 24 * HOUR_MS;
/// Difference of two machines' clocks that does no harm.
const MAX_AHEAD_MS: u64 = HOUR_MS / 6;

/// A key that does not go to another service, or does not come from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The address is not in the configuration.
    #[error(
        "the service seals no key to this address: name its file in the service's configuration, send_to = [\"FILE\"] under \
         [keys], and start the service anew"
    )]
    NotRecipient,
    /// The address is the service's own.
    #[error("this address is the service's own: give that of the other service, from `sidecore keys address` there")]
    Itself,
    /// The private part is on other machines.
    #[error("key {0:?}: its private part is on other machines: send it from there")]
    NotHere(String),
    /// A user had it made for itself.
    #[error("key {name:?} is user {owner}'s own (keys.creators): such keys stay on their machine")]
    Owned {
        /// The key's name.
        name: String,
        /// The user.
        owner: u32,
    },
    /// No sealed key, or one of another version.
    #[error("this is no sealed key of this version: send it again, from a service of the same version")]
    Foreign,
    /// It is sealed to another service.
    #[error(
        "it is sealed to address {to}, and this service's is {own}: send it to the address of `sidecore keys address` here"
    )]
    OtherRecipient {
        /// The recipient's address.
        to: Address,
        /// This service's address.
        own: Address,
    },
    /// The sender's address is not in the configuration.
    #[error(
        "it comes from address {0}, from which this service receives no key: if it is that of `sidecore keys address` there, name a \
         file with it in this service's configuration, receive_from = [\"FILE\"] under [keys], and start the service anew"
    )]
    NotSender(Address),
    /// It was changed on its way.
    #[error("the sealed key is damaged or forged, and does not open: send it again")]
    Damaged,
    /// It was sealed too long ago.
    #[error("it was sealed {0} hours ago, and opens for 24 only: send it again")]
    Old(u64),
    /// It was sealed in the future.
    #[error(
        "it was sealed {0} minutes from now by this machine's clock: set the clocks of both machines, and send it again"
    )]
    Ahead(u64),
    /// The key here was changed after the state that was sealed.
    #[error(
        "key {0:?} here is newer than this sealed one: send that of here there, or `sidecore keys receive --force` puts the \
         older one in its place"
    )]
    Older(String),
    /// The key here and the sealed one were changed independently.
    #[error(
        "key {0:?} here and the sealed one have been changed independently of each other, so neither is the newer one: \
         `sidecore keys receive --force` puts the sealed one in the place of that of here"
    )]
    Apart(String),
    /// Another key has this name here.
    #[error("there is another key {0:?} here: `sidecore keys receive --replace` puts this one in its place")]
    OtherKey(String),
    /// The same key has other users or terms here.
    #[error(
        "key {0:?} has other users, terms or certificates here: `sidecore keys receive --replace` sets those of the sender"
    )]
    OtherTerms(String),
    /// The receipt is not that of this key.
    #[error("key {0:?}: the receipt is wrong: the key stays here")]
    WrongReceipt(String),
    /// The other service has the key in memory only.
    #[error("key {0:?}: the other service has it in memory only (no keys.directory): the key stays here")]
    InMemory(String),
    /// The key was changed after it was sealed.
    #[error("key {0:?} was changed since it was sealed: it stays here; move it again")]
    ChangedSince(String),
    /// The service promised another one to keep the key.
    #[error(
        "key {0:?} stays here: after it was sealed, this service gave another one a receipt for it, which promises to keep it; \
         move it again if it is to leave"
    )]
    Promised(String),
    /// The connection sealed no such key.
    #[error("key {0:?} was not sealed on this connection: seal it first")]
    NotSealed(String),
    /// The attributes are longer than a sealed key can be.
    #[error("key {0:?} is too large to be sent: remove certificates with `sidecore keys cert {0} --remove`")]
    Large(String),
    /// The crypto library failed.
    #[error("the crypto library sealed nothing: try again")]
    Library,
}

/// The two receipts for one sealed key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Receipts {
    pub(crate) at_rest: Receipt,
    pub(crate) in_memory: Receipt,
}

impl Receipts {
    fn of(context: &Context) -> Option<Self> {
        let export = |label| context.export(label).map(Receipt);
        Some(Self { at_rest: export(AT_REST_LABEL)?, in_memory: export(IN_MEMORY_LABEL)? })
    }

    /// Whether the other service has the key at rest. `None`: this is no receipt for it.
    pub(super) fn is_at_rest(&self, receipt: &Receipt) -> Option<bool> {
        let is = |own: &Receipt| constant_time::verify_slices_are_equal(&own.0, &receipt.0).is_ok();
        if is(&self.at_rest) { Some(true) } else { is(&self.in_memory).then_some(false) }
    }
}

impl fmt::Debug for Receipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipts(..)")
    }
}

/// A received key, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) name: String,
    /// Users and groups by their numbers on the sender's machine.
    pub(crate) attributes: Attributes,
    /// Names of these users and groups.
    pub(crate) names: AclNames,
    pub(crate) pkcs8: Secret,
    pub(crate) from: Address,
    pub(crate) receipts: Receipts,
}

/// What is sealed with a private key.
#[derive(Serialize)]
pub(crate) struct Contents<'a> {
    pub(crate) name: &'a str,
    pub(crate) lineage: Lineage,
    pub(crate) names: AclNames,
    pub(crate) attributes: &'a Attributes,
}

/// The service's own key pair, for transfers and [channels](crate::channel). Copies share the private part.
#[derive(Clone)]
pub(crate) struct Transfer {
    private: Arc<Zeroizing<[u8; KEY_LEN]>>,
    pub(crate) address: Address,
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("address", &self.address).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct Parcel {
    to: Address,
    from: Address,
    encapsulated: [u8; KEY_LEN],
    sealed: Vec<u8>,
}

struct PrivateLen;

impl KeyType for PrivateLen {
    fn len(&self) -> usize {
        KEY_LEN
    }
}

impl Transfer {
    /// `None`: the system gives no random numbers.
    pub(super) fn random() -> Option<Self> {
        Self::fill(|private| rand::fill(private).ok())
    }

    /// The same for each start with this master key.
    pub(crate) fn of_master(master: &[u8]) -> Option<Self> {
        let extracted = Salt::new(HKDF_SHA256, &[]).extract(master);
        Self::fill(|private| extracted.expand(&[TRANSFER_LABEL], PrivateLen).ok()?.fill(private).ok())
    }

    fn fill(fill: impl FnOnce(&mut [u8]) -> Option<()>) -> Option<Self> {
        // Filled in its place: a move would leave a copy behind.
        let mut private = Arc::new(Zeroizing::new([0; KEY_LEN]));
        fill(Arc::get_mut(&mut private)?.as_mut_slice())?;
        let address = Address(public_of(&private)?);
        Some(Self { private, address })
    }

    pub(crate) fn private(&self) -> &[u8; KEY_LEN] {
        &self.private
    }

    pub(super) fn seal(
        &self,
        to: Address,
        sealed_ms: u64,
        contents: &Contents<'_>,
        pkcs8: &Secret,
    ) -> Result<(Vec<u8>, Receipts), TransferError> {
        let mut plain = Zeroizing::new(vec![0; MAX_PLAIN]);
        let used = postcard::to_slice(&(sealed_ms, contents, pkcs8), &mut plain);
        let used = used.map_err(|_| TransferError::Large(contents.name.to_owned()))?;
        let (mut context, encapsulated) = Context::to(&to.0, self.private(), LINE).ok_or(TransferError::Library)?;
        let sealed = context.seal(used, &[]).ok_or(TransferError::Library)?;
        let receipts = Receipts::of(&context).ok_or(TransferError::Library)?;
        let parcel = Parcel { to, from: self.address, encapsulated, sealed };
        let body = postcard::to_stdvec(&parcel).map_err(|_| TransferError::Library)?;
        Ok(([LINE, &body].concat(), receipts))
    }

    /// Opens what one of these senders sealed.
    pub(super) fn open(&self, sealed: &[u8], senders: &[Address], now_ms: u64) -> Result<Opened, TransferError> {
        let body = sealed.strip_prefix(LINE).filter(|_| sealed.len() <= MAX_SEALED).ok_or(TransferError::Foreign)?;
        let Ok((parcel, [])) = postcard::take_from_bytes::<Parcel>(body) else { return Err(TransferError::Damaged) };
        let Parcel { to, from, encapsulated, sealed } = parcel;
        if to != self.address {
            return Err(TransferError::OtherRecipient { to, own: self.address });
        }
        if !senders.contains(&from) {
            return Err(TransferError::NotSender(from));
        }
        let context = Context::from(&from.0, &encapsulated, self.private(), LINE);
        let mut context = context.ok_or(TransferError::Damaged)?;
        let plain = context.open(&sealed, &[]).ok_or(TransferError::Damaged)?;
        let receipts = Receipts::of(&context).ok_or(TransferError::Library)?;
        let Ok((contents, [])) = postcard::take_from_bytes(&plain) else { return Err(TransferError::Foreign) };
        let (sealed_ms, (name, lineage, names, attributes), pkcs8): (u64, (_, _, AclNames, Attributes), Secret) =
            contents;
        check_time(sealed_ms, now_ms)?;
        if pkcs8.expose().len() > MAX_PKCS8 || names != names.clone().of(&attributes.acl) {
            return Err(TransferError::Foreign);
        }
        let attributes = Attributes { lineage: Some(lineage), ..attributes };
        Ok(Opened { name, attributes, names, pkcs8, from, receipts })
    }
}

fn check_time(sealed_ms: u64, now_ms: u64) -> Result<(), TransferError> {
    let (age, ahead) = (now_ms.saturating_sub(sealed_ms), sealed_ms.saturating_sub(now_ms));
    if age > MAX_AGE_MS {
        return Err(TransferError::Old(age / HOUR_MS));
    }
    if ahead > MAX_AHEAD_MS {
        return Err(TransferError::Ahead(ahead / 60_000));
    }
    Ok(())
}

/// A file without an address, or one that others may write.
#[derive(Debug, thiserror::Error)]
pub enum PartnerError {
    /// It cannot be read.
    #[error("{}: {error}; name a file with the address of a service that this user may read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Other users can put their address there.
    #[error("{}: others may write it (user {uid}, mode {mode:o}), and send or get keys so: give it to root with chmod 644", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
    },
    /// It has no address.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: AddressError,
    },
}

/// Reads a file with an address that only root and this process's user can write.
///
/// # Errors
/// It cannot be read, others may write it, or there is no address in it.
pub fn read_partner(path: &Path) -> Result<Address, PartnerError> {
    let system = |error| PartnerError::Unreadable { path: path.to_owned(), error };
    let file = NamedFile::open(path).map_err(system)?;
    let metadata = file.metadata().map_err(system)?;
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if mode & 0o022 != 0 || ![0, rustix::process::geteuid().as_raw()].contains(&uid) {
        return Err(PartnerError::Open { path: path.to_owned(), uid, mode });
    }
    let mut text = Vec::new();
    file.take(MAX_ADDRESS_FILE).read_to_end(&mut text).map_err(system)?;
    Address::from_pem(&text).map_err(|why| PartnerError::Unfit { path: path.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sidecore_client::keys::{Acl, Usage};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    const NOW: u64 = 1_800_000_000_000;

    fn attributes() -> Attributes {
        let acl = Acl { uids: vec![33], gids: vec![] };
        Attributes { usage: Usage::SIGN, rate: Some(7), certificates: vec![vec![7; 100]], ..acl.into() }
    }

    fn names() -> AclNames {
        AclNames { users: vec![(33, "www-data".to_owned())], groups: vec![] }
    }

    fn pair() -> (Transfer, Transfer) {
        (Transfer::of_master(&[1; 32]).unwrap(), Transfer::of_master(&[2; 32]).unwrap())
    }

    fn sealed(from: &Transfer, to: &Transfer, at: u64) -> (Vec<u8>, Receipts) {
        let (lineage, names) = (Lineage::of(b"public", &attributes()), names());
        let contents = Contents { name: "www", lineage, names, attributes: &attributes() };
        from.seal(to.address, at, &contents, &b"private"[..].into()).unwrap()
    }

    fn open(by: &Transfer, from: &Transfer, bytes: &[u8]) -> Result<Opened, TransferError> {
        by.open(bytes, &[from.address], NOW)
    }

    #[test]
    fn a_master_key_has_one_address_and_another_has_another() {
        let (a, b) = pair();
        assert_eq!(a.address, Transfer::of_master(&[1; 32]).unwrap().address);
        assert_ne!(a.address, b.address);
        assert_ne!(Transfer::random().unwrap().address, Transfer::random().unwrap().address);
        assert!(!format!("{a:?}").contains("private"));
    }

    #[test]
    fn a_key_arrives_whole_and_only_its_recipient_has_its_receipts() {
        let (a, b) = pair();
        let (bytes, receipts) = sealed(&a, &b, NOW);
        assert!(!bytes.windows(7).any(|window| window == b"private"));
        let Opened { name, attributes: found, names: of_users, pkcs8, from, receipts: theirs } =
            open(&b, &a, &bytes).unwrap();
        assert_eq!((name.as_str(), pkcs8.expose(), from), ("www", &b"private"[..], a.address));
        assert_eq!((found.as_sent(), of_users), (attributes(), names()));
        assert_eq!(found.lineage, Some(Lineage::of(b"public", &attributes())));
        assert_eq!(theirs, receipts);
        assert_eq!(receipts.is_at_rest(&theirs.at_rest), Some(true));
        assert_eq!(receipts.is_at_rest(&theirs.in_memory), Some(false));
        let (_, others) = sealed(&a, &b, NOW);
        assert_eq!(receipts.is_at_rest(&others.at_rest), None, "each seal has its own");
        assert!(matches!(open(&a, &a, &bytes), Err(TransferError::OtherRecipient { .. })));
    }

    #[test]
    fn another_name_of_sender_or_recipient_in_the_plain_part_does_not_open_it() {
        let (a, b) = pair();
        let c = Transfer::of_master(&[3; 32]).unwrap();
        let (bytes, _) = sealed(&a, &b, NOW);
        let mut forged = bytes.clone();
        forged[LINE.len()..LINE.len() + KEY_LEN].copy_from_slice(&c.address.0);
        assert_eq!(open(&c, &a, &forged).unwrap_err(), TransferError::Damaged);
        let mut forged = bytes;
        forged[LINE.len() + KEY_LEN..LINE.len() + 2 * KEY_LEN].copy_from_slice(&c.address.0);
        assert_eq!(open(&b, &c, &forged).unwrap_err(), TransferError::Damaged);
    }

    #[test]
    fn a_sender_that_is_not_named_gives_nothing_even_with_a_good_seal() {
        let (a, b) = pair();
        let (bytes, _) = sealed(&a, &b, NOW);
        for senders in [&[][..], &[b.address]] {
            assert_eq!(b.open(&bytes, senders, NOW).unwrap_err(), TransferError::NotSender(a.address));
        }
        assert!(b.open(&bytes, &[b.address, a.address], NOW).is_ok());
    }

    #[test]
    fn a_private_key_is_no_longer_than_a_message() {
        let (a, b) = pair();
        let opened = |len: usize| {
            let contents = Contents {
                name: "www",
                lineage: Lineage::default(),
                names: AclNames::default(),
                attributes: &attributes(),
            };
            let (bytes, _) = a.seal(b.address, NOW, &contents, &vec![7; len][..].into()).unwrap();
            open(&b, &a, &bytes).map(|_| ())
        };
        assert_eq!((opened(MAX_PKCS8), opened(MAX_PKCS8 + 1)), (Ok(()), Err(TransferError::Foreign)));
    }

    #[test]
    fn a_sealed_key_opens_for_a_day() {
        let (a, b) = pair();
        let opened = |at: u64| open(&b, &a, &sealed(&a, &b, at).0).map(|_| ()).map_err(|why| why.to_string());
        for at in [NOW, NOW - MAX_AGE_MS, NOW + MAX_AHEAD_MS] {
            assert_eq!(opened(at), Ok(()));
        }
        assert!(opened(NOW - MAX_AGE_MS - 1).unwrap_err().contains("24 hours ago"));
        assert!(opened(NOW + MAX_AHEAD_MS + 60_000).unwrap_err().contains("11 minutes from now"));
        assert!(opened(0).is_err() && opened(u64::MAX).is_err());
    }

    #[test]
    fn a_file_that_others_may_write_names_no_recipient() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (a, _) = pair();
        fs::write(file.path(), a.address.to_pem()).unwrap();
        let read = |mode| {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            read_partner(file.path()).map_err(|why| why.to_string())
        };
        assert_eq!(read(0o644), Ok(a.address));
        for mode in [0o664, 0o646] {
            assert!(read(mode).unwrap_err().contains("others may write it"));
        }
        fs::write(file.path(), "no address").unwrap();
        assert!(read(0o644).unwrap_err().contains("sidecore keys address"));
        assert!(read_partner(Path::new("no/such/file")).unwrap_err().to_string().contains("no/such/file"));
    }

    proptest! {
        #[test]
        fn any_changed_bit_is_found(place: prop::sample::Index, bit in 0..8_u32, cut: prop::sample::Index) {
            let (a, b) = pair();
            let (mut bytes, _) = sealed(&a, &b, NOW);
            prop_assert!(open(&b, &a, &bytes[..cut.index(bytes.len())]).is_err());
            let at = place.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(open(&b, &a, &bytes).is_err());
        }

        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (a, _) = pair();
            prop_assert!(open(&a, &a, &bytes).is_err());
            prop_assert!(open(&a, &a, &[LINE, &bytes].concat()).is_err());
        }
    }
}
