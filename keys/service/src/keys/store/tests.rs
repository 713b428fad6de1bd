//! Tests of keys in the store: their users, and shared sessions.

use super::*;
use crate::keys::vault;
use crate::spec::{DecryptionPadding, Hash, SaltLength, SignaturePadding};

const RSA: &[u8] = include_bytes!("../../engine/crypto/keys/test-rsa-2048.pkcs8.der");
const EC: &[u8] = include_bytes!("../../engine/crypto/keys/test-p-256.pkcs8.der");
const OWN: u32 = 1000;

fn store(limit: u16) -> Store {
    Store::open(&KeysConfig::default(), None, None, limit, OWN).unwrap()
}

fn peer(uid: u32) -> Asker {
    Peer { uid, gids: vec![uid] }.into()
}

fn import(store: &mut Store, name: &str, pkcs8: &[u8], acl: Acl) {
    store.insert(name, Material::read(pkcs8.into()).unwrap(), acl.into()).unwrap();
}

fn with_key() -> Store {
    let mut store = store(4);
    import(&mut store, "www", RSA, Acl { uids: vec![7], gids: vec![8] });
    store
}

fn session(store: &mut Store, scheme: &Scheme, asker: &Asker) -> Result<Arc<Session>, StoreError> {
    match store.ready("www", scheme, asker)? {
        Ready::Session(session) => Ok(session),
        Ready::Material(material) => {
            let session = material.open(scheme, "www")?;
            store.keep("www", &material, scheme, session, asker)
        }
    }
}

fn pss(salt: u16) -> Scheme {
    let padding = SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Bytes(salt) };
    Scheme::RsaSignature { padding, hash: Hash::Sha256 }
}

fn open(store: &mut Store, scheme: &Scheme) -> Arc<Session> {
    session(store, scheme, &peer(7)).unwrap()
}

#[test]
fn lanes_share_one_session_of_a_key_and_scheme() {
    let mut store = with_key();
    let (first, second) = (open(&mut store, &pss(20)), open(&mut store, &pss(20)));
    assert!(Arc::ptr_eq(&first, &second));
    assert!(!Arc::ptr_eq(&first, &open(&mut store, &pss(21))));
    assert_eq!(first.key(), store.place("www"));
}

#[test]
fn a_thousand_schemes_keep_no_more_sessions_than_a_few() {
    let mut store = with_key();
    let kept = |store: &Store| store.keys["www"].sessions.len();
    for salt in 0..200 {
        drop(open(&mut store, &pss(salt)));
        assert!(kept(&store) <= CACHED);
    }
    // The same while lanes use them all: beyond the limit, each session is its lane's alone.
    let held: Vec<_> = (0..200).map(|salt| open(&mut store, &pss(salt))).collect();
    assert_eq!(kept(&store), CACHED);
    assert!(Arc::ptr_eq(&held[0], &open(&mut store, &pss(0))));
    assert_eq!(Arc::strong_count(&held[199]), 1);
    drop(held);
    assert!(Arc::ptr_eq(&open(&mut store, &pss(199)), &open(&mut store, &pss(199))));
}

#[test]
fn a_session_with_a_label_of_the_clients_is_not_kept() {
    let mut store = with_key();
    let padding = DecryptionPadding::Oaep { hash: Hash::Sha256, mgf1: Hash::Sha256, label: vec![1] };
    drop(open(&mut store, &Scheme::RsaDecryption { padding }));
    assert!(store.keys["www"].sessions.is_empty());
}

#[test]
fn root_and_the_own_user_and_those_of_the_list_may_use_a_key() {
    let mut store = with_key();
    for uid in [0, OWN, 7, 8] {
        assert!(store.info("www", &peer(uid)).is_ok(), "{uid}");
    }
    let why = session(&mut store, &pss(20), &peer(9)).unwrap_err().to_string();
    assert!(why.contains("sidecore keys acl www --add --uid 9"), "{why}");
    store.set_acl("www", Acl { uids: vec![9], gids: vec![] }).unwrap();
    assert!(store.permits(store.place("www").unwrap(), &peer(9)) && !store.permits(0, &peer(7)));
    assert!(store.set_acl("www", Acl { uids: vec![1; MAX_ACL + 1], gids: vec![] }).is_err());
}

