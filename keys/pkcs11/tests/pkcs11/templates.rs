//! Templates, attribute by attribute: what is accepted is what the object then has.

use crate::common::Site;
use crate::ffi::{Error, Module, Object, Session, attribute, call};
use crate::objects::{P256, number, pair};
use cryptoki_sys::*;
use sidecore::keys::{KeyCommand, Usage};
use std::fs;

/// All attributes that PKCS#11 3.2 defines for certificates and keys.
const ATTRIBUTES: [CK_ATTRIBUTE_TYPE; 79] = [
    CKA_CLASS,
    CKA_TOKEN,
    CKA_PRIVATE,
    CKA_LABEL,
    CKA_UNIQUE_ID,
    CKA_APPLICATION,
    CKA_VALUE,
    CKA_OBJECT_ID,
    CKA_CERTIFICATE_TYPE,
    CKA_ISSUER,
    CKA_SERIAL_NUMBER,
    CKA_AC_ISSUER,
    CKA_OWNER,
    CKA_TRUSTED,
    CKA_CERTIFICATE_CATEGORY,
    CKA_JAVA_MIDP_SECURITY_DOMAIN,
    CKA_URL,
    CKA_HASH_OF_SUBJECT_PUBLIC_KEY,
    CKA_HASH_OF_ISSUER_PUBLIC_KEY,
    CKA_NAME_HASH_ALGORITHM,
    CKA_CHECK_VALUE,
    CKA_KEY_TYPE,
    CKA_SUBJECT,
    CKA_ID,
    CKA_SENSITIVE,
    CKA_ENCRYPT,
    CKA_DECRYPT,
    CKA_WRAP,
    CKA_UNWRAP,
    CKA_SIGN,
    CKA_SIGN_RECOVER,
    CKA_VERIFY,
    CKA_VERIFY_RECOVER,
    CKA_DERIVE,
    CKA_START_DATE,
    CKA_END_DATE,
    CKA_MODULUS,
    CKA_MODULUS_BITS,
    CKA_PUBLIC_EXPONENT,
    CKA_PRIVATE_EXPONENT,
    CKA_PRIME_1,
    CKA_PRIME_2,
    CKA_EXPONENT_1,
    CKA_EXPONENT_2,
    CKA_COEFFICIENT,
    CKA_PUBLIC_KEY_INFO,
    CKA_PRIME,
    CKA_SUBPRIME,
    CKA_BASE,
    CKA_PRIME_BITS,
    CKA_VALUE_BITS,
    CKA_VALUE_LEN,
    CKA_EXTRACTABLE,
    CKA_LOCAL,
    CKA_NEVER_EXTRACTABLE,
    CKA_ALWAYS_SENSITIVE,
    CKA_KEY_GEN_MECHANISM,
    CKA_MODIFIABLE,
    CKA_COPYABLE,
    CKA_DESTROYABLE,
    CKA_EC_PARAMS,
    CKA_EC_POINT,
    CKA_ALWAYS_AUTHENTICATE,
    CKA_WRAP_WITH_TRUSTED,
    CKA_WRAP_TEMPLATE,
    CKA_UNWRAP_TEMPLATE,
    CKA_DERIVE_TEMPLATE,
    CKA_ALLOWED_MECHANISMS,
    CKA_PARAMETER_SET,
    CKA_ENCAPSULATE,
    CKA_DECAPSULATE,
    CKA_ENCAPSULATE_TEMPLATE,
    CKA_DECAPSULATE_TEMPLATE,
    CKA_SEED,
    // Of other objects, of a vendor, and none.
    CKA_HW_FEATURE_TYPE,
    CKA_OTP_LENGTH,
    CKA_PROFILE_ID,
    CKA_VENDOR_DEFINED | 7,
    0x0fff_ffff,
];

/// Values of each form, among them some that no attribute may have.
fn values() -> Vec<Vec<u8>> {
    let mechanisms = [CKM_ECDSA_SHA256, CKM_RSA_PKCS].map(CK_ULONG::to_ne_bytes).concat();
    let date = b"20300101".to_vec();
    vec![vec![], vec![CK_FALSE], vec![CK_TRUE], vec![2], vec![1, 0, 1], number(0), number(CKK_EC), mechanisms, date]
}

type Given = (CK_ATTRIBUTE_TYPE, Vec<u8>);

fn template(given: &mut [Given]) -> Vec<CK_ATTRIBUTE> {
    given.iter_mut().map(|(kind, value)| attribute(*kind, value)).collect()
}

/// What makes an object with more attributes than it needs.
type Make<'m> = &'m dyn Fn(&[Given]) -> Result<Object, Error>;

