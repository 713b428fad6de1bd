//! A key in one block of memory, without pointers: one byte for the location of the private part, the length of its
//! description in four bytes, the description, and the public part.

use super::{Key, Private, Public, unreadable};
use crate::client::MadeKey;
use crate::keyops::failure::Failure;
use crate::spec::{KeyToken, Secret};
use zeroize::Zeroizing;

impl Key {
    /// Encodes the key. A key made by the service is stored as its token; the block does not keep such a key alive.
    ///
    /// # Errors
    /// The parts do not form a key.
    pub fn to_flat(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let (kind, private) = self.private.identity();
        let public = self.public.to_spki()?;
        let len = u32::try_from(private.len()).map_err(|_| unreadable("the key"))?;
        // A growing vector would leave pieces of the private part in freed memory.
        let mut flat = Zeroizing::new(Vec::with_capacity(5 + private.len() + public.len()));
        flat.push(kind);
        flat.extend(len.to_ne_bytes());
        flat.extend(private);
        flat.extend(public);
        Ok(flat)
    }

    /// Decodes the result of [`Key::to_flat`].
    ///
    /// # Errors
    /// The bytes are not such a result.
    pub fn from_flat(flat: &[u8]) -> Result<Self, Failure> {
        read(flat).ok_or_else(|| unreadable("the key object"))?
    }
}

fn read(flat: &[u8]) -> Option<Result<Key, Failure>> {
    let (kind, rest) = flat.split_first()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (private, spki) = rest.split_at_checked(usize::try_from(u32::from_ne_bytes(*len)).ok()?)?;
    let private = match kind {
        0 => Private::None,
        1 => Private::Stored(str::from_utf8(private).ok()?.to_owned()),
        2 => Private::Imported(Secret::from(private)),
        3 => Private::Made(MadeKey::of(KeyToken(private.try_into().ok()?), spki.to_vec())),
        _ => return None,
    };
    Some(Public::from_spki(spki).map(|public| Key::new(public, private)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyops::key::Raw;

    #[test]
    fn a_key_is_known_again_from_one_piece_and_from_no_part_of_it() {
        let public = Public::Raw(Raw::Ed25519, vec![7; 32]);
        let privates = [
            Private::None,
            Private::Stored("www".to_owned()),
            Private::Imported(Secret::from(&[9; 48][..])),
            Private::Made(MadeKey::of(KeyToken([3; 16]), Vec::new())),
        ];
        let keys = privates.map(|private| Key::new(public.clone(), private));
        for (place, key) in keys.iter().enumerate() {
            let flat = key.to_flat().unwrap();
            let again = Key::from_flat(&flat).unwrap();
            let same: Vec<usize> = (0..keys.len()).filter(|other| keys[*other].is(&again)).collect();
            assert_eq!(same, [place]);
            assert!((0..flat.len()).all(|len| Key::from_flat(&flat[..len]).is_err()));
        }
        let other = Key::new(Public::Raw(Raw::Ed25519, vec![8; 32]), Private::Stored("www".to_owned()));
        assert!(!other.is(&keys[1]), "another public part");
    }
}
