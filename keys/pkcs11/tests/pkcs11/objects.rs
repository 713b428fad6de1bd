//! Objects: attributes, certificates, pairs and objects of the program's own.

use crate::common::Site;
use crate::ffi::{Error, Module, Object, Session, attribute, call, mechanism};
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_FALSE, CK_MECHANISM_TYPE, CK_SLOT_ID, CK_TRUE, CK_ULONG, CK_UNAVAILABLE_INFORMATION,
    CKA_ALWAYS_AUTHENTICATE, CKA_CLASS, CKA_COEFFICIENT, CKA_EC_PARAMS, CKA_EC_POINT, CKA_EXPONENT_1, CKA_EXPONENT_2,
    CKA_EXTRACTABLE, CKA_ID, CKA_ISSUER, CKA_KEY_TYPE, CKA_LABEL, CKA_LOCAL, CKA_MODIFIABLE, CKA_MODULUS_BITS,
    CKA_NEVER_EXTRACTABLE, CKA_PRIME_1, CKA_PRIME_2, CKA_PRIVATE, CKA_PRIVATE_EXPONENT, CKA_PUBLIC_KEY_INFO,
    CKA_SENSITIVE, CKA_SIGN, CKA_SUBJECT, CKA_TOKEN, CKA_VALUE, CKK_EC, CKM_EC_KEY_PAIR_GEN, CKM_ECDSA,
    CKM_ECDSA_SHA256, CKM_RSA_PKCS_KEY_PAIR_GEN, CKO_CERTIFICATE, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY,
    CKR_ACTION_PROHIBITED, CKR_ARGUMENTS_BAD, CKR_ATTRIBUTE_READ_ONLY, CKR_ATTRIBUTE_SENSITIVE,
    CKR_ATTRIBUTE_VALUE_INVALID, CKR_BUFFER_TOO_SMALL, CKR_CURVE_NOT_SUPPORTED, CKR_FUNCTION_FAILED,
    CKR_KEY_HANDLE_INVALID, CKR_KEY_SIZE_RANGE, CKR_MECHANISM_INVALID, CKR_OBJECT_HANDLE_INVALID,
    CKR_TEMPLATE_INCOMPLETE, CKR_TEMPLATE_INCONSISTENT, CKR_TOKEN_WRITE_PROTECTED,
};
use std::fs;
use std::ptr;

pub(crate) fn number(value: CK_ULONG) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

