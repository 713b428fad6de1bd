//! The two kinds of files, as bytes. One holds the master key under the passphrase and the list of keys under the
//! master key; the other holds a key under the master key.
//!
//! Each begins with a line with its kind and version. AES-256-GCM seals; the plain parts (that line, a key's name and
//! number) are authenticated with it. Reading is total.

use super::error::Unsealing;
use super::list::List;
use crate::keys::Attributes;
use crate::keys::lineage::Lineage;
use crate::keys::sealed::Transfer;
use crate::spec::Secret;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};
use sidecore_client::keys::Acl;
use zeroize::{Zeroize, Zeroizing};

const MASTER_LINE: &[u8] = b"sidecore master key v2\n";
/// Of a key with a list of users only: older versions read it, too.
const PLAIN_LINE: &[u8] = b"sidecore key v2\n";
/// Of a key with all its attributes.
const KEY_LINE: &[u8] = b"sidecore key v3\n";
/// As earlier versions wrote a key that another service sent: with the time of its seal, which decides nothing any more.
const RECEIVED_LINE: &[u8] = b"sidecore key v4\n";
/// Of a key with its lineage.
const LINEAGE_LINE: &[u8] = b"sidecore key v5\n";
/// Of a key with an identifier, and perhaps with its lineage.
const IDENTIFIED_LINE: &[u8] = b"sidecore key v6\n";
const MASTER_LEN: usize = 32;
/// Largest file of a key, bytes.
pub(super) const MAX_FILE: usize = 64 * 1024;
/// Largest file of a master key with its list: names of the most keys that a service can have, and of the void files
/// after a change of the passphrase.
pub(super) const MAX_MASTER: usize = 2 * 1024 * 1024;

/// Cost of the key from the passphrase: RFC 9106's second recommendation. A file holds the cost that it was made
/// with.
pub(super) const COST: Cost = Cost { memory_kib: 64 * 1024, passes: 3, lanes: 4 };
/// The most that a file may ask for.
const MAX_COST: Cost = Cost { memory_kib: 1024 * 1024, passes: 64, lanes: 16 };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Cost {
    /// The least cost: for tests, which make many stores.
    #[cfg(test)]
    pub(super) const MIN: Self = Self { memory_kib: 8, passes: 1, lanes: 1 };

    fn is_allowed(self) -> bool {
        self.memory_kib <= MAX_COST.memory_kib && self.passes <= MAX_COST.passes && self.lanes <= MAX_COST.lanes
    }
}

#[derive(Serialize, Deserialize)]
struct Sealed {
    nonce: [u8; NONCE_LEN],
    bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Wrapped {
    cost: Cost,
    salt: [u8; 16],
    master: Sealed,
}

#[derive(Serialize, Deserialize)]
struct KeyFile {
    name: String,
    number: u64,
    secret: Sealed,
}

/// The key from the passphrase, computed before the file is read for good: that takes longer than all the rest.
pub(crate) struct Stretched {
    cost: Cost,
    salt: [u8; 16],
    key: Zeroizing<[u8; MASTER_LEN]>,
}

impl Stretched {
    /// For this file of a master key. `None`: the file is none, which who opens it says.
    pub(super) fn of(passphrase: &Secret, file: &[u8]) -> Option<Self> {
        let body = file.strip_prefix(MASTER_LINE)?;
        let (Wrapped { cost, salt, .. }, _) = postcard::take_from_bytes(body).ok()?;
        let key = if cost.is_allowed() { stretched(passphrase, &salt, cost).ok()? } else { return None };
        Some(Self { cost, salt, key })
    }
}

pub(super) struct Master {
    key: LessSafeKey,
    wrapped: Vec<u8>,
    pub(super) transfer: Transfer,
}

impl Master {
    pub(super) fn create(passphrase: &Secret, cost: Cost) -> Result<Self, Unsealing> {
        let mut master = Zeroizing::new(random::<MASTER_LEN>()?);
        let salt = random()?;
        let wrapping = aead_key(&*stretched(passphrase, &salt, cost)?)?;
        let key = aead_key(&*master)?;
        let transfer = Transfer::of_master(&*master).ok_or(Unsealing::System)?;
        let master = Sealed::new(&wrapping, MASTER_LINE, &mut *master)?;
        let body = postcard::to_stdvec(&Wrapped { cost, salt, master }).map_err(|_| Unsealing::System)?;
        Ok(Self { key, wrapped: [MASTER_LINE, &body].concat(), transfer })
    }