#[test]
fn what_was_opened_while_the_key_changed_is_not_kept() {
    let mut store = with_key();
    let Ready::Material(material) = store.ready("www", &pss(20), &peer(7)).unwrap() else { panic!("none is kept") };
    let opened = || material.open(&pss(20), "www").unwrap();
    store.set_acl("www", Acl { uids: vec![9], gids: vec![] }).unwrap();
    assert!(
        store.keep("www", &material, &pss(20), opened(), &peer(7)).unwrap_err().to_string().contains("may not use")
    );
    store.delete("www").unwrap();
    assert!(store.keep("www", &material, &pss(20), opened(), &peer(0)).unwrap_err().to_string().contains("no key"));
    import(&mut store, "www", RSA, Acl::default());
    assert!(store.keep("www", &material, &pss(20), opened(), &peer(0)).unwrap_err().to_string().contains("replaced"));
}

#[test]
fn only_a_key_that_others_may_have_is_taken_from_them_and_only_with_its_public_part() {
    let mut store = with_key();
    let public = store.keys["www"].material.public.clone();
    assert_eq!(store.offered("www", &public), None, "it is here only");
    let kept = open(&mut store, &pss(20));
    store.share("www", true).unwrap();
    assert_eq!((store.offered("www", &public), store.offered("www", b"another")), (Some(0), None));
    assert!(!Arc::ptr_eq(&kept, &open(&mut store, &pss(20))), "the old one knows nothing of other machines");
    assert_eq!(store.list("")[0].site, Site::Both);
    store.share("www", false).unwrap();
    assert_eq!((store.offered("www", &public), store.list("")[0].site), (None, Site::Here));
    store.insert("far", Material::elsewhere(&public).unwrap(), Attributes::default()).unwrap();
    assert_eq!((store.offered("far", &public), store.list("")[0].site), (Some(1), Site::Elsewhere));
    assert!(store.share("far", false).unwrap_err().to_string().contains("other machines only"));
}

#[test]
fn a_key_comes_back_from_rest_with_its_site() {
    let here = Material::read(EC.into()).unwrap();
    let both = here.shared(true).unwrap();
    let elsewhere = Material::elsewhere(&here.public).unwrap();
    for material in [here, both, elsewhere] {
        let back = Material::of_rest(material.at_rest()).unwrap();
        assert_eq!((back.site, back.kind, &back.public), (material.site, material.kind, &material.public));
    }
    for wrong in [&[1][..], &[2], &[2, 0x30], &[3]] {
        assert!(Material::of_rest(wrong.into()).is_err());
    }
}

#[test]
fn who_became_another_user_may_do_what_both_may() {
    let store = with_key();
    let (one, _other) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let own = sidecore_daemon::sys::peer::credentials(&one).unwrap();
    let became = |uid| Asker::of(&one, Some(sidecore_daemon::sys::peer::Credentials { uid, gid: uid, ..own })).unwrap();
    // These tests may run as root, which may use all keys, or as a user that may use none.
    let may = store.info("www", &became(own.uid)).is_ok();
    assert_eq!(store.info("www", &became(7)).is_ok(), may);
    assert!(store.info("www", &became(9)).is_err());
}

#[test]
fn the_place_of_a_deleted_key_permits_nothing_until_it_is_taken_again() {
    let mut store = with_key();
    let place = store.delete("www").unwrap().what;
    assert!(!store.permits(place, &peer(0)) && store.place("www").is_none());
    import(&mut store, "other", RSA, Acl::default());
    assert_eq!(store.places().collect::<Vec<_>>(), [(place, "other")]);
}