/// Tries each attribute with each value, and with the one that the object has without it.
fn try_all(module: &Module, session: Session, make: Make<'_>, expected: impl Fn(CK_ATTRIBUTE_TYPE, Error) -> bool) {
    let plain = make(&[]).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for kind in ATTRIBUTES {
        let own = module.value(session, plain, kind);
        for value in values().into_iter().chain(own) {
            match make(&[(kind, value.clone())]) {
                Ok(object) => {
                    assert_eq!(
                        module.value(session, object, kind),
                        Ok(value),
                        "{kind:#x} was accepted and not applied"
                    );
                    accepted += 1;
                    if module.value(session, object, CKA_TOKEN) == Ok(vec![CK_FALSE]) {
                        call!(module, C_DestroyObject(session, object)).unwrap();
                    }
                }
                Err(rv) => {
                    assert!(expected(kind, rv), "{kind:#x} = {value:?}: {rv:#x}");
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted >= 20 && refused >= 400, "{accepted} accepted, {refused} refused");
}

fn of_template(_: CK_ATTRIBUTE_TYPE, rv: Error) -> bool {
    let codes = [
        CKR_ATTRIBUTE_TYPE_INVALID,
        CKR_ATTRIBUTE_VALUE_INVALID,
        CKR_ATTRIBUTE_READ_ONLY,
        CKR_TEMPLATE_INCONSISTENT,
        CKR_TEMPLATE_INCOMPLETE,
        CKR_CURVE_NOT_SUPPORTED,
    ];
    codes.contains(&rv)
}

fn ec_pair(module: &Module, session: Session, public: &[Given], private: &[Given]) -> Result<(Object, Object), Error> {
    let is_given = public.iter().any(|(kind, _)| *kind == CKA_EC_PARAMS);
    let curve = (!is_given).then(|| (CKA_EC_PARAMS, P256.to_vec()));
    let (mut public, mut private): (Vec<_>, Vec<_>) = (public.iter().cloned().chain(curve).collect(), private.to_vec());
    pair(module, session, CKM_EC_KEY_PAIR_GEN, &mut template(&mut public), &mut template(&mut private))
}

#[test]
fn what_the_templates_of_a_pair_ask_for_is_what_its_objects_have_or_is_refused() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let keep = |made: Result<(Object, Object), Error>, is_public: bool| {
        let (public, private) = made?;
        let (kept, other) = if is_public { (public, private) } else { (private, public) };
        call!(module, C_DestroyObject(session, other)).unwrap();
        Ok(kept)
    };
    let of_public = |given: &[Given]| keep(ec_pair(&module, session, given, &[]), true);
    try_all(&module, session, &of_public, of_template);
    let of_private = |given: &[Given]| {
        // A token object needs a name, and has a test of its own.
        if given == [(CKA_TOKEN, vec![CK_TRUE])] {
            return Err(CKR_TEMPLATE_INCOMPLETE);
        }
        keep(ec_pair(&module, session, &[], given), false)
    };
    try_all(&module, session, &of_private, of_template);
}

#[test]
fn what_the_templates_of_a_stored_pair_ask_for_is_what_is_stored_or_is_refused() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let stored = |is_public: bool, given: &[Given]| {
        if let Ok(known) = site.admin().key_info("made") {
            site.admin().keys(KeyCommand::Delete { name: known.name }).unwrap();
        }
        let needed = [(CKA_TOKEN, vec![CK_TRUE]), (CKA_LABEL, b"made".to_vec())];
        let is_other = |(kind, _): &&Given| given.iter().all(|(other, _)| other != kind);
        let (more, none) = (given.to_vec(), Vec::new());
        let (public, more) = if is_public { (more, none) } else { (none, more) };
        let private: Vec<_> =
            needed.iter().filter(|needed| is_public || is_other(needed)).cloned().chain(more).collect();
        let (public, private) = ec_pair(&module, session, &public, &private)?;
        Ok(if is_public { public } else { private })
    };
    for is_public in [true, false] {
        let make = |given: &[Given]| match given {
            // Another name, a pair of this process, and no name at all.
            [(CKA_LABEL | CKA_TOKEN, _)] => Err(CKR_TEMPLATE_INCONSISTENT),
            // No identifier is that of the public key.
            [(CKA_ID, id)] if id.is_empty() => Err(CKR_TEMPLATE_INCONSISTENT),
            _ => stored(is_public, given),
        };
        try_all(&module, session, &make, of_template);
    }
}

#[test]
fn what_the_template_of_a_certificate_says_is_what_it_has_or_is_refused() {
    let site = Site::with(&["p256"]);
    site.certificates("p256");
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let der = fs::read(site.path("p256.crt.der")).unwrap();
    for token in [CK_FALSE, CK_TRUE] {
        let make = |given: &[Given]| {
            let needed = [(CKA_CLASS, number(CKO_CERTIFICATE)), (CKA_VALUE, der.clone()), (CKA_TOKEN, vec![token])];
            let is_other = |(kind, _): &Given| given.iter().all(|(other, _)| other != kind);
            let mut all: Vec<_> = needed.into_iter().filter(is_other).chain(given.to_vec()).collect();
            // An empty name is none.
            if token == CK_TRUE && matches!(given, [(CKA_LABEL | CKA_ID, value)] if value.is_empty()) {
                return Err(CKR_TEMPLATE_INCONSISTENT);
            }
            module.create(session, &mut template(&mut all))
        };
        try_all(&module, session, &make, |kind, rv| {
            kind == CKA_CLASS && rv == CKR_TOKEN_WRITE_PROTECTED || of_template(kind, rv)
        });
    }
}

#[test]
fn what_the_template_of_a_public_key_says_is_what_it_has_or_is_refused() {
    let site = Site::with(&["p256", "rsa2048"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    for (name, kind, parts) in
        [("p256", CKK_EC, [CKA_EC_PARAMS, CKA_EC_POINT]), ("rsa2048", CKK_RSA, [CKA_MODULUS, CKA_PUBLIC_EXPONENT])]
    {
        let of = module.public(session, name);
        let parts = parts.map(|part| (part, module.value(session, of, part).unwrap()));
        let make = |given: &[Given]| {
            let needed = [(CKA_CLASS, number(CKO_PUBLIC_KEY)), (CKA_KEY_TYPE, number(kind))];
            let is_other = |(kind, _): &Given| given.iter().all(|(other, _)| other != kind);
            let needed = needed.into_iter().chain(parts.clone()).filter(is_other);
            let mut all: Vec<_> = needed.chain(given.to_vec()).collect();
            module.create(session, &mut template(&mut all))
        };
        try_all(&module, session, &make, |kind, rv| {
            [CKA_CLASS, CKA_TOKEN].contains(&kind) && rv == CKR_TOKEN_WRITE_PROTECTED || of_template(kind, rv)
        });
    }
}

#[test]
fn each_reason_to_refuse_a_template_has_its_own_value() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let yes = || vec![CK_TRUE];
    let rows: [(CK_ATTRIBUTE_TYPE, Vec<u8>, Error); 16] = [
        (CKA_VENDOR_DEFINED | 7, yes(), CKR_ATTRIBUTE_TYPE_INVALID),
        (CKA_OTP_LENGTH, number(6), CKR_ATTRIBUTE_TYPE_INVALID),
        (CKA_SIGN, vec![], CKR_ATTRIBUTE_VALUE_INVALID),
        (CKA_SIGN, vec![2], CKR_ATTRIBUTE_VALUE_INVALID),
        (CKA_SIGN, number(1), CKR_ATTRIBUTE_VALUE_INVALID),
        (CKA_KEY_TYPE, vec![3], CKR_ATTRIBUTE_VALUE_INVALID),
        (CKA_START_DATE, b"tomorrow".to_vec(), CKR_ATTRIBUTE_VALUE_INVALID),
        (CKA_ALLOWED_MECHANISMS, vec![7; 9], CKR_ATTRIBUTE_VALUE_INVALID),
        (CKA_LABEL, vec![0xff], CKR_ATTRIBUTE_VALUE_INVALID),
        (CKA_LOCAL, yes(), CKR_ATTRIBUTE_READ_ONLY),
        (CKA_VALUE, vec![7; 32], CKR_ATTRIBUTE_READ_ONLY),
        (CKA_KEY_TYPE, number(CKK_RSA), CKR_TEMPLATE_INCONSISTENT),
        (CKA_ALWAYS_AUTHENTICATE, yes(), CKR_TEMPLATE_INCONSISTENT),
        (CKA_ALLOWED_MECHANISMS, number(CKM_ECDSA), CKR_TEMPLATE_INCONSISTENT),
        (CKA_MODULUS, vec![7; 256], CKR_TEMPLATE_INCONSISTENT),
        (CKA_DECRYPT, yes(), CKR_TEMPLATE_INCONSISTENT),
    ];
    for (kind, value, expected) in rows {
        let made = ec_pair(&module, session, &[], &[(kind, value.clone())]);
        assert_eq!(made, Err(expected), "{kind:#x} = {value:?}");
    }
    let twice = [(CKA_LABEL, b"a".to_vec()), (CKA_LABEL, b"b".to_vec())];
    assert_eq!(ec_pair(&module, session, &[], &twice), Err(CKR_TEMPLATE_INCONSISTENT));
    let halves = ec_pair(&module, session, &[(CKA_VERIFY, yes())], &[(CKA_SIGN, vec![CK_FALSE])]);
    assert_eq!(halves, Err(CKR_TEMPLATE_INCONSISTENT), "one half verifies what the other never signs");
    let other = ec_pair(&module, session, &[(CKA_TOKEN, yes())], &[]);
    assert_eq!(other, Err(CKR_TEMPLATE_INCONSISTENT), "only the public half in the service");
}

#[test]
fn a_pair_does_what_it_was_made_for_and_nothing_else() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let yes = || vec![CK_TRUE];
    let rsa = CKM_RSA_PKCS_KEY_PAIR_GEN;
    for (name, public, private, usage) in [
        ("any", vec![], vec![], Usage::SIGN.with(Usage::DECRYPT)),
        ("decrypts", vec![], vec![(CKA_DECRYPT, yes())], Usage::DECRYPT),
        ("signs", vec![(CKA_VERIFY, yes())], vec![], Usage::SIGN),
        ("decrypts-not", vec![(CKA_ENCRYPT, vec![CK_FALSE])], vec![], Usage::SIGN),
        ("both", vec![], vec![(CKA_SIGN, yes()), (CKA_DECRYPT, yes())], Usage::SIGN.with(Usage::DECRYPT)),
    ] {
        let session = module.open().unwrap();
        let (bits, id) = ((CKA_MODULUS_BITS, number(2048)), (CKA_ID, name.as_bytes().to_vec()));
        let stored = [(CKA_TOKEN, yes()), (CKA_LABEL, name.as_bytes().to_vec()), id];
        let mut private: Vec<_> = private.into_iter().chain(stored).collect();
        let mut public: Vec<_> = public.into_iter().chain([bits]).collect();
        let made = pair(&module, session, rsa, &mut template(&mut public), &mut template(&mut private));
        let (public, private) = made.unwrap();
        let listed = site.admin().my_key(name).unwrap();
        assert_eq!(listed.usage, usage, "{name}");
        assert_eq!(module.value(session, public, CKA_ID), Ok(name.as_bytes().to_vec()));
        let signed = module.sign(session, CKM_SHA256_RSA_PKCS, private, b"message");
        let permitted = |one| if usage.contains(one) { Ok(()) } else { Err(CKR_KEY_FUNCTION_NOT_PERMITTED) };
        assert_eq!(signed.map(drop), permitted(Usage::SIGN), "{name}");
        let mut how = crate::ffi::mechanism(CKM_RSA_PKCS);
        assert_eq!(call!(module, C_DecryptInit(session, &raw mut how, private)), permitted(Usage::DECRYPT), "{name}");
        assert_eq!(call!(module, C_EncryptInit(session, &raw mut how, public)), permitted(Usage::DECRYPT), "{name}");
        assert_eq!(call!(module, C_VerifyInit(session, &raw mut how, public)), permitted(Usage::SIGN), "{name}");
        call!(module, C_CloseSession(session)).unwrap();
    }
}

#[test]
fn a_pair_that_is_stored_later_keeps_its_usage_and_identifier() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (id, no) = ((CKA_ID, b"chosen".to_vec()), vec![CK_FALSE]);
    let (_, private) = ec_pair(&module, session, &[], &[id.clone(), (CKA_DERIVE, no)]).unwrap();
    let value = |object, kind| module.value(session, object, kind).unwrap();
    assert_eq!(value(private, CKA_KEY_GEN_MECHANISM), number(CKM_EC_KEY_PAIR_GEN));
    let mut stored = [(CKA_TOKEN, vec![CK_TRUE]), (CKA_LABEL, b"kept".to_vec())];
    let kept = module.copy(session, private, &mut template(&mut stored)).unwrap();
    assert_eq!((value(kept, CKA_ID), value(kept, CKA_DERIVE)), (id.1, vec![CK_FALSE]));
    assert_eq!(site.admin().my_key("kept").unwrap().usage, Usage::SIGN);
}

#[test]
fn no_key_is_stored_that_the_settings_would_hide() {
    let site = Site::with(&[]);
    let module = Module::load(&site);
    module.begin_with(&site, "keys=www").unwrap();
    let session = module.open().unwrap();
    let stored = |label: &str| vec![(CKA_TOKEN, vec![CK_TRUE]), (CKA_LABEL, label.as_bytes().to_vec())];
    assert_eq!(ec_pair(&module, session, &[], &stored("api")), Err(CKR_ATTRIBUTE_VALUE_INVALID));
    let edwards = pair(&module, session, CKM_EC_EDWARDS_KEY_PAIR_GEN, &mut [], &mut template(&mut stored("www")));
    assert_eq!(edwards, Err(CKR_MECHANISM_INVALID), "a mechanism that is not in the list");
    assert!(site.admin().my_keys(None).unwrap().unwrap().keys.is_empty());
    ec_pair(&module, session, &[], &stored("www")).unwrap();
}