    pub(super) fn check_version(file: &[u8]) -> Result<(), Unsealing> {
        body_of(file, MASTER_LINE).map(|_| ())
    }

    pub(super) fn open(passphrase: &Secret, file: &[u8], ahead: Option<&Stretched>) -> Result<(Self, List), Unsealing> {
        let (whole, sum) = file.split_last_chunk::<SHA256_OUTPUT_LEN>().unwrap_or((file, &[0; SHA256_OUTPUT_LEN]));
        body_of(file, MASTER_LINE)?;
        // Distinguishes damage from a wrong passphrase.
        if digest(&SHA256, whole).as_ref() != sum {
            return Err(Unsealing::Damaged);
        }
        let body = body_of(whole, MASTER_LINE)?;
        let (Wrapped { cost, salt, master }, list) = postcard::take_from_bytes(body).map_err(|_| Unsealing::Damaged)?;
        if !cost.is_allowed() {
            return Err(Unsealing::Damaged);
        }
        let ahead = ahead.filter(|ahead| ahead.cost == cost && ahead.salt == salt).map(|ahead| ahead.key.clone());
        let wrapping = aead_key(&*ahead.map_or_else(|| stretched(passphrase, &salt, cost), Ok)?)?;
        let master = master.open(&wrapping, MASTER_LINE).ok_or(Unsealing::Passphrase)?;
        let transfer = Transfer::of_master(&master).ok_or(Unsealing::System)?;
        let master = Self { key: aead_key(&master)?, wrapped: whole[..whole.len() - list.len()].to_vec(), transfer };
        let list: Sealed = decode(list)?;
        let list = decode(&list.open(&master.key, &master.wrapped).ok_or(Unsealing::Damaged)?)?;
        Ok((master, list))
    }

    pub(super) fn file(&self, list: &List) -> Result<Vec<u8>, Unsealing> {
        let mut plain = postcard::to_stdvec(list).map_err(|_| Unsealing::System)?;
        let sealed = Sealed::new(&self.key, &self.wrapped, &mut plain)?;
        let list = postcard::to_stdvec(&sealed).map_err(|_| Unsealing::System)?;
        let mut file = [self.wrapped.as_slice(), &list].concat();
        let sum = digest(&SHA256, &file);
        file.extend(sum.as_ref());
        Ok(file)
    }

    pub(super) fn seal(
        &self,
        name: &str,
        number: u64,
        attributes: &Attributes,
        pkcs8: &Secret,
    ) -> Result<Vec<u8>, Unsealing> {
        let mut plain = Zeroizing::new(vec![0; MAX_FILE]);
        let (line, used) = if !attributes.id.is_empty() {
            let Attributes { lineage, id, .. } = attributes;
            (IDENTIFIED_LINE, postcard::to_slice(&(lineage, id, attributes, pkcs8), &mut plain))
        } else if let Some(lineage) = &attributes.lineage {
            (LINEAGE_LINE, postcard::to_slice(&(lineage, attributes, pkcs8), &mut plain))
        } else if attributes.is_plain() {
            (PLAIN_LINE, postcard::to_slice(&(&attributes.acl, pkcs8), &mut plain))
        } else {
            (KEY_LINE, postcard::to_slice(&(attributes, pkcs8), &mut plain))
        };
        let secret = Sealed::new(&self.key, &associated(line, name, number), used.map_err(|_| Unsealing::System)?)?;
        let file = KeyFile { name: name.to_owned(), number, secret };
        let body = postcard::to_stdvec(&file).map_err(|_| Unsealing::System)?;
        let file = [line, &body].concat();
        if file.len() > MAX_FILE { Err(Unsealing::System) } else { Ok(file) }
    }