#[test]
fn no_attribute_shows_a_private_part() {
    let site = Site::with(&["rsa2048", "p256", "ed25519"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let secret = [CKA_PRIVATE_EXPONENT, CKA_PRIME_1, CKA_PRIME_2, CKA_EXPONENT_1, CKA_EXPONENT_2, CKA_COEFFICIENT];
    for name in ["rsa2048", "p256", "ed25519"] {
        let key = module.private(session, name);
        for kind in secret.into_iter().chain([CKA_VALUE]) {
            assert_eq!(module.value(session, key, kind), Err(CKR_ATTRIBUTE_SENSITIVE), "{name} {kind}");
        }
        let flag = |kind| module.value(session, key, kind).unwrap()[0] == CK_TRUE;
        assert!(flag(CKA_SENSITIVE) && flag(CKA_PRIVATE) && flag(CKA_SIGN) && flag(CKA_TOKEN));
        assert!(!flag(CKA_EXTRACTABLE) && !flag(CKA_MODIFIABLE) && !flag(CKA_ALWAYS_AUTHENTICATE));
        assert_eq!(call!(module, C_DestroyObject(session, key)), Err(CKR_ACTION_PROHIBITED));
        let mut label = b"other".to_vec();
        let set = call!(module, C_SetAttributeValue(session, key, &mut attribute(CKA_LABEL, &mut label), 1));
        assert_eq!(set, Err(CKR_ACTION_PROHIBITED));
    }
}

#[test]
fn all_attributes_of_one_question_are_answered_and_the_error_is_reported() {
    let site = Site::with(&["p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let key = module.private(session, "p256");
    let (mut label, mut short, mut id) = ([0; 16], [0; 1], [0; 64]);
    let mut asked = [
        attribute(CKA_LABEL, &mut label),
        attribute(CKA_VALUE, &mut short),
        attribute(CKA_EC_POINT, &mut short),
        attribute(0x8000_0001, &mut short),
        attribute(CKA_ID, &mut id),
    ];
    let rv = call!(module, C_GetAttributeValue(session, key, asked.as_mut_ptr(), 5));
    assert_eq!(rv, Err(CKR_ATTRIBUTE_SENSITIVE));
    let none = CK_UNAVAILABLE_INFORMATION;
    assert_eq!(asked.map(|attribute| attribute.ulValueLen), [4, none, none, none, 20]);
    assert_eq!(&label[..4], b"p256");
    assert_eq!(module.value(session, key, CKA_EC_POINT).unwrap()[..3], [4, 65, 4]);
    assert_eq!(call!(module, C_GetAttributeValue(session, key, ptr::null_mut(), 1)), Err(CKR_ARGUMENTS_BAD));
    assert_eq!(call!(module, C_GetAttributeValue(session, key, asked.as_mut_ptr(), 1 << 40)), Err(CKR_ARGUMENTS_BAD));
}

#[test]
fn a_certificate_has_its_keys_identifier_and_its_issuer_another() {
    let site = Site::with(&["rsa2048", "p256"]);
    site.certify("rsa2048");
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (key, public) = (module.private(session, "rsa2048"), module.public(session, "rsa2048"));
    let own = module.find(session, CKO_CERTIFICATE, "rsa2048").unwrap()[0];
    let issuer = module.find(session, CKO_CERTIFICATE, "rsa2048 issuer 1").unwrap()[0];
    let id = |object| module.value(session, object, CKA_ID).unwrap();
    assert!(id(own) == id(key) && id(own) == id(public) && id(own) != id(issuer));
    let value = |object, kind| module.value(session, object, kind).unwrap();
    assert_eq!(value(own, CKA_VALUE), fs::read(site.path("rsa2048.crt.der")).unwrap());
    assert_eq!(value(issuer, CKA_VALUE), fs::read(site.path("ca.crt.der")).unwrap());
    assert_eq!(value(own, CKA_ISSUER), value(issuer, CKA_SUBJECT));
    assert_eq!(value(own, CKA_SUBJECT), value(key, CKA_SUBJECT));
    assert_eq!(value(own, CKA_PUBLIC_KEY_INFO), value(public, CKA_PUBLIC_KEY_INFO));
    assert_eq!(module.value(session, module.private(session, "p256"), CKA_SUBJECT), Ok(Vec::new()));
}

#[test]
fn settings_choose_the_keys_that_are_shown() {
    let site = Site::with(&["rsa2048", "p256", "ed25519", "mldsa65"]);
    for (settings, shown) in
        [("", 2), ("families=+edwards", 3), ("families=+edwards,+pq", 4), ("families=rsa", 1), ("keys=p256,mldsa65", 1)]
    {
        let module = Module::load(&site);
        module.begin_with(&site, settings).unwrap();
        let session = module.open().unwrap();
        assert_eq!(module.find(session, CKO_PRIVATE_KEY, "").unwrap().len(), shown, "{settings}");
        module.finalize().unwrap();
    }
}

/// Makes a pair; with a curve's parameters, if there are any.
pub(crate) fn pair(
    module: &Module,
    session: Session,
    kind: CK_MECHANISM_TYPE,
    of_public: &mut [CK_ATTRIBUTE],
    of_private: &mut [CK_ATTRIBUTE],
) -> Result<(Object, Object), Error> {
    let (mut public, mut private) = (0, 0);
    let (public_at, public_len) = (of_public.as_mut_ptr(), of_public.len() as CK_ULONG);
    let (private_at, private_len) = (of_private.as_mut_ptr(), of_private.len() as CK_ULONG);
    let mut how = mechanism(kind);
    let how = &raw mut how;
    let (public_out, private_out) = (&raw mut public, &raw mut private);
    let made = call!(
        module,
        C_GenerateKeyPair(session, how, public_at, public_len, private_at, private_len, public_out, private_out)
    );
    made.map(|()| (public, private))
}

pub(crate) const P256: [u8; 10] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

#[test]
fn a_pair_of_the_program_signs_until_its_session_ends() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let (session, other) = (module.open().unwrap(), module.open().unwrap());
    let (mut curve, mut label) = (P256, *b"mine");
    let mut of_public = [attribute(CKA_EC_PARAMS, &mut curve), attribute(CKA_LABEL, &mut label)];
    let mut label = *b"mine";
    let mut of_private = [attribute(CKA_LABEL, &mut label)];
    let made = pair(&module, session, CKM_EC_KEY_PAIR_GEN, &mut of_public, &mut of_private);
    let (public, private) = made.unwrap();
    assert_eq!((module.private(other, "mine"), module.public(other, "mine")), (private, public));
    let signature = module.sign(other, CKM_ECDSA_SHA256, private, b"message").unwrap();
    module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
    let flag = |kind| module.value(session, private, kind).unwrap()[0] == CK_TRUE;
    assert!(flag(CKA_LOCAL) && flag(CKA_NEVER_EXTRACTABLE) && !flag(CKA_TOKEN));
    assert_eq!(module.value(session, private, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    let mut label = *b"renamed";
    call!(module, C_SetAttributeValue(session, private, &mut attribute(CKA_LABEL, &mut label), 1)).unwrap();
    assert_eq!(module.private(other, "renamed"), private);
    let (mut id, mut own, no) = ([7; 20], [CK_TRUE], [CK_FALSE]);
    call!(module, C_SetAttributeValue(other, private, &mut attribute(CKA_ID, &mut id), 1)).unwrap();
    assert_eq!((module.value(session, private, CKA_ID), module.private(other, "renamed")), (Ok(id.to_vec()), private));
    let mut same = attribute(CKA_SENSITIVE, &mut own);
    call!(module, C_SetAttributeValue(other, private, &raw mut same, 1)).unwrap();
    for (kind, value) in [(CKA_SENSITIVE, no), (CKA_SIGN, no), (CKA_EXTRACTABLE, own)] {
        let mut value = value;
        let set = call!(module, C_SetAttributeValue(other, private, &mut attribute(kind, &mut value), 1));
        assert_eq!(set, Err(CKR_ATTRIBUTE_READ_ONLY), "{kind:#x}");
    }
    let token = call!(module, C_SetAttributeValue(other, private, &mut attribute(CKA_TOKEN, &mut own), 1));
    assert_eq!(token, Err(CKR_ATTRIBUTE_READ_ONLY), "a copy is stored, the object stays");
    let mut long = vec![b'x'; 1025];
    let set = call!(module, C_SetAttributeValue(other, private, &mut attribute(CKA_LABEL, &mut long), 1));
    assert_eq!(set, Err(CKR_ATTRIBUTE_VALUE_INVALID));
    module.close(session).unwrap();
    assert_eq!(module.sign(other, CKM_ECDSA_SHA256, private, b"message"), Err(CKR_KEY_HANDLE_INVALID));
    assert_eq!(module.find(other, CKO_PRIVATE_KEY, "renamed"), Ok(Vec::new()));
}

#[test]
fn pairs_that_cannot_be_made_say_why() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let make = |kind, of_public: &mut [CK_ATTRIBUTE], of_private: &mut [CK_ATTRIBUTE]| {
        pair(&module, session, kind, of_public, of_private).map(|_| ())
    };
    let (mut bits, mut yes, mut curve, mut wrong) = (number(1024), [CK_TRUE], P256, [6, 1, 1]);
    let rsa = CKM_RSA_PKCS_KEY_PAIR_GEN;
    assert_eq!(make(rsa, &mut [], &mut []), Err(CKR_TEMPLATE_INCOMPLETE));
    assert_eq!(make(rsa, &mut [attribute(CKA_MODULUS_BITS, &mut bits)], &mut []), Err(CKR_KEY_SIZE_RANGE));
    let short = make(rsa, &mut [attribute(CKA_MODULUS_BITS, &mut bits[..3])], &mut []);
    assert_eq!(short, Err(CKR_ATTRIBUTE_VALUE_INVALID));
    let ec = CKM_EC_KEY_PAIR_GEN;
    assert_eq!(make(ec, &mut [attribute(CKA_EC_PARAMS, &mut wrong)], &mut []), Err(CKR_CURVE_NOT_SUPPORTED));
    let mut of_private = [attribute(CKA_EXTRACTABLE, &mut yes)];
    let extractable = make(ec, &mut [attribute(CKA_EC_PARAMS, &mut curve)], &mut of_private);
    assert_eq!(extractable, Err(CKR_TEMPLATE_INCONSISTENT));
    assert_eq!(make(CKM_ECDSA, &mut [], &mut []), Err(CKR_MECHANISM_INVALID));
}

#[test]
fn an_administrator_makes_a_stored_pair() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (mut curve, mut label, mut yes) = (P256, *b"stored", [CK_TRUE]);
    let mut of_private = [attribute(CKA_TOKEN, &mut yes), attribute(CKA_LABEL, &mut label)];
    let mut of_public = [attribute(CKA_EC_PARAMS, &mut curve)];
    let made = pair(&module, session, CKM_EC_KEY_PAIR_GEN, &mut of_public, &mut of_private);
    let (public, private) = made.unwrap();
    module.close(session).unwrap();
    let session = module.open().unwrap();
    assert_eq!((module.private(session, "stored"), module.public(session, "stored")), (private, public));
    module.sign(session, CKM_ECDSA_SHA256, private, b"message").unwrap();
    assert!(site.admin().key_info("stored").is_ok());
    let again = pair(&module, session, CKM_EC_KEY_PAIR_GEN, &mut of_public, &mut of_private);
    assert!(again.is_err(), "the name is taken");
}

#[test]
fn certificates_and_public_keys_are_created_and_private_ones_are_not() {
    let site = Site::with(&["p256"]);
    site.certify("p256");
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let create = |template: &mut [CK_ATTRIBUTE]| module.create(session, template);
    let key = module.private(session, "p256");
    let value = |kind| module.value(session, key, kind).unwrap();
    let (mut point, mut params, mut yes) = (value(CKA_EC_POINT), value(CKA_EC_PARAMS), [CK_TRUE]);
    let (mut public, mut private, mut ec) = (number(CKO_PUBLIC_KEY), number(CKO_PRIVATE_KEY), number(CKK_EC));
    let kind = attribute(CKA_KEY_TYPE, &mut ec);
    let class = attribute(CKA_CLASS, &mut public);
    let mut parts = [class, kind, attribute(CKA_EC_PARAMS, &mut params), attribute(CKA_EC_POINT, &mut point)];
    let made = create(&mut parts).unwrap();
    let signature = module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
    module.verify(session, CKM_ECDSA_SHA256, made, [b"message", &signature]).unwrap();
    assert_eq!(create(&mut [&parts[..], &[attribute(CKA_TOKEN, &mut yes)]].concat()), Err(CKR_TOKEN_WRITE_PROTECTED));
    parts[0] = attribute(CKA_CLASS, &mut private);
    assert_eq!(create(&mut parts), Err(CKR_TOKEN_WRITE_PROTECTED));
    point[40] ^= 1;
    parts[0] = class;
    assert_eq!(create(&mut parts), Err(CKR_ATTRIBUTE_VALUE_INVALID), "not on the curve");
    let (mut class, mut der) = (number(CKO_CERTIFICATE), fs::read(site.path("ca.crt.der")).unwrap());
    let made = create(&mut [attribute(CKA_CLASS, &mut class), attribute(CKA_VALUE, &mut der)]).unwrap();
    assert_eq!(module.value(session, made, CKA_VALUE).as_ref(), Ok(&der));
    call!(module, C_DestroyObject(session, made)).unwrap();
    assert_eq!(call!(module, C_DestroyObject(session, made)), Err(CKR_OBJECT_HANDLE_INVALID));
    for len in 0..der.len().min(200) {
        let short = create(&mut [attribute(CKA_CLASS, &mut class), attribute(CKA_VALUE, &mut der[..len])]);
        assert!(short.is_err(), "{len}");
    }
}

#[test]
fn tables_of_both_versions_are_found_by_name() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let slots = |list: *mut CK_SLOT_ID, count: &mut CK_ULONG| call!(module, C_GetSlotList(CK_TRUE, list, count));
    let mut count = 0;
    slots(ptr::null_mut(), &mut count).unwrap();
    assert_eq!(count, 1);
    count = 0;
    assert_eq!(slots([0].as_mut_ptr(), &mut count), Err(CKR_BUFFER_TOO_SMALL));
    let found = module.interfaces(&[(None, None), (Some("PKCS 11"), Some((2, 40))), (Some("PKCS 11"), Some((3, 0)))]);
    assert_eq!(found, [Ok((3, 0)), Ok((2, 40)), Ok((3, 0))]);
    let found = module.interfaces(&[(Some("Vendor"), None), (Some("PKCS 11"), Some((3, 2)))]);
    assert_eq!(found, [Err(CKR_FUNCTION_FAILED), Err(CKR_FUNCTION_FAILED)]);
}
