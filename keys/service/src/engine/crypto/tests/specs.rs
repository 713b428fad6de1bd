//! Tests of specs: over the wire and malformed.

use proptest::prelude::*;
use sidecore_client::keys::Kind;

use super::super::{Cipher, DecryptionPadding, Hash, SaltLength, SignaturePadding};
use super::*;
use crate::ffi::pkey::{PKey, SEED_LEN};

const RSA_1024: &[u8] = include_bytes!("../keys/test-rsa-1024.pkcs8.der");
const P_256: &[u8] = include_bytes!("../keys/test-p-256.pkcs8.der");
const PKCS1: Scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };

fn refused(scheme: Scheme, key: KeyMaterial) -> String {
    let error = Session::open(&SessionSpec { scheme, key }).expect_err("a bad spec").to_string();
    assert!(error.contains(':'), "{error}: says what to do");
    error
}

#[test]
fn a_secret_is_not_printed() {
    let spec = sample(class("aes-256-gcm"), 0, 1).spec;
    assert!(format!("{spec:?}").contains("Secret(32 bytes)"), "{spec:?}");
    assert!(format!("{:?}", Session::open(&spec)).contains("Aes256Gcm"));
}

#[test]
fn specs_survive_the_wire() {
    for class in Class::all() {
        let spec = sample(class, 16, 1).spec;
        let bytes = postcard::to_stdvec(&spec).expect("encodes");
        assert_eq!(postcard::from_bytes::<SessionSpec>(&bytes), Ok(spec));
    }
}

proptest! {
    #[test]
    fn bytes_from_the_wire_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(spec) = postcard::from_bytes::<SessionSpec>(&bytes) {
            let _ = Session::open(&spec);
        }
    }

    #[test]
    fn a_damaged_key_never_panics(at in 0usize..600, byte: u8) {
        let mut key = RSA_1024.to_vec();
        key[at] = byte;
        let _ = Session::open(&SessionSpec { scheme: PKCS1, key: private(&key) });
    }
}

#[test]
fn symmetric_keys_have_one_length() {
    for (cipher, len) in [(Cipher::Aes128Gcm, 16), (Cipher::Aes256Xts, 64), (Cipher::TripleDesCbc, 24)] {
        let error = refused(Scheme::Cipher(cipher), symmetric(&vec![1; len + 1]));
        assert_eq!(error, format!("the key has {} bytes: give one of {len}", len + 1));
    }
    let lengths = |found: usize, len: usize| format!("the key has {found} bytes: give one of {len}");
    assert_eq!(refused(Scheme::Hmac(Hash::Sha256), symmetric(&[])), lengths(0, 32));
    assert_eq!(refused(Scheme::X25519, private(&[1; 31])), lengths(31, 32));
    assert_eq!(refused(Scheme::MlKem768, private(&[1; 32])), lengths(32, 2400));
    assert_eq!(refused(Scheme::MlKem768, KeyMaterial::Public(vec![1; 32])), lengths(32, 1184));
}

#[test]
fn xts_keys_differ() {
    for (cipher, len) in [(Cipher::Aes128Xts, 32), (Cipher::Aes256Xts, 64)] {
        let error = refused(Scheme::Cipher(cipher), symmetric(&vec![1; len]));
        assert_eq!(error, "the two halves of the XTS key are equal: give two independent keys");
    }
}

#[test]
fn the_kind_of_key_fits_the_scheme() {
    let pkcs1 = Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 };
    let spki = include_bytes!("../keys/test-rsa-2048.spki.der");
    let p_256 = include_bytes!("../keys/test-p-256.spki.der");
    let cases = [
        (Scheme::Noop, symmetric(&[1]), "none"),
        (Scheme::Digest(Hash::Sha256), symmetric(&[1]), "none"),
        (Scheme::Cipher(Cipher::Aes128Gcm), private(&[1; 16]), "a symmetric key"),
        (Scheme::Hmac(Hash::Sha256), KeyMaterial::None, "a symmetric key"),
        (PKCS1, symmetric(RSA_1024), "a private or public RSA key"),
        (pkcs1, KeyMaterial::Public(spki.to_vec()), "a private RSA key"),
        (Scheme::Ecdsa { hash: Hash::Sha256 }, KeyMaterial::None, "a private or public EC key"),
        (Scheme::Ecdh, KeyMaterial::Public(p_256.to_vec()), "a private EC key"),
        (Scheme::Ed25519, KeyMaterial::None, "a private or public Ed25519 key"),
        (Scheme::X25519, KeyMaterial::Public(vec![1; 32]), "a private X25519 key"),
        (Scheme::MlKem768, KeyMaterial::None, "an ML-KEM-768 decapsulation or encapsulation key"),
        (Scheme::MlDsa65, KeyMaterial::None, "a private or public ML-DSA-65 key"),
    ];
    for (scheme, key, expected) in cases {
        assert_eq!(refused(scheme, key), format!("this scheme takes another kind of key: give {expected}"));
    }
}

