//! Operations and users of remote devices.

use crate::common::{
    RSA, RSA_PUBLIC, Signer, TIMEOUT, administer, as_user, config, connect, expected, import, import_public,
    let_others_in, options, owner, remote, root_or_skipped, share, start, stored,
};
use crate::far::{Far, Line, Manner, OwnKey};
use sidecore::client::Error;
use sidecore::config::{Config, DeviceConfig, Sidecores};
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::{
    DecryptionPadding, Hash, KeyMaterial, SaltLength, Scheme, SessionSpec, SignaturePadding,
};
use sidecore::gateway::Gateway;
use sidecore::keys::{Acl, KeyCommand, Kind, Site};
use std::time::Instant;

pub(crate) const WWW: OwnKey = OwnKey { name: "www", pkcs8: RSA, public: RSA_PUBLIC };
const STRANGER: u32 = 61_234;
const EC: OwnKey = OwnKey {
    name: "ec",
    pkcs8: include_bytes!("../../src/engine/crypto/keys/test-p-256.pkcs8.der"),
    public: include_bytes!("../../src/engine/crypto/keys/test-p-256.spki.der"),
};
const ED: OwnKey = OwnKey {
    name: "ed",
    pkcs8: include_bytes!("../../src/engine/crypto/keys/test-ed25519.pkcs8.der"),
    public: include_bytes!("../../src/engine/crypto/keys/test-ed25519.spki.der"),
};

#[test]
fn a_key_that_is_elsewhere_signs_as_its_owner_would() {
    let service = remote();
    let entry = import_public(&service, "www", RSA_PUBLIC);
    assert_eq!((entry.site, entry.kind), (Site::Elsewhere, Kind::Rsa2048));
    let mut signer = Signer::new(&service, "www");
    let refused = signer.sign().unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::KeyElsewhere)), "{refused}");
    assert!(refused.to_string().contains("no gateway"), "{refused}");
    let far = Far::start(&service, &[WWW], Manner::Honest);
    assert_eq!(signer.sign_soon(), expected());
    for _ in 0..100 {
        assert_eq!(signer.sign().unwrap(), expected());
    }
    assert!(far.asked() > 100);
    drop(far);
    signer.refused_soon();
    // It joins again with the next connection.
    let _far = Far::start(&service, &[WWW], Manner::Honest);
    assert_eq!(signer.sign_soon(), expected());
}

#[test]
fn all_that_takes_a_private_key_is_done_elsewhere_and_verification_here() {
    let service = remote();
    for key in [WWW, EC, ED] {
        import_public(&service, key.name, key.public);
    }
    let far = Far::start(&service, &[WWW, EC, ED], Manner::Honest);
    for key in ["www", "ec", "ed"] {
        // A key is usable once its offer has arrived.
        let scheme = match key {
            "www" => crate::common::pkcs1(),
            "ec" => Scheme::Ecdsa { hash: Hash::Sha256 },
            _ => Scheme::Ed25519,
        };
        let mut client = connect(&service);
        let session = client.open_session(&stored(scheme, key)).unwrap();
        crate::common::until("it signs", || client.call(session, Op::Sign, 0, b"m", 256).is_ok());
    }
    let mut client = connect(&service);
    let pss = SignaturePadding::Pss { mgf1: Hash::Sha384, salt: SaltLength::Digest };
    let rsa = |padding, hash| Scheme::RsaSignature { padding, hash };
    let cases = [
        (rsa(SignaturePadding::Pkcs1, Hash::Sha512), WWW, Op::Sign, &b"a message"[..]),
        (rsa(pss, Hash::Sha384), WWW, Op::Sign, b"a message"),
        (rsa(SignaturePadding::Pkcs1Raw, Hash::Sha256), WWW, Op::SignDigest, b"any bytes"),
        (rsa(SignaturePadding::Pkcs1, Hash::Sha256), WWW, Op::SignDigest, &[7; 32]),
        (Scheme::Ecdsa { hash: Hash::Sha256 }, EC, Op::Sign, b"a message"),
        (Scheme::EcdsaRaw, EC, Op::SignDigest, &[7; 20]),
        (Scheme::Ed25519, ED, Op::Sign, b"a message"),
    ];
    for (scheme, key, op, input) in cases {
        let session = client.open_session(&stored(scheme.clone(), key.name)).unwrap();
        let asked = far.asked();
        let signature = client.call(session, op, 0, input, 256).unwrap_or_else(|error| panic!("{scheme:?}: {error}"));
        assert_eq!(far.asked(), asked + 1, "{scheme:?}");
        let public = SessionSpec { scheme: scheme.clone(), key: KeyMaterial::Public(key.public.to_vec()) };
        if op == Op::Sign {
            let signed = [&signature[..], input].concat();
            for verifier in [session, client.open_session(&public).unwrap()] {
                client.call(verifier, Op::Verify, signature.len() as u32, &signed, 0).unwrap();
            }
        }
        assert_eq!(far.asked(), asked + 1, "verified here: {scheme:?}");
    }
}

