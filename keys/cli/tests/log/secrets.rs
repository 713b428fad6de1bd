//! No line holds a piece of a private key or of a passphrase, at the most verbose level.

use crate::serving::{Home, Serving};
use sidecore::client::{Client, Options};
use sidecore::control::{Reply, Request};
use sidecore::engine::crypto::{Cipher, KeyMaterial, Scheme, Secret, SessionSpec};
use sidecore::keys::{Acl, KeyCommand, Kind};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const RSA: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
const EC: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-p-256.pkcs8.der");
const OLD: &str = "correct horse battery staple";
const NEW: &str = "Tr0ub4dor and three more words";
const SYMMETRIC: [u8; 32] = *b"thirty-two bytes of a secret key";
/// Bytes in a row that do not match by chance.
const TRACE: usize = 6;
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let letters = bytes.chunks_exact(3).flat_map(|three| {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(BASE64[bits >> shift & 63]))
    });
    letters.collect()
}

fn spellings(bytes: &[u8]) -> Vec<String> {
    let join = |format: fn(&u8) -> String, between: &str| bytes.iter().map(format).collect::<Vec<_>>().join(between);
    let plain = String::from_utf8_lossy(bytes).into_owned();
    vec![
        plain,
        join(|byte| format!("{byte:02x}"), ""),
        join(|byte| format!("{byte:02X}"), ":"),
        join(u8::to_string, ", "),
        join(u8::to_string, ","),
        base64(bytes),
    ]
}

fn shown(log: &str, secret: &[u8]) -> Option<String> {
    secret.windows(TRACE).flat_map(spellings).find(|piece| log.contains(piece.as_str()))
}

#[test]
fn the_search_finds_what_is_there() {
    for spelling in spellings(&RSA[100..130]) {
        assert!(
            shown(&format!("a line {spelling} of a log"), RSA).is_some() || spelling.contains('\u{fffd}'),
            "{spelling}"
        );
    }
    assert!(shown(&format!("{:?}", &SYMMETRIC[3..12]), &SYMMETRIC).is_some());
    assert!(shown(&format!("the passphrase {NEW}"), NEW.as_bytes()).is_some());
    assert_eq!(shown("a line of a log", RSA), None);
}

fn speak(service: &Serving) {
    let line = service.dial();
    let acl = || Acl { uids: vec![33], gids: vec![] };
    let import = |name: &str, pkcs8: &[u8]| {
        Request::Keys(KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(pkcs8), acl: acl() })
    };
    let done = |reply: Reply| !matches!(reply, Reply::Refused(_));
    assert!(done(line.ask(&import("www", RSA))));
    assert!(done(line.ask(&import("mail", EC))));
    assert!(!done(line.ask(&import("www", RSA))), "it is there already");
    assert!(!done(line.ask(&import("bad", &RSA[..RSA.len() - 9]))), "it has no end");
    assert!(!done(line.ask(&import("bad name", EC))));
    let replace = KeyCommand::Replace { name: "www".to_owned(), pkcs8: Secret::from(EC) };
    assert!(done(line.ask(&Request::Keys(replace))));
    let replace = KeyCommand::Replace { name: "nobody's".to_owned(), pkcs8: Secret::from(EC) };
    assert!(!done(line.ask(&Request::Keys(replace))));
    assert!(done(line.ask(&Request::Keys(KeyCommand::Generate {
        name: "new".to_owned(),
        kind: Kind::P256,
        acl: acl()
    }))));
    assert!(!done(line.ask(&Request::PublicPart { kind: Kind::Ed25519, raw: Secret::from(&RSA[..99]) })));
    let passphrase = || KeyCommand::ChangePassphrase { passphrase: Secret::from(NEW.as_bytes()) };
    assert!(done(line.ask(&Request::Keys(passphrase()))));
    let short = KeyCommand::ChangePassphrase { passphrase: Secret::from(&[][..]) };
    assert!(!done(line.ask(&Request::Keys(short))));
    let key = KeyMaterial::Symmetric(Secret::from(&SYMMETRIC[..]));
    let spec = SessionSpec { scheme: Scheme::Cipher(Cipher::Aes256Gcm), key };
    assert!(!done(line.ask(&Request::OpenSession(spec))), "it has no lane");
    // A connection with a lane has lost its rights.
    let attached = service.client();
    drop(attached);
}

fn open(home: &Home) {
    let options = Options { socket: home.socket(), ..Options::default() };
    let mut client = Client::connect(&options).unwrap();
    let mut open = |scheme, key| client.open_session(&SessionSpec { scheme, key });
    assert!(open(Scheme::Cipher(Cipher::Aes256Gcm), KeyMaterial::Symmetric(Secret::from(&SYMMETRIC[..]))).is_ok());
    assert!(open(Scheme::Cipher(Cipher::Aes128Cbc), KeyMaterial::Symmetric(Secret::from(&SYMMETRIC[..]))).is_err());
    assert!(open(Scheme::Ed25519, KeyMaterial::Private(Secret::from(RSA))).is_err());
    assert!(open(Scheme::EcdsaRaw, KeyMaterial::Private(Secret::from(EC))).is_ok());
}

#[test]
fn the_most_verbose_log_holds_no_piece_of_a_key_or_a_passphrase() {
    for format in ["text", "json"] {
        let home = Home::new("");
        let config = fs::read_to_string(home.path("config")).unwrap();
        let passphrase = home.path("passphrase");
        fs::write(&passphrase, OLD).unwrap();
        fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
        let keys = home.path("keys");
        let section =
            format!("[keys]\ndirectory = '{}'\npassphrase_file = '{}'\n", keys.display(), passphrase.display());
        fs::write(home.path("config"), config + &section).unwrap();
        let service = home.serve(&["--log", format, "--log-level", "debug"]);
        speak(&service);
        open(&home);
        let log = service.end().join("\n");
        for event in ["key-imported", "key-replaced", "passphrase-changed", "client-attached", "refused"] {
            assert!(log.contains(event), "{event}: {log}");
        }
        for secret in [RSA, EC, OLD.as_bytes(), NEW.as_bytes(), &SYMMETRIC] {
            assert_eq!(shown(&log, secret), None, "{log}");
        }
    }
}