    pub(super) fn open_key(&self, name: &str, number: u64, file: &[u8]) -> Result<(Attributes, Secret), Unsealing> {
        let line = [PLAIN_LINE, RECEIVED_LINE, LINEAGE_LINE, IDENTIFIED_LINE]
            .into_iter()
            .find(|line| file.starts_with(line))
            .unwrap_or(KEY_LINE);
        let KeyFile { name: found, number: of, secret } = decode(body_of(file, line)?)?;
        if found != name {
            return Err(Unsealing::Name(found.chars().filter(|c| !c.is_control()).take(80).collect()));
        }
        if of != number {
            return Err(Unsealing::Number(of));
        }
        let plain = secret.open(&self.key, &associated(line, name, number)).ok_or(Unsealing::Damaged)?;
        if line == PLAIN_LINE {
            let (acl, pkcs8) = decode::<(Acl, Secret)>(&plain)?;
            return Ok((acl.into(), pkcs8));
        }
        if line == RECEIVED_LINE {
            let (_, attributes, pkcs8) = decode::<(u64, Attributes, Secret)>(&plain)?;
            return Ok((attributes, pkcs8));
        }
        if line == LINEAGE_LINE {
            let (lineage, attributes, pkcs8) = decode::<(Lineage, Attributes, Secret)>(&plain)?;
            return Ok((Attributes { lineage: Some(lineage), ..attributes }, pkcs8));
        }
        if line == IDENTIFIED_LINE {
            let (lineage, id, attributes, pkcs8) = decode::<(Option<Lineage>, Vec<u8>, Attributes, Secret)>(&plain)?;
            return Ok((Attributes { lineage, id, ..attributes }, pkcs8));
        }
        decode(&plain)
    }
}

impl Sealed {
    /// Encrypts in place, so that no plaintext stays behind, and keeps a copy with its tag.
    fn new(key: &LessSafeKey, associated: &[u8], plain: &mut [u8]) -> Result<Self, Unsealing> {
        let nonce = random()?;
        let (unique, associated) = (Nonce::assume_unique_for_key(nonce), Aad::from(associated));
        let tag = key.seal_in_place_separate_tag(unique, associated, plain).map_err(|_| Unsealing::System)?;
        Ok(Self { nonce, bytes: [plain, tag.as_ref()].concat() })
    }

    fn open(self, key: &LessSafeKey, associated: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(self.bytes);
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        let len = key.open_in_place(nonce, Aad::from(associated), &mut bytes).ok()?.len();
        // Shorter, within the same memory.
        bytes.truncate(len);
        Some(bytes)
    }
}

/// The authenticated plain data of a key: its kind and version, name and number of the change.
fn associated(line: &[u8], name: &str, number: u64) -> Vec<u8> {
    [line, &number.to_le_bytes(), name.as_bytes()].concat()
}

fn body_of<'f>(file: &'f [u8], line: &[u8]) -> Result<&'f [u8], Unsealing> {
    if let Some(body) = file.strip_prefix(line) {
        return Ok(body);
    }
    // All but the number and the end of the line.
    let kind = &line[..line.len() - 2];
    Err(if file.starts_with(kind) { Unsealing::Version } else { Unsealing::Foreign })
}

fn decode<'f, T: Deserialize<'f>>(body: &'f [u8]) -> Result<T, Unsealing> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(Unsealing::Damaged),
    }
}

/// The key from the passphrase. The memory that it takes is wiped.
fn stretched(passphrase: &Secret, salt: &[u8], cost: Cost) -> Result<Zeroizing<[u8; MASTER_LEN]>, Unsealing> {
    let Cost { memory_kib, passes, lanes } = cost;
    let parameters = Params::new(memory_kib, passes, lanes, Some(MASTER_LEN)).map_err(|_| Unsealing::Damaged)?;
    // A running service must not end for lack of this memory.
    let mut memory = Vec::new();
    memory.try_reserve_exact(parameters.block_count()).map_err(|_| Unsealing::System)?;
    memory.resize(parameters.block_count(), Block::default());
    let mut key = Zeroizing::new([0; MASTER_LEN]);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    let made = argon2.hash_password_into_with_memory(passphrase.expose(), salt, &mut *key, &mut memory);
    memory.iter_mut().for_each(Zeroize::zeroize);
    made.map(|()| key).map_err(|_| Unsealing::System)
}

