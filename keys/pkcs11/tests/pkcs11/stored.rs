//! Keys and certificates that programs store in the service.

use crate::common::{NOBODY, Site, is_root};
use crate::ffi::{Module, Object, Session, attribute, call};
use crate::objects::{P256, number, pair};
use cryptoki_sys::{
    CK_FALSE, CK_TRUE, CKA_CLASS, CKA_EC_PARAMS, CKA_ID, CKA_LABEL, CKA_PUBLIC_KEY_INFO, CKA_SUBJECT, CKA_TOKEN,
    CKA_VALUE, CKM_EC_KEY_PAIR_GEN, CKM_ECDSA_SHA256, CKO_CERTIFICATE, CKO_PRIVATE_KEY, CKR_ACTION_PROHIBITED,
    CKR_ATTRIBUTE_VALUE_INVALID, CKR_DEVICE_MEMORY, CKR_FUNCTION_FAILED, CKR_SESSION_READ_ONLY,
    CKR_TEMPLATE_INCOMPLETE, CKR_TEMPLATE_INCONSISTENT, CKR_TOKEN_WRITE_PROTECTED,
};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use sidecore::engine::crypto::Secret;
use sidecore::keys::{Acl, KeyCommand, Kind, Terms, UsableKey};
use sidecore_testing::skipped;
use std::collections::HashSet;
use std::fs;
use std::ptr;
use std::thread;

fn make(module: &Module, session: Session) -> (Object, Object) {
    let mut curve = P256;
    pair(module, session, CKM_EC_KEY_PAIR_GEN, &mut [attribute(CKA_EC_PARAMS, &mut curve)], &mut []).unwrap()
}

/// Copies an object into the service, under a label.
fn store(module: &Module, session: Session, object: Object, label: &str) -> Result<Object, u64> {
    let (mut yes, mut label) = ([CK_TRUE], label.as_bytes().to_vec());
    module.copy(session, object, &mut [attribute(CKA_TOKEN, &mut yes), attribute(CKA_LABEL, &mut label)])
}

fn store_certificate(module: &Module, session: Session, der: &[u8], label: &str) -> Result<Object, u64> {
    let (mut class, mut yes, mut der) = (number(CKO_CERTIFICATE), [CK_TRUE], der.to_vec());
    let mut label = label.as_bytes().to_vec();
    let mut template = [
        attribute(CKA_CLASS, &mut class),
        attribute(CKA_TOKEN, &mut yes),
        attribute(CKA_VALUE, &mut der),
        attribute(CKA_LABEL, &mut label),
    ];
    module.create(session, &mut template)
}

/// Keys as the service lists them for root.
fn listed(site: &Site) -> Vec<UsableKey> {
    site.admin().my_keys(None).unwrap().unwrap().keys
}

