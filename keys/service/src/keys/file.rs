//! Private keys in the files that other programs write, recognised by content: PEM, DER, PKCS#12.

use super::error::KeyFileError;
use super::public::read_public_key;
use crate::ffi::pkey::PKey;
use crate::ffi::{keyfile, pkey};
use crate::spec::Secret;
use der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef};
use der::{Decode, Sequence, SliceReader, Tag, Tagged};
use sidecore_client::keys::Kind;
use sidecore_client::keys::pem::{all_blocks, first_block};
use std::ffi::CStr;
use zeroize::Zeroizing;

/// Largest file that is read, bytes.
pub const MAX_KEY_FILE: usize = 1 << 20;

/// The first private key of a file, as PKCS#8 in DER.
///
/// # Errors
/// There is no private key, or the file is encrypted and the passphrase is missing or wrong.
pub fn read_private_key(file: &[u8], passphrase: Option<&Secret>) -> Result<Secret, KeyFileError> {
    let passphrase = passphrase.map(Secret::expose);
    let key = if is_pem(file) { from_pem(file, passphrase) } else { from_der(file, passphrase) };
    let key = key?;
    key.to_pkcs8().ok_or(if key.id() == pkey::RSA_PSS { KeyFileError::OnlyPss } else { KeyFileError::NoSeed })
}

fn is_pem(file: &[u8]) -> bool {
    file.windows(11).any(|window| window == b"-----BEGIN ")
}

fn from_pem(file: &[u8], passphrase: Option<&[u8]>) -> Result<PKey, KeyFileError> {
    match keyfile::pem(&all_blocks(file), passphrase) {
        (Some(key), _) => Ok(key),
        (None, true) if passphrase.is_none() => Err(KeyFileError::NeedsPassphrase),
        (None, true) => Err(KeyFileError::WrongPassphrase),
        (None, false) => {
            let block = first_block(file, |_| true).ok_or(KeyFileError::NoPrivateKey)?;
            let (_, body) = der::pem::decode_vec(&block).map_err(|_| KeyFileError::NoPrivateKey)?;
            ml_kem_with_both(&Zeroizing::new(body)).ok_or(if read_public_key(file).is_ok() {
                KeyFileError::NotPrivate
            } else {
                KeyFileError::NoPrivateKey
            })
        }
    }
}

fn from_der(file: &[u8], passphrase: Option<&[u8]>) -> Result<PKey, KeyFileError> {
    if let Some(key) = keyfile::der(file).or_else(|| ml_kem_with_both(file)) {
        return Ok(key);
    }
    // Archives without a passphrase have an empty one.
    let text = Zeroizing::new([passphrase.unwrap_or_default(), &[0]].concat());
    let archive = CStr::from_bytes_with_nul(&text).ok().and_then(|text| keyfile::pkcs12(file, text));
    let key = archive.or_else(|| keyfile::encrypted(file, passphrase?));
    key.ok_or_else(|| match (is_encrypted(file), passphrase) {
        (false, _) => KeyFileError::NoPrivateKey,
        (true, None) => KeyFileError::NeedsPassphrase,
        (true, Some(_)) => KeyFileError::WrongPassphrase,
    })
}

/// Whether it begins like PKCS#12 (a sequence with the number 3) or encrypted PKCS#8 (a sequence of a sequence and
/// bytes).
fn is_encrypted(file: &[u8]) -> bool {
    let begins = || -> der::Result<bool> {
        let mut reader = SliceReader::new(file)?;
        der::Header::decode(&mut reader)?.tag().assert_eq(Tag::Sequence)?;
        let first = AnyRef::decode(&mut reader)?;
        let second = der::Header::decode(&mut reader)?.tag();
        Ok(first.tag() == Tag::Integer && first.value() == [3]
            || first.tag() == Tag::Sequence && second == Tag::OctetString)
    };
    begins().unwrap_or(false)
}

#[derive(Sequence)]
struct PrivateKeyInfo<'a> {
    version: u8,
    algorithm: Algorithm,
    key: &'a OctetStringRef,
}

#[derive(Sequence)]
struct Algorithm {
    oid: ObjectIdentifier,
}

/// RFC 9935's form with both the seed and the expanded key.
#[derive(Sequence)]
struct Both<'a> {
    seed: &'a OctetStringRef,
    expanded: &'a OctetStringRef,
}

const ML_KEM_768: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.4.2");

