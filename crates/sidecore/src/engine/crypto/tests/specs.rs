//! Specs: over the wire and malformed.

use proptest::prelude::*;

use super::super::{Cipher, DecryptionPadding, Hash, SaltLength, SignaturePadding};
use super::*;

const RSA_1024: &[u8] = include_bytes!("../keys/test-rsa-1024.pkcs8.der");
const P_256: &[u8] = include_bytes!("../keys/test-p-256.pkcs8.der");
const PKCS1: Scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };

fn refused(scheme: Scheme, key: KeyMaterial) -> String {
    let error = Session::open(&SessionSpec { scheme, key }).expect_err("a bad spec");
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
    assert!(refused(Scheme::Hmac(Hash::Sha256), symmetric(&[])).contains("bytes: give one of"));
    assert!(refused(Scheme::X25519, private(&[1; 31])).contains("bytes: give one of"));
    assert!(refused(Scheme::MlKem768, private(&[1; 32])).contains("bytes: give one of"));
    assert!(refused(Scheme::MlKem768, KeyMaterial::Public(vec![1; 32])).contains("bytes: give one of"));
}

#[test]
fn xts_keys_differ() {
    for (cipher, len) in [(Cipher::Aes128Xts, 32), (Cipher::Aes256Xts, 64)] {
        assert!(refused(Scheme::Cipher(cipher), symmetric(&vec![1; len])).contains("halves of the XTS key are equal"));
    }
}

#[test]
fn the_kind_of_key_fits_the_scheme() {
    let pkcs1 = Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 };
    let spki = include_bytes!("../keys/test-rsa-2048.spki.der");
    let cases = [
        (Scheme::Noop, symmetric(&[1])),
        (Scheme::Digest(Hash::Sha256), symmetric(&[1])),
        (Scheme::Cipher(Cipher::Aes128Gcm), private(&[1; 16])),
        (Scheme::Hmac(Hash::Sha256), KeyMaterial::None),
        (PKCS1, symmetric(RSA_1024)),
        (pkcs1, KeyMaterial::Public(spki.to_vec())),
        (Scheme::Ecdsa { hash: Hash::Sha256 }, KeyMaterial::None),
        (Scheme::Ed25519, KeyMaterial::None),
        (Scheme::X25519, KeyMaterial::Public(vec![1; 32])),
        (Scheme::MlKem768, KeyMaterial::None),
        (Scheme::MlDsa65, KeyMaterial::None),
    ];
    for (scheme, key) in cases {
        assert!(refused(scheme, key).starts_with("this scheme takes another kind of key"));
    }
}

#[test]
fn malformed_keys_are_named() {
    let schemes = [PKCS1, Scheme::Ecdsa { hash: Hash::Sha256 }, Scheme::Ed25519, Scheme::MlDsa65];
    for scheme in schemes {
        for key in [private(b"junk"), KeyMaterial::Public(b"junk".to_vec())] {
            assert!(refused(scheme.clone(), key).starts_with("the key cannot be read"));
        }
    }
    assert!(refused(PKCS1, private(P_256)).starts_with("the key cannot be read"));
    let trailing = [RSA_1024, &[0]].concat();
    assert!(refused(PKCS1, private(&trailing)).starts_with("the key cannot be read"));
    let modulus_overflow = KeyMaterial::Public(vec![0xff; 1184]);
    assert!(refused(Scheme::MlKem768, modulus_overflow).starts_with("the key cannot be read"));
}

#[test]
fn sha1_serves_oaep_and_mask_generation_only() {
    let expected = "Sha1 is not supported here: use Sha256, Sha384 or Sha512";
    assert_eq!(refused(Scheme::Digest(Hash::Sha1), KeyMaterial::None), expected);
    assert_eq!(refused(Scheme::Hmac(Hash::Sha1), symmetric(&[1])), expected);
    assert_eq!(refused(Scheme::Ecdsa { hash: Hash::Sha1 }, private(P_256)), expected);
    let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha1 };
    assert_eq!(refused(scheme, private(RSA_1024)), expected);
}

#[test]
fn padding_that_does_not_fit_the_modulus_is_named() {
    let padding = SignaturePadding::Pss { mgf1: Hash::Sha512, salt: SaltLength::Digest };
    let error = refused(Scheme::RsaSignature { padding, hash: Hash::Sha512 }, private(RSA_1024));
    assert!(error.contains("need a modulus of 130 bytes, the key has 128:"), "{error}");
    let padding = DecryptionPadding::Oaep { hash: Hash::Sha512, mgf1: Hash::Sha1, label: Vec::new() };
    let error = refused(Scheme::RsaDecryption { padding }, private(RSA_1024));
    assert!(error.contains("need a modulus of 130 bytes, the key has 128:"), "{error}");
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
    assert!(refused(scheme(1025), private(RSA_1024)).starts_with("the label has 1025 bytes: use up to 1024"));
}

#[test]
fn other_sizes_and_curves_are_named() {
    let rsa = private(include_bytes!("../keys/test-rsa-1536.pkcs8.der"));
    assert!(refused(PKCS1, rsa).starts_with("RSA keys of 1536 bits are not supported"));
    let ec = private(include_bytes!("../keys/test-p-521.pkcs8.der"));
    assert!(refused(Scheme::Ecdsa { hash: Hash::Sha256 }, ec).contains("curve is not supported"));
}