#[test]
fn a_pair_of_the_program_is_copied_into_the_service() {
    let site = Site::with(&["p384"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (public, private) = make(&module, session);
    assert_eq!(store(&module, session, public, "kept"), Err(CKR_TOKEN_WRITE_PROTECTED), "the private part comes first");
    for (label, expected) in [("../x", CKR_ATTRIBUTE_VALUE_INVALID), ("p384", CKR_FUNCTION_FAILED)] {
        assert_eq!(store(&module, session, private, label), Err(expected), "{label}");
    }
    let (mut yes, mut no) = ([CK_TRUE], [CK_FALSE]);
    let unnamed = module.copy(session, private, &mut [attribute(CKA_TOKEN, &mut yes)]);
    assert_eq!(unnamed, Err(CKR_TEMPLATE_INCOMPLETE));
    let kept = store(&module, session, private, "kept").unwrap();
    assert_eq!(module.private(session, "kept"), kept);
    assert_eq!(store(&module, session, public, ""), Ok(module.public(session, "kept")));
    assert_eq!(store(&module, session, public, "kept"), Ok(module.public(session, "kept")));
    assert_eq!(store(&module, session, public, "other"), Err(CKR_TEMPLATE_INCONSISTENT), "no stored key has this name");
    // Java names the key by its identifier alone.
    let (mut id, (_, other)) = (*b"by-id", make(&module, session));
    let by_id = module.copy(session, other, &mut [attribute(CKA_TOKEN, &mut yes), attribute(CKA_ID, &mut id)]);
    assert_eq!(by_id, Ok(module.private(session, "by-id")));
    assert_eq!(module.value(session, by_id.unwrap(), CKA_ID), Ok(b"by-id".to_vec()));
    assert_eq!(store(&module, session, kept, "again"), Err(CKR_ACTION_PROHIBITED), "an object of the service");
    // A copy within the program, which is another name of the same key.
    let mut label = *b"copy";
    let copy = module.copy(session, private, &mut [attribute(CKA_TOKEN, &mut no), attribute(CKA_LABEL, &mut label)]);
    let signature = module.sign(session, CKM_ECDSA_SHA256, copy.unwrap(), b"message").unwrap();
    module.close(session).unwrap();
    // The program's key is gone, the stored one stays and is the same key.
    let session = module.open().unwrap();
    assert!(module.find(session, CKO_PRIVATE_KEY, "copy").unwrap().is_empty());
    let public = module.public(session, "kept");
    module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
    let signature = module.sign(session, CKM_ECDSA_SHA256, kept, b"other").unwrap();
    module.verify(session, CKM_ECDSA_SHA256, public, [b"other", &signature]).unwrap();
    let named: Vec<_> = listed(&site).into_iter().map(|key| (key.name, key.kind, key.owner)).collect();
    let row = |name: &str, kind| (name.to_owned(), kind, None);
    assert_eq!(named, [row("by-id", Kind::P256), row("kept", Kind::P256), row("p384", Kind::P384)]);
}

#[test]
fn certificates_are_stored_with_the_key_that_they_are_for() {
    let site = Site::with(&["p256", "rsa2048"]);
    site.certificates("p256");
    let read = |name: &str| fs::read(site.path(name)).unwrap();
    let (own, issuer) = (read("p256.crt.der"), read("ca.crt.der"));
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let refused = store_certificate(&module, session, &issuer, "any");
    assert_eq!(refused, Err(CKR_TEMPLATE_INCONSISTENT), "no key has it, and no certificate is of this issuer");
    assert_eq!(store_certificate(&module, session, &[0x30, 0], "p256"), Err(CKR_ATTRIBUTE_VALUE_INVALID));
    let other_name = store_certificate(&module, session, &own, "any label");
    assert_eq!(other_name, Err(CKR_TEMPLATE_INCONSISTENT), "it has its key's label");
    let stored = store_certificate(&module, session, &own, "").unwrap();
    let value = |object, kind| module.value(session, object, kind).unwrap();
    assert_eq!(value(stored, CKA_LABEL), b"p256", "the key's name");
    assert_eq!(store_certificate(&module, session, &own, "p256"), Ok(stored), "once");
    let of_issuer = store_certificate(&module, session, &issuer, "").unwrap();
    assert_eq!((value(of_issuer, CKA_LABEL), value(of_issuer, CKA_VALUE)), (b"p256 issuer 1".to_vec(), issuer));
    assert_eq!(value(module.private(session, "p256"), CKA_SUBJECT), value(stored, CKA_SUBJECT));
    let count = |name: &str| listed(&site).into_iter().find(|key| key.name == name).unwrap().certificates;
    assert_eq!((count("p256"), count("rsa2048")), (2, 0));
    // A renewed one replaces all.
    site.certificates("p256");
    let renewed = store_certificate(&module, session, &read("p256.crt.der"), "p256").unwrap();
    assert!(renewed != stored && count("p256") == 1);
    assert_eq!(module.find(session, CKO_CERTIFICATE, "").unwrap(), [renewed]);
}

/// A key that is renewed is never shown with a certificate of the other key: Java pairs them by their identifier, which
/// stays when the key is replaced.
#[test]
fn key_and_certificate_change_together_while_a_key_is_renewed() {
    let site = Site::with(&[]);
    let pkcs8s = ["one", "two"].map(|name| {
        let key = format!("{name}.pk8");
        let ec = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "traditional"];
        site.ok("openssl", &ec);
        let convert = ["pkcs8", "-topk8", "-nocrypt", "-in", "traditional", "-outform", "DER", "-out", &key];
        site.ok("openssl", &convert);
        let (subject, der) = (format!("/CN={name}"), format!("{name}.der"));
        let make = ["req", "-x509", "-key", "traditional", "-subj", &subject, "-days", "30"];
        site.ok("openssl", &[&make[..], &["-outform", "DER", "-out", &der]].concat());
        (fs::read(site.path(&key)).unwrap(), fs::read(site.path(&der)).unwrap())
    });
    let terms = Terms { id: b"fixed".to_vec(), ..Terms::default() };
    let command = KeyCommand::GenerateWith { name: "www".to_owned(), kind: Kind::P256, acl: Acl::default(), terms };
    site.admin().keys(command).unwrap();
    let renew = |(pkcs8, certificate): &(Vec<u8>, Vec<u8>)| {
        let (mut admin, name) = (site.admin(), || "www".to_owned());
        admin.keys(KeyCommand::Replace { name: name(), pkcs8: Secret::from(pkcs8.as_slice()) }).unwrap();
        let certificate = certificate.clone();
        admin.keys(KeyCommand::AddCertificate { name: name(), certificate, more: false }).unwrap();
    };
    let module = Module::load(&site);
    let mut with_certificate = 0;
    thread::scope(|scope| {
        let renewing = scope.spawn(|| (0..20).for_each(|turn| renew(&pkcs8s[turn % 2])));
        while !renewing.is_finished() {
            // A module that begins asks the service anew.
            module.begin(&site, "").unwrap();
            let session = module.open().unwrap();
            let (mut found, mut count) = ([0; 8], 0);
            call!(module, C_FindObjectsInit(session, ptr::null_mut(), 0)).unwrap();
            call!(module, C_FindObjects(session, found.as_mut_ptr(), 8, &raw mut count)).unwrap();
            let value = |object: &Object, kind| module.value(session, *object, kind).unwrap();
            let objects = &found[..count as usize];
            assert!(objects.iter().all(|object| value(object, CKA_ID) == b"fixed"));
            let infos: HashSet<_> = objects.iter().map(|object| value(object, CKA_PUBLIC_KEY_INFO)).collect();
            assert_eq!(infos.len(), 1, "a key with the certificate of another one");
            with_certificate += usize::from(objects.len() == 3);
            module.finalize().unwrap();
        }
    });
    assert!(with_certificate > 0);
}

#[test]
fn a_certificate_of_two_names_goes_to_the_one_that_is_named() {
    let site = Site::with(&[]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    site.ok("openssl", &["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "pem"]);
    site.ok("openssl", &["pkcs8", "-topk8", "-nocrypt", "-in", "pem", "-outform", "DER", "-out", "pkcs8"]);
    let pkcs8 = fs::read(site.path("pkcs8")).unwrap();
    for name in ["one", "two"] {
        let (name, pkcs8, acl) = (name.to_owned(), Secret::from(pkcs8.as_slice()), Acl::default());
        site.admin().keys(KeyCommand::Import { name, pkcs8, acl }).unwrap();
    }
    site.write_public("two");
    site.certificates("two");
    let der = fs::read(site.path("two.crt.der")).unwrap();
    assert_eq!(store_certificate(&module, session, &der, "three"), Err(CKR_TEMPLATE_INCONSISTENT));
    store_certificate(&module, session, &der, "two").unwrap();
    let counts: Vec<_> = listed(&site).into_iter().map(|key| (key.name, key.certificates)).collect();
    assert_eq!(counts, [("one".to_owned(), 0), ("two".to_owned(), 1)]);
}

#[test]
fn a_creator_stores_its_own_and_nothing_else() {
    if !is_root() {
        return skipped("only root can become another user");
    }
    let site = Site::with_creators(NOBODY);
    site.open_to_all();
    site.generate("roots", Kind::P256);
    let open = |name: &str| {
        let acl = Acl { uids: vec![NOBODY, NOBODY + 1], gids: Vec::new() };
        site.admin().keys(KeyCommand::SetAcl { name: name.to_owned(), acl }).unwrap();
    };
    open("roots");
    site.certificates("roots");
    let of_root = fs::read(site.path("roots.crt.der")).unwrap();
    let module = Module::of(&site);
    thread::scope(|scope| {
        scope.spawn(|| {
            become_user(NOBODY, NOBODY);
            let session = module.open().unwrap();
            let (_, private) = make(&module, session);
            let reader = module.open_to_read().unwrap();
            assert_eq!(store(&module, reader, private, "mine"), Err(CKR_SESSION_READ_ONLY));
            let kept = store(&module, session, private, "mine").unwrap();
            let signature = module.sign(session, CKM_ECDSA_SHA256, kept, b"message").unwrap();
            let public = module.public(session, "mine");
            module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
            let refused = store_certificate(&module, session, &of_root, "roots");
            assert_eq!(refused, Err(CKR_TOKEN_WRITE_PROTECTED), "a key that it may use only");
            for name in ["b", "c", "d"] {
                let (_, other) = make(&module, session);
                store(&module, session, other, name).unwrap();
            }
            let (_, other) = make(&module, session);
            assert_eq!(store(&module, session, other, "e"), Err(CKR_DEVICE_MEMORY), "its quota");
            module.close(session).unwrap();
        });
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            become_user(NOBODY + 1, NOBODY + 1);
            let session = module.open().unwrap();
            let (_, private) = make(&module, session);
            assert_eq!(
                store(&module, session, private, "theirs"),
                Err(CKR_TOKEN_WRITE_PROTECTED),
                "it creates nothing"
            );
            assert!(module.find(session, CKO_PRIVATE_KEY, "mine").unwrap().is_empty());
            module.close(session).unwrap();
        });
    });
    // Root's programs see keys of users only by name.
    let session = module.open().unwrap();
    let mine = listed(&site).into_iter().find(|key| key.name == "mine").unwrap();
    assert_eq!(mine.owner, Some(NOBODY));
    thread::sleep(std::time::Duration::from_millis(300));
    assert!(module.find(session, CKO_PRIVATE_KEY, "mine").unwrap().is_empty());
    assert_eq!(module.find(session, CKO_PRIVATE_KEY, "").unwrap(), [module.private(session, "roots")]);
    module.finalize().unwrap();
    module.begin(&site, "keys=mine").unwrap();
    let session = module.open().unwrap();
    assert_eq!(module.find(session, CKO_PRIVATE_KEY, "").unwrap(), [module.private(session, "mine")]);
}

/// The calling thread becomes this user.
fn become_user(uid: u32, gid: u32) {
    let gid = rustix::process::Gid::from_raw(gid);
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    let uid = Uid::from_raw(uid);
    set_thread_res_uid(uid, uid, uid).unwrap();
}