#[test]
fn malformed_keys_are_named() {
    let schemes = [
        (PKCS1, "a PKCS#8 RSA key in DER", "an SPKI RSA key in DER"),
        (Scheme::Ecdsa { hash: Hash::Sha256 }, "a PKCS#8 EC key in DER", "an SPKI EC key in DER"),
        (Scheme::Ed25519, "a PKCS#8 Ed25519 key in DER", "an SPKI Ed25519 key in DER, or 32 bytes"),
        (
            Scheme::MlDsa65,
            "an ML-DSA-65 seed of 32 bytes, a key of 4032, or PKCS#8 in DER",
            "an ML-DSA-65 public key of 1952 bytes, or SPKI in DER",
        ),
    ];
    let unread = |expected: &str| format!("the key cannot be read: give {expected}");
    for (scheme, of_private, of_public) in schemes {
        assert_eq!(refused(scheme.clone(), private(b"junk")), unread(of_private));
        assert_eq!(refused(scheme, KeyMaterial::Public(b"junk".to_vec())), unread(of_public));
    }
    for key in [P_256, &[RSA_1024, &[0]].concat()] {
        assert_eq!(refused(PKCS1, private(key)), unread("a PKCS#8 RSA key in DER"));
    }
}

#[test]
fn ml_kem_keys_whose_parts_do_not_fit_are_named() {
    let fits_not = "the key cannot be read: give an ML-KEM-768 key whose parts fit each other";
    assert_eq!(
        refused(Scheme::MlKem768, KeyMaterial::Public(vec![0xff; 1184])),
        fits_not,
        "numbers beyond the modulus"
    );
    let raw = PKey::raw_private(Kind::MlKem768, &[7; SEED_LEN]).and_then(|key| key.to_raw_private()).expect("a key");
    open(Scheme::MlKem768, private(raw.expose()));
    // FIPS 203 puts the encapsulation key at 1152, its hash at 2336.
    for at in [1152, 2335, 2336, 2367] {
        let mut damaged = raw.expose().to_vec();
        damaged[at] ^= 1;
        assert_eq!(refused(Scheme::MlKem768, private(&damaged)), fits_not, "byte {at}");
    }
}

#[test]
fn sha1_serves_oaep_and_mask_generation_only() {
    for hash in [Hash::Sha1, Hash::Sha224, Hash::Sha512_256] {
        let expected = format!("{hash:?} is not supported here: use Sha256, Sha384 or Sha512");
        assert_eq!(refused(Scheme::Digest(hash), KeyMaterial::None), expected);
        assert_eq!(refused(Scheme::Hmac(hash), symmetric(&[1])), expected);
    }
    let expected = "Sha1 is not supported here: use one of SHA-2";
    assert_eq!(refused(Scheme::Ecdsa { hash: Hash::Sha1 }, private(P_256)), expected);
    let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha1 };
    assert_eq!(refused(scheme, private(RSA_1024)), expected);
}

#[test]
fn padding_that_does_not_fit_the_modulus_is_named() {
    let padding = SignaturePadding::Pss { mgf1: Hash::Sha512, salt: SaltLength::Digest };
    let expected = "this padding and hash need a modulus of 130 bytes, the key has 128: use a larger key, a shorter hash \
                    or a shorter salt";
    assert_eq!(refused(Scheme::RsaSignature { padding, hash: Hash::Sha512 }, private(RSA_1024)), expected);
    let padding = DecryptionPadding::Oaep { hash: Hash::Sha512, mgf1: Hash::Sha1, label: Vec::new() };
    assert_eq!(refused(Scheme::RsaDecryption { padding }, private(RSA_1024)), expected);
}

#[test]
fn a_label_is_limited() {
    let scheme = |bytes| {
        let padding = DecryptionPadding::Oaep { hash: Hash::Sha256, mgf1: Hash::Sha256, label: vec![7; bytes] };
        Scheme::RsaDecryption { padding }
    };
    let open = |bytes| Session::open(&SessionSpec { scheme: scheme(bytes), key: private(RSA_1024) });
    let longest = open(1024).expect("the longest label");
    assert!(longest.heap_bytes() >= open(0).expect("none").heap_bytes() + 1024, "it is charged");
    let error = refused(scheme(1025), private(RSA_1024));
    assert_eq!(error, "the label has 1025 bytes: use up to 1024, such as a digest of it");
}

#[test]
fn other_sizes_and_curves_are_named() {
    let rsa = private(include_bytes!("../keys/test-rsa-1536.pkcs8.der"));
    assert_eq!(
        refused(PKCS1, rsa),
        "RSA keys of 1536 bits are not supported: use 1024, 2048, 3072, 4096, 6144 or 8192"
    );
    let ec = private(include_bytes!("../keys/test-p-224.pkcs8.der"));
    let error = refused(Scheme::Ecdsa { hash: Hash::Sha256 }, ec);
    assert_eq!(error, "the key's curve is not supported: use P-256, P-384 or P-521");
}