#[test]
fn what_the_store_knows_after_a_failed_write_is_what_is_at_rest() {
    const KEYS: [&str; 3] = ["mail", "new", "www"];
    type Change = fn(&mut Store) -> Result<VaultWarning, StoreError>;
    let changes: [Change; 5] = [
        |store| {
            store.insert("new", Material::read(EC.into()).unwrap(), Attributes::default()).map(|changed| changed.doubt)
        },
        |store| store.set_acl("www", Acl { uids: vec![9], gids: vec![] }).map(|changed| changed.doubt),
        |store| store.change_acl("www", &Acl::default(), &Acl { uids: vec![7], gids: vec![] }).map(|it| it.doubt),
        |store| store.delete("mail").map(|changed| changed.doubt),
        |store| store.rename("mail", "new").map(|changed| changed.doubt),
    ];
    for (change, step) in changes.iter().flat_map(|change| (0..vault::tests::STEPS).map(move |step| (change, step))) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("keys");
        vault::tests::fill(&path, EC);
        let (vault, found) = vault::tests::failing(&path, step);
        let mut store = store(4);
        for vault::Found { name, attributes, pkcs8 } in found {
            store.enter(&name, Material::read(pkcs8).unwrap(), attributes).unwrap();
        }
        store.rest = Rest::Vault(Box::new(vault));
        let said = change(&mut store);
        let known: Vec<_> = store.list("").into_iter().map(|entry| (entry.name, entry.acl)).collect();
        drop(store);
        let found: Vec<_> = vault::tests::found(&path).into_iter().map(|key| (key.name, key.attributes.acl)).collect();
        assert_eq!(known, found, "{step}: {said:?}");
        assert!(known.iter().all(|(name, _)| KEYS.contains(&name.as_str())));
    }
}

#[test]
fn no_key_takes_the_place_of_one_that_a_user_had_made() {
    let mut store = store(4);
    let own = Attributes { owner: Some(7), ..Acl { uids: vec![7], gids: vec![] }.into() };
    store.insert("www", Material::read(EC.into()).unwrap(), own).unwrap();
    let public = store.info("www", &peer(7)).unwrap().public;
    for refused in [
        store.check_replaceable("www").unwrap_err(),
        store.replace("www", Material::read(RSA.into()).unwrap()).unwrap_err(),
    ] {
        let said = refused.to_string();
        assert!(said.contains("is user 7's own") && said.contains("sidecore keys delete www"), "{said}");
    }
    assert_eq!(store.info("www", &peer(7)).unwrap().public, public);
    // An imported key with this name is not the user's.
    store.delete("www").unwrap();
    import(&mut store, "www", RSA, Acl::default());
    store.replace("www", Material::read(RSA.into()).unwrap()).unwrap();
    assert!(session(&mut store, &pss(20), &peer(7)).is_err());
}

#[test]
fn a_replacement_that_may_do_nothing_is_refused() {
    let mut store = with_key();
    store.set_usage("www", Usage::DECRYPT).unwrap();
    let said = store.replace("www", Material::read(EC.into()).unwrap()).unwrap_err().to_string();
    assert!(said.contains("p-256 is never for decrypt"), "{said}");
    assert_eq!(store.describe("www").unwrap().usage, Usage::DECRYPT);
    store.replace("www", Material::read(RSA.into()).unwrap()).unwrap();
    store.set_usage("www", Usage::SIGN).unwrap();
    store.replace("www", Material::read(EC.into()).unwrap()).unwrap();
    assert_eq!(store.describe("www").unwrap().usage, Usage::SIGN);
}

#[test]
fn creators_leave_an_eighth_of_the_places_free() {
    for (limit, most) in [(16, 14), (9, 7), (8, 7), (2, 1), (1, 0)] {
        let mut store = store(limit);
        let mut stored = 0;
        while store.reserve().1 {
            import(&mut store, &format!("{stored}"), EC, Acl::default());
            stored += 1;
        }
        assert_eq!(stored, most, "{limit}");
    }
}

#[test]
fn a_long_list_comes_in_pages_of_which_each_fits_a_message() {
    let mut store = store(40);
    let acl = Acl { uids: vec![u32::MAX; MAX_ACL], gids: vec![u32::MAX; MAX_ACL] };
    for number in 0..40 {
        import(&mut store, &format!("{number:0>64}"), EC, acl.clone());
    }
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = store.list(&after);
        let Some(last) = page.last() else { break };
        after.clone_from(&last.name);
        names.extend(page.iter().map(|entry| entry.name.clone()));
        let mut packet = vec![0; sidecore_daemon::sys::packet::MAX_PACKET];
        crate::control::encode(&crate::control::Reply::Keys(page), &mut packet).unwrap();
    }
    assert_eq!(names.len(), 40);
    assert!(names.is_sorted());
}