#[test]
fn what_is_decrypted_elsewhere_is_what_its_owner_would_get_refusals_too() {
    let service = remote();
    import_public(&service, "www", RSA_PUBLIC);
    let _far = Far::start(&service, &[WWW], Manner::Honest);
    Signer::new(&service, "www").sign_soon();
    let mut client = connect(&service);
    let oaep = DecryptionPadding::Oaep { hash: Hash::Sha256, mgf1: Hash::Sha256, label: b"label".to_vec() };
    for padding in [DecryptionPadding::Pkcs1, oaep] {
        let scheme = Scheme::RsaDecryption { padding };
        let session = client.open_session(&stored(scheme.clone(), "www")).unwrap();
        let ciphertext = [1; 256];
        let here = owner(&scheme, RSA, Op::Decrypt, &ciphertext);
        let there = client.call(session, Op::Decrypt, 0, &ciphertext, 256);
        match (here, there) {
            // Bad padding of PKCS#1 gives a plaintext that depends on key and ciphertext only.
            (Ok(here), Ok(there)) => assert_eq!(here, there),
            (Err(Refusal::Authentication), Err(Error::Refused(Refusal::Authentication))) => {}
            (here, there) => panic!("{here:?}, {there:?}"),
        }
        let short = client.call(session, Op::Decrypt, 0, &[1; 255], 256).unwrap_err();
        assert!(matches!(short, Error::Refused(Refusal::InputLength)), "{short}");
    }
}

#[test]
fn a_key_that_is_here_only_never_leaves_and_one_that_is_in_both_places_is_shared_out() {
    let service = remote();
    import(&service, "www", RSA);
    administer(&service).set("balance=round-robin").unwrap();
    let far = Far::start(&service, &[WWW], Manner::Honest);
    let mut signer = Signer::new(&service, "www");
    // The offer of another key arrives after that of this one.
    import_public(&service, "ed", ED.public);
    for _ in 0..50 {
        assert_eq!(signer.sign().unwrap(), expected());
    }
    assert_eq!(far.asked(), 0, "nobody said that others have it");
    share(&service, "www", true);
    let mut both = Signer::new(&service, "www");
    let end = Instant::now() + TIMEOUT;
    while far.asked() < 10 {
        assert!(Instant::now() < end, "it is never asked");
        assert_eq!(both.sign().unwrap(), expected());
    }
    share(&service, "www", false);
    let asked = far.asked();
    for mut signer in [signer, both] {
        for _ in 0..20 {
            assert_eq!(signer.sign().unwrap(), expected());
        }
    }
    assert_eq!(far.asked(), asked, "no open session takes the way any more");
}

#[test]
fn who_may_not_use_a_key_gets_nothing_of_it_from_elsewhere() {
    if !root_or_skipped("be another user") {
        return;
    }
    let service = remote();
    import_public(&service, "www", RSA_PUBLIC);
    let far = Far::start(&service, &[WWW], Manner::Honest);
    Signer::new(&service, "www").sign_soon();
    let asked = far.asked();
    let_others_in(&service);
    let refused = as_user(STRANGER, || {
        connect(&service).open_session(&stored(crate::common::pkcs1(), "www")).unwrap_err().to_string()
    });
    assert!(refused.contains("may not use key"), "{refused}");
    assert_eq!(far.asked(), asked);
    let acl = Acl { uids: vec![STRANGER], gids: vec![] };
    administer(&service).keys(KeyCommand::SetAcl { name: "www".to_owned(), acl }).unwrap();
    assert_eq!(as_user(STRANGER, || Signer::new(&service, "www").sign().unwrap()), expected());
}