fn aead_key(key: &[u8]) -> Result<LessSafeKey, Unsealing> {
    UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map_err(|_| Unsealing::System)
}

/// Random bytes. A nonce is used twice only by chance: it has 96 bits, and files are rarely written.
fn random<const N: usize>() -> Result<[u8; N], Unsealing> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| Unsealing::System)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sidecore_client::keys::{MAX_CERTIFICATE, MAX_CERTIFICATES, MAX_ID, Usage};

    fn secret(bytes: &[u8]) -> Secret {
        bytes.into()
    }

    fn list() -> List {
        List { changes: 7, keys: [("www".to_owned(), 7)].into(), void: ["www@6.key".to_owned()].into() }
    }

    fn master() -> (Master, Vec<u8>) {
        let master = Master::create(&secret(b"open sesame"), Cost::MIN).unwrap();
        let file = master.file(&list()).unwrap();
        (master, file)
    }

    fn acl() -> Attributes {
        Acl { uids: vec![1000], gids: vec![33] }.into()
    }

    fn attributes() -> Attributes {
        let certificates = vec![vec![7; MAX_CERTIFICATE]; MAX_CERTIFICATES];
        Attributes { usage: Usage::SIGN, rate: Some(100), owner: Some(7), certificates, ..acl() }
    }

    #[test]
    fn attributes_have_a_version_of_their_own_and_files_without_them_stay_as_they_were() {
        let (master, _) = master();
        let plain = master.seal("www", 7, &acl(), &secret(b"private")).unwrap();
        assert!(plain.starts_with(b"sidecore key v2\n"));
        let longest = secret(&[7; 8 * 1024]);
        let full = master.seal("www", 7, &attributes(), &longest).unwrap();
        assert!(full.starts_with(b"sidecore key v3\n") && full.len() <= MAX_FILE);
        assert_eq!(master.open_key("www", 7, &full), Ok((attributes(), longest.clone())));
        let lineage = Lineage::of(b"public", &acl()).changed(b"public", &attributes());
        let shared = Attributes { lineage: Some(lineage), ..attributes() };
        let sent = master.seal("www", 7, &shared, &longest).unwrap();
        assert!(sent.starts_with(b"sidecore key v5\n") && sent.len() <= MAX_FILE);
        assert_eq!(master.open_key("www", 7, &sent), Ok((shared.clone(), longest.clone())));
        let identified = [acl(), shared].map(|other| Attributes { id: vec![7; MAX_ID], ..other });
        let files = identified.each_ref().map(|attributes| master.seal("www", 7, attributes, &longest).unwrap());
        for (attributes, file) in identified.into_iter().zip(&files) {
            assert!(file.starts_with(b"sidecore key v6\n") && file.len() <= MAX_FILE);
            assert_eq!(master.open_key("www", 7, file), Ok((attributes, longest.clone())));
        }
        // The line is authenticated: one version is not read as the other.
        for (file, line) in [
            (&plain, KEY_LINE),
            (&full, PLAIN_LINE),
            (&sent, KEY_LINE),
            (&full, LINEAGE_LINE),
            (&files[0], KEY_LINE),
            (&sent, IDENTIFIED_LINE),
        ] {
            let mixed = [line, &file[line.len()..]].concat();
            assert_eq!(master.open_key("www", 7, &mixed), Err(Unsealing::Damaged));
        }
    }

    #[test]
    fn what_was_sealed_is_opened_by_the_passphrase() {
        let (first, file) = master();
        let key = first.seal("www", 7, &acl(), &secret(b"private")).unwrap();
        let (again, found) = Master::open(&secret(b"open sesame"), &file, None).unwrap();
        assert_eq!(found, list());
        assert_eq!(again.open_key("www", 7, &key), Ok((acl(), secret(b"private"))));
        assert!(!key.windows(7).any(|window| window == b"private"));
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_name() {
        let (first, file) = master();
        let open = |passphrase: &[u8], file: &[u8]| Master::open(&secret(passphrase), file, None).err().unwrap();
        assert_eq!(open(b"open simsim", &file), Unsealing::Passphrase);
        assert_eq!(open(b"open sesame", &file[..file.len() - 1]), Unsealing::Damaged);
        assert_eq!(open(b"open sesame", b"something else"), Unsealing::Foreign);
        assert_eq!(open(b"open sesame", b"sidecore master key v3\nx"), Unsealing::Version);
        let key = first.seal("www", 7, &acl(), &secret(b"private")).unwrap();
        assert_eq!(first.open_key("mail", 7, &key), Err(Unsealing::Name("www".to_owned())));
        assert_eq!(first.open_key("www", 8, &key), Err(Unsealing::Number(7)));
        let (other, _) = master();
        assert_eq!(other.open_key("www", 7, &key), Err(Unsealing::Damaged));
        assert_eq!(first.open_key("www", 7, &file), Err(Unsealing::Foreign));
        assert_eq!(first.open_key("www", 7, b"sidecore key v1\nx"), Err(Unsealing::Version));
    }

    #[test]
    fn a_name_or_a_number_that_was_changed_inside_the_file_does_not_open_it() {
        let (master, _) = master();
        let sealed = master.seal("www", 7, &acl(), &secret(b"private")).unwrap();
        let at = KEY_LINE.len() + 1;
        let mut key = sealed.clone();
        key[at..at + 3].copy_from_slice(b"xyz");
        assert_eq!(master.open_key("xyz", 7, &key), Err(Unsealing::Damaged));
        let mut key = sealed;
        key[at + 3] = 8;
        assert_eq!(master.open_key("www", 8, &key), Err(Unsealing::Damaged));
    }

    #[test]
    fn a_list_is_of_its_master_key_only() {
        let ((first, file), (other, _)) = (master(), master());
        let list = &file[first.wrapped.len()..file.len() - SHA256_OUTPUT_LEN];
        let mut mixed = [other.wrapped.as_slice(), list].concat();
        let sum = digest(&SHA256, &mixed);
        mixed.extend(sum.as_ref());
        assert_eq!(Master::open(&secret(b"open sesame"), &mixed, None).err(), Some(Unsealing::Damaged));
    }

    #[test]
    fn a_file_cannot_ask_for_any_cost() {
        let (_, mut file) = master();
        let (mut body, list): (Wrapped, _) = postcard::take_from_bytes(&file[MASTER_LINE.len()..]).unwrap();
        body.cost.memory_kib = u32::MAX;
        let list = list[..list.len() - SHA256_OUTPUT_LEN].to_vec();
        file.truncate(MASTER_LINE.len());
        file.extend(postcard::to_stdvec(&body).unwrap());
        file.extend(list);
        let sum = digest(&SHA256, &file);
        file.extend(sum.as_ref());
        assert_eq!(Master::open(&secret(b"open sesame"), &file, None).err(), Some(Unsealing::Damaged));
    }

    proptest! {
        #[test]
        fn any_changed_bit_is_found(place: prop::sample::Index, bit in 0..8_u32) {
            let (master, mut file) = master();
            let mut key = master.seal("www", 7, &acl(), &secret(b"private")).unwrap();
            let at = place.index(key.len());
            key[at] ^= 1 << bit;
            prop_assert!(master.open_key("www", 7, &key).is_err());
            let at = place.index(file.len());
            file[at] ^= 1 << bit;
            prop_assert!(Master::open(&secret(b"open sesame"), &file, None).is_err());
        }

        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (master, _) = master();
            prop_assert!(master.open_key("www", 7, &bytes).is_err());
            prop_assert!(master.open_key("www", 7, &[KEY_LINE, &bytes].concat()).is_err());
            prop_assert!(Master::open(&secret(b"x"), &[MASTER_LINE, &bytes].concat(), None).is_err());
        }
    }
}