fn ml_kem_with_both(pkcs8: &[u8]) -> Option<PKey> {
    let info = PrivateKeyInfo::from_der(pkcs8).ok().filter(|info| info.version == 0)?;
    let both = Both::from_der(info.key.as_bytes()).ok().filter(|_| info.algorithm.oid == ML_KEM_768)?;
    let seed = Some(both.seed.as_bytes()).filter(|seed| seed.len() == pkey::SEED_LEN)?;
    let key = PKey::raw_private(Kind::MlKem768, seed)?;
    (key.to_raw_private()?.expose() == both.expanded.as_bytes()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!("test-files/", $name)) as &[u8]
        };
    }

    const P256: &[u8] = include_bytes!("../engine/crypto/keys/test-p-256.spki.der");
    const RSA: &[u8] = include_bytes!("../engine/crypto/keys/test-rsa-2048.spki.der");
    const ENCRYPTED: [&[u8]; 5] = [
        file!("p-256.encrypted.pem"),
        file!("p-256.encrypted-3des.der"),
        file!("p-256.sec1-encrypted.pem"),
        file!("p-256.p12"),
        file!("p-256.legacy.p12"),
    ];

    fn public(file: &[u8], passphrase: Option<&[u8]>) -> Result<Vec<u8>, KeyFileError> {
        let pkcs8 = read_private_key(file, passphrase.map(Secret::from).as_ref())?;
        Ok(PKey::private(pkcs8.expose()).unwrap().to_spki().unwrap())
    }

    #[test]
    fn what_other_programs_write_is_read() {
        let cases: [(&[u8], &[u8]); 13] = [
            (include_bytes!("../engine/crypto/keys/test-p-256.pkcs8.der"), P256),
            (file!("p-256.pkcs8.pem"), P256),
            (file!("p-256.bundle.pem"), P256),
            (file!("p-256.sec1.pem"), P256),
            (file!("p-256.sec1.der"), P256),
            (file!("p-256.no-passphrase.p12"), P256),
            (include_bytes!("../engine/crypto/keys/test-rsa-2048.pkcs8.der"), RSA),
            (file!("rsa-2048.pkcs1.pem"), RSA),
            (file!("rsa-2048.pkcs1.der"), RSA),
            (file!("x25519.pem"), file!("x25519.spki.der")),
            (file!("ml-dsa-65.pem"), file!("ml-dsa-65.spki.der")),
            (file!("ml-kem-768.pem"), file!("ml-kem-768.spki.der")),
            (file!("p-256.compressed.pem"), P256),
        ];
        for (number, (file, expected)) in cases.into_iter().enumerate() {
            assert_eq!(public(file, None).as_deref(), Ok(expected), "case {number}");
            // A superfluous passphrase does no harm.
            if number != 5 {
                assert_eq!(public(file, Some(b"sesame")).as_deref(), Ok(expected), "case {number}");
            }
        }
    }

    #[test]
    fn what_is_encrypted_takes_its_passphrase() {
        for (number, file) in ENCRYPTED.into_iter().enumerate() {
            assert_eq!(public(file, Some(b"sesame")).as_deref(), Ok(P256), "case {number}");
            assert_eq!(public(file, None), Err(KeyFileError::NeedsPassphrase), "case {number}");
            for wrong in [&b"simsim"[..], b"", b"a\0b", &[b'x'; 2000]] {
                assert_eq!(public(file, Some(wrong)), Err(KeyFileError::WrongPassphrase), "case {number}");
            }
        }
    }

    #[test]
    fn what_is_encrypted_in_another_way_is_told_with_a_remedy() {
        let said = public(file!("p-256.encrypted-scrypt.der"), Some(b"sesame")).unwrap_err();
        assert!(said.to_string().contains("decrypt it first"), "{said}");
    }

    #[test]
    fn a_key_that_is_restricted_to_pss_is_told_by_what_it_is() {
        assert_eq!(public(file!("rsa-pss-2048.pem"), None), Err(KeyFileError::OnlyPss));
    }

    #[test]
    fn what_is_no_key_is_told() {
        let cut = &P256[..P256.len() - 1];
        for file in [&b""[..], b"-----BEGIN CERTIFICATE-----", b"\x30\x00", P256, cut, &(file!("p-256.sec1.der"))[1..]]
        {
            assert_eq!(public(file, None), Err(KeyFileError::NoPrivateKey));
        }
        let mut tail = file!("p-256.sec1.der").to_vec();
        tail.push(0);
        assert_eq!(public(&tail, None), Err(KeyFileError::NoPrivateKey));
    }

    #[test]
    fn a_seed_that_does_not_make_the_key_is_refused() {
        let (_, mut both) = der::pem::decode_vec(file!("ml-kem-768.pem")).unwrap();
        assert!(read_private_key(&both, None).is_ok());
        let last = both.len() - 1;
        both[last] ^= 1;
        assert_eq!(public(&both, None), Err(KeyFileError::NoPrivateKey));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = public(&bytes, None);
            let _ = public(&bytes, Some(b"sesame"));
            let _ = public(&[b"-----BEGIN PRIVATE KEY-----\n", &bytes[..]].concat(), Some(b"sesame"));
        }

        #[test]
        fn a_changed_file_is_a_key_or_an_error(which in 0..ENCRYPTED.len(), at: prop::sample::Index, value: u8) {
            // A change of a derivation's costly parameters would turn this into a test of the derivation.
            let mut file = ENCRYPTED[which].to_vec();
            let at = file.len() / 2 + at.index(file.len() / 2);
            file[at] = value;
            let _ = public(&file, None);
        }
    }
}