#[test]
fn only_the_user_of_the_configuration_is_a_gateway() {
    if !root_or_skipped("be another user") {
        return;
    }
    let mut config = config(20_000);
    config.devices[1].user = Some(STRANGER);
    let service = start(config);
    let_others_in(&service);
    let connected = |user| as_user(user, || Gateway::connect(&options(&service), "far").map(|_| ()));
    let refused = connected(STRANGER + 1).unwrap_err().to_string();
    assert!(refused.contains("may not be the gateway"), "{refused}");
    connected(STRANGER).unwrap();
}

#[test]
fn a_deleted_key_is_asked_for_no_more_and_another_at_its_place_is_not_taken_for_it() {
    let service = remote();
    import_public(&service, "www", RSA_PUBLIC);
    let _far = Far::start(&service, &[WWW], Manner::Honest);
    let mut signer = Signer::new(&service, "www");
    signer.sign_soon();
    administer(&service).keys(KeyCommand::Delete { name: "www".to_owned() }).unwrap();
    assert!(matches!(signer.sign().unwrap_err(), Error::Refused(Refusal::NoSession)));
    // The same key under another name, and the same name with another key: neither matches the offer.
    import_public(&service, "other", RSA_PUBLIC);
    let refused = Signer::new(&service, "other").sign().unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::KeyElsewhere)), "{refused}");
    // The offered key is served again once it is back.
    import_public(&service, "www", RSA_PUBLIC);
    assert_eq!(Signer::new(&service, "www").sign_soon(), expected());
}

#[test]
fn a_gateway_is_of_a_user_who_may_be_one_and_of_a_device_that_is_there() {
    let service = remote();
    let refused = Gateway::connect(&options(&service), "nobody").unwrap_err().to_string();
    assert!(refused.contains("no remote device \"nobody\""), "{refused}");
    let refused = Gateway::connect(&options(&service), "here").unwrap_err().to_string();
    assert!(refused.contains("no remote device \"here\""), "{refused}");
    let first = Line::to(&service);
    assert_eq!((first.welcome.farm.as_str(), first.welcome.depth), ("keys", 256));
    let refused = Gateway::connect(&options(&service), "far").unwrap_err().to_string();
    assert!(refused.contains("has a gateway already"), "{refused}");
    drop(first);
    crate::common::until("the device is free", || Gateway::connect(&options(&service), "far").is_ok());
}

#[test]
fn a_remote_device_that_is_added_while_the_service_runs_takes_a_gateway() {
    let service = start(Config::default());
    import_public(&service, "www", RSA_PUBLIC);
    administer(&service).set("device={name='far',kind='remote',farm='keys'}").unwrap();
    let again = administer(&service).set("device={name='far',kind='remote',farm='keys'}").unwrap_err().to_string();
    assert!(again.contains("already"), "{again}");
    let _far = Far::start(&service, &[WWW], Manner::Honest);
    assert_eq!(Signer::new(&service, "www").sign_soon(), expected());
}

#[test]
fn one_gateway_serves_all_sidecores() {
    let service = start(Config { sidecores: Sidecores { cpus: vec![0, 0], owned: false }, ..config(20_000) });
    import_public(&service, "www", RSA_PUBLIC);
    let _far = Far::start(&service, &[WWW], Manner::Honest);
    let mut signers: Vec<Signer> = (0..4).map(|_| Signer::new(&service, "www")).collect();
    for signer in &mut signers {
        assert_eq!(signer.sign_soon(), expected());
    }
}

#[test]
fn a_service_without_any_device_of_its_own_serves_keys_of_other_machines() {
    let service = start(Config { devices: vec![DeviceConfig::remote("far", "keys")], ..config(20_000) });
    import_public(&service, "www", RSA_PUBLIC);
    let _far = Far::start(&service, &[WWW], Manner::Honest);
    assert_eq!(Signer::new(&service, "www").sign_soon(), expected());
}
