//! Signatures and decryption: whole and in parts, lengths, parameters.

use crate::common::Site;
use crate::ffi::{Module, Object, Session, call, mechanism};
use cryptoki_sys::{
    CK_MECHANISM, CK_MECHANISM_TYPE, CK_RSA_PKCS_MGF_TYPE, CK_RSA_PKCS_PSS_PARAMS, CK_ULONG, CKG_MGF1_SHA1,
    CKG_MGF1_SHA256, CKM_AES_GCM, CKM_ECDSA, CKM_ECDSA_SHA1, CKM_ECDSA_SHA256, CKM_ECDSA_SHA512, CKM_EDDSA, CKM_ML_DSA,
    CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP, CKM_RSA_PKCS_PSS, CKM_SHA_1, CKM_SHA1_RSA_PKCS, CKM_SHA256,
    CKM_SHA256_RSA_PKCS_PSS, CKM_SHA384, CKM_SHA512, CKM_SHA512_RSA_PKCS, CKM_SHA512_RSA_PKCS_PSS,
    CKR_BUFFER_TOO_SMALL, CKR_DATA_LEN_RANGE, CKR_ENCRYPTED_DATA_LEN_RANGE, CKR_KEY_HANDLE_INVALID,
    CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID, CKR_OPERATION_ACTIVE,
    CKR_OPERATION_NOT_INITIALIZED, CKR_RANDOM_SEED_NOT_SUPPORTED, CKR_SIGNATURE_INVALID, CKR_SIGNATURE_LEN_RANGE,
};
use sidecore::keys::Kind;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::hasher::Hasher;
use std::ptr;

fn signed_in_parts(module: &Module, session: Session, kind: CK_MECHANISM_TYPE, key: Object) -> Vec<u8> {
    call!(module, C_SignInit(session, &mut mechanism(kind), key)).unwrap();
    for part in ["mess", "", "age"] {
        let (at, len) = (part.as_ptr().cast_mut(), part.len() as CK_ULONG);
        call!(module, C_SignUpdate(session, at, len)).unwrap();
    }
    let mut len = 0;
    call!(module, C_SignFinal(session, ptr::null_mut(), &raw mut len)).unwrap();
    let mut signature = vec![0; len as usize];
    len -= 1;
    let too_small = call!(module, C_SignFinal(session, signature.as_mut_ptr(), &raw mut len));
    assert_eq!((too_small, len as usize), (Err(CKR_BUFFER_TOO_SMALL), signature.len()));
    call!(module, C_SignFinal(session, signature.as_mut_ptr(), &raw mut len)).unwrap();
    let again = call!(module, C_SignFinal(session, signature.as_mut_ptr(), &raw mut len));
    assert_eq!(again, Err(CKR_OPERATION_NOT_INITIALIZED));
    signature
}

#[test]
fn whole_messages_and_parts_are_signed_and_only_these_verified() {
    let site = Site::with(&["rsa2048", "p256", "p384", "ed25519", "mldsa65"]);
    let module = Module::load(&site);
    module.begin(&site, "families=+edwards,+pq").unwrap();
    let session = module.open().unwrap();
    for (name, kind, len) in [
        ("rsa2048", CKM_SHA1_RSA_PKCS, 256),
        ("rsa2048", CKM_SHA512_RSA_PKCS, 256),
        ("rsa2048", CKM_RSA_PKCS, 256),
        ("p256", CKM_ECDSA_SHA256, 64),
        ("p256", CKM_ECDSA_SHA512, 64),
        ("p384", CKM_ECDSA_SHA1, 96),
        ("p384", CKM_ECDSA, 96),
        ("ed25519", CKM_EDDSA, 64),
        ("mldsa65", CKM_ML_DSA, 3309),
    ] {
        let (key, public) = (module.private(session, name), module.public(session, name));
        let whole = module.sign(session, kind, key, b"message").unwrap();
        assert_eq!(whole.len(), len, "{name}");
        for signature in [whole, signed_in_parts(&module, session, kind, key)] {
            module.verify(session, kind, public, [b"message", &signature]).unwrap();
            let other = module.verify(session, kind, public, [b"massage", &signature]);
            assert_eq!(other, Err(CKR_SIGNATURE_INVALID), "{name}");
            let short = module.verify(session, kind, public, [b"message", &signature[1..]]);
            assert_eq!(short, Err(CKR_SIGNATURE_LEN_RANGE), "{name}");
        }
        assert_eq!(module.sign(session, kind, public, b"message"), Err(CKR_KEY_TYPE_INCONSISTENT));
    }
}

#[test]
fn a_hashed_mechanism_signs_what_the_raw_one_signs_of_the_digest() {
    let site = Site::with(&["p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (key, public) = (module.private(session, "p256"), module.public(session, "p256"));
    let mut hasher = Hasher::new(Digest::Sha256);
    hasher.update(b"message");
    let signature = module.sign(session, CKM_ECDSA, key, &hasher.finish()).unwrap();
    module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
    for wrong in [&[][..], &[7; 513]] {
        assert_eq!(module.sign(session, CKM_ECDSA, key, wrong), Err(CKR_DATA_LEN_RANGE));
    }
    assert_eq!(module.verify(session, CKM_ECDSA, public, [b"", &signature]), Err(CKR_DATA_LEN_RANGE));
}

#[test]
fn an_ecdsa_signature_is_verified_without_the_zeros_before_both_halves() {
    let site = Site::with(&[]);
    site.generate("p521", Kind::P521);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (key, public) = (module.private(session, "p521"), module.public(session, "p521"));
    let verify = |signature: &[u8]| module.verify(session, CKM_ECDSA_SHA256, public, [b"message", signature]);
    // One in four begins each half with a zero.
    let mut signatures = (0..400).map(|_| module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap());
    let signature = signatures.find(|signature| signature[0] == 0 && signature[66] == 0).unwrap();
    let shorter = [&signature[1..66], &signature[67..]].concat();
    assert_eq!((signature.len(), shorter.len()), (132, 130));
    assert_eq!((verify(&signature), verify(&shorter)), (Ok(()), Ok(())));
    assert_eq!(verify(&[&shorter[..129], &[shorter[129] ^ 1]].concat()), Err(CKR_SIGNATURE_INVALID));
    for len in [0, 1, 131, 133, 134] {
        assert_eq!(verify(&vec![1; len]), Err(CKR_SIGNATURE_LEN_RANGE), "{len}");
    }
}

fn pss(hash: CK_MECHANISM_TYPE, mgf: CK_RSA_PKCS_MGF_TYPE, salt: CK_ULONG) -> CK_RSA_PKCS_PSS_PARAMS {
    CK_RSA_PKCS_PSS_PARAMS { hashAlg: hash, mgf, sLen: salt }
}

#[test]
fn parameters_that_do_not_fit_are_refused_at_the_begin() {
    let site = Site::with(&["rsa2048", "p256", "ed25519"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let [rsa, ec, ed] = ["rsa2048", "p256", "ed25519"].map(|name| module.private(session, name));
    let init = |kind, parameter: &mut [u8], key| {
        let (at, len) = (parameter.as_mut_ptr().cast(), parameter.len() as CK_ULONG);
        let mut how = CK_MECHANISM { mechanism: kind, pParameter: at, ulParameterLen: len };
        call!(module, C_SignInit(session, &raw mut how, key))
    };
    let unfit = Err(CKR_MECHANISM_PARAM_INVALID);
    assert_eq!(init(CKM_RSA_PKCS_PSS, &mut [], rsa), unfit);
    assert_eq!(init(CKM_RSA_PKCS_PSS, &mut [0; 23], rsa), unfit);
    assert_eq!(init(CKM_ECDSA, &mut [0; 8], ec), unfit);
    assert_eq!(init(CKM_ECDSA, &mut [], rsa), Err(CKR_KEY_TYPE_INCONSISTENT));
    assert_eq!(init(CKM_EDDSA, &mut [1; 24], ed), unfit);
    assert_eq!(init(CKM_AES_GCM, &mut [], rsa), Err(CKR_MECHANISM_INVALID));
    assert_eq!(init(CKM_RSA_PKCS_OAEP, &mut [], rsa), Err(CKR_MECHANISM_INVALID));
    assert_eq!(init(CKM_RSA_PKCS, &mut [], 12345), Err(CKR_KEY_HANDLE_INVALID));
    for (kind, mut parameter, expected) in [
        (CKM_SHA256_RSA_PKCS_PSS, pss(CKM_SHA256, CKG_MGF1_SHA256, 32), Ok(())),
        (CKM_SHA256_RSA_PKCS_PSS, pss(CKM_SHA384, CKG_MGF1_SHA256, 32), unfit),
        (CKM_RSA_PKCS_PSS, pss(CKM_SHA_1, CKG_MGF1_SHA1, 20), unfit),
        (CKM_RSA_PKCS_PSS, pss(CKM_SHA256, 99, 32), unfit),
        (CKM_RSA_PKCS_PSS, pss(CKM_SHA256, CKG_MGF1_SHA256, 222), Ok(())),
        (CKM_RSA_PKCS_PSS, pss(CKM_SHA256, CKG_MGF1_SHA256, 223), unfit),
        (CKM_SHA512_RSA_PKCS_PSS, pss(CKM_SHA512, CKG_MGF1_SHA256, 190), Ok(())),
        (CKM_SHA512_RSA_PKCS_PSS, pss(CKM_SHA512, CKG_MGF1_SHA256, 191), unfit),
        (CKM_RSA_PKCS_PSS, pss(CKM_SHA256, CKG_MGF1_SHA256, CK_ULONG::MAX), unfit),
    ] {
        let (at, len) = ((&raw mut parameter).cast(), size_of_val(&parameter) as CK_ULONG);
        let mut how = CK_MECHANISM { mechanism: kind, pParameter: at, ulParameterLen: len };
        assert_eq!(call!(module, C_SignInit(session, &raw mut how, rsa)), expected);
        // A null mechanism ends what was begun.
        call!(module, C_SignInit(session, ptr::null_mut(), 0)).unwrap();
    }
    assert_eq!(init(CKM_RSA_PKCS, &mut [], rsa), Ok(()));
    assert_eq!(init(CKM_RSA_PKCS, &mut [], rsa), Err(CKR_OPERATION_ACTIVE));
}

#[test]
fn what_the_public_object_encrypts_the_private_one_decrypts() {
    let site = Site::with(&["rsa2048"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (key, public) = (module.private(session, "rsa2048"), module.public(session, "rsa2048"));
    let mut how = mechanism(CKM_RSA_PKCS);
    let (mut secret, mut plain) = ([0; 256], [0; 256]);
    call!(module, C_EncryptInit(session, &raw mut how, public)).unwrap();
    let mut len = 256;
    let text = b"secret".as_ptr().cast_mut();
    call!(module, C_Encrypt(session, text, 6, secret.as_mut_ptr(), &raw mut len)).unwrap();
    call!(module, C_DecryptInit(session, &raw mut how, key)).unwrap();
    let mut len = 5;
    let secret_at = secret.as_mut_ptr();
    let too_small = call!(module, C_Decrypt(session, secret_at, 256, plain.as_mut_ptr(), &raw mut len));
    assert_eq!((too_small, len), (Err(CKR_BUFFER_TOO_SMALL), 6));
    call!(module, C_Decrypt(session, secret_at, 256, plain.as_mut_ptr(), &raw mut len)).unwrap();
    assert_eq!(&plain[..len as usize], b"secret");
    for wrong in [0, 1, 255, 257] {
        call!(module, C_DecryptInit(session, &raw mut how, key)).unwrap();
        let mut len = 256;
        let done = call!(module, C_Decrypt(session, [0; 257].as_mut_ptr(), wrong, plain.as_mut_ptr(), &raw mut len));
        assert_eq!(done, Err(CKR_ENCRYPTED_DATA_LEN_RANGE), "{wrong} bytes");
        let ended = call!(module, C_DecryptFinal(session, plain.as_mut_ptr(), &raw mut len));
        assert_eq!(ended, Err(CKR_OPERATION_NOT_INITIALIZED), "an error ends the operation");
    }
    // Bad padding shows nothing: the service answers with random bytes.
    call!(module, C_DecryptInit(session, &raw mut how, key)).unwrap();
    secret[255] ^= 1;
    let mut len = 256;
    call!(module, C_Decrypt(session, secret.as_mut_ptr(), 256, plain.as_mut_ptr(), &raw mut len)).unwrap();
    assert_ne!(&plain[..len as usize], b"secret");
}

#[test]
fn random_bytes_differ() {
    let module = Module::of(&Site::with(&[]));
    let session = module.open().unwrap();
    let mut random = [0; 1000];
    call!(module, C_GenerateRandom(session, random.as_mut_ptr(), 1000)).unwrap();
    assert!(random[..500] != random[500..] && random[990..].iter().any(|byte| *byte != 0));
    assert_eq!(call!(module, C_SeedRandom(session, random.as_mut_ptr(), 1)), Err(CKR_RANDOM_SEED_NOT_SUPPORTED));
}
