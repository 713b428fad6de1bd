//! A sandboxed service whose key is on other machines, set up as an administrator would.

use crate::service::{ServiceFolder, USER};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use scopeguard::defer;
use sidecore::core::session::Op;
use sidecore::engine::crypto::{Hash, KeyMaterial, Scheme, Secret, Session, SessionSpec, SignaturePadding};
use sidecore::gateway::{Answer, Ask, Gateway, MAX_PACKET, Offer, Outcome, Request, Task, Tell};
use std::fs;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../service/src");
const RSA: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
const PUBLIC: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-rsa-2048.spki.der");

/// Signs each request until `stop` is set. On a busy machine a late beat ends the connection; the loop then connects
/// again.
fn serve(folder: &ServiceFolder, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        if let Ok((gateway, welcome)) = Gateway::connect(&folder.options(), "far") {
            assert_eq!(welcome.farm, "keys");
            let _ = serve_by(&gateway, stop);
        }
    }
}

fn serve_by(gateway: &Gateway, stop: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; MAX_PACKET];
    gateway.tell(&Tell::Offer(Offer { key: "www", public: PUBLIC }))?;
    while !stop.load(Ordering::SeqCst) {
        gateway.tell(&Tell::Beat)?;
        let beat = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let _ = poll(&mut [PollFd::new(gateway, PollFlags::IN)], Some(&beat));
        match gateway.hear(&mut buffer) {
            Ok(Ask::Request(Request { ticket, task: Task::Open { scheme, operation }, input, .. })) => {
                let key = KeyMaterial::Private(Secret::from(RSA));
                let session = Session::open(&SessionSpec { scheme, key }).unwrap();
                let mut signature = [0; 256];
                session.run(operation.op(), 0, input, &mut signature).unwrap();
                gateway.tell(&Tell::Answer(Answer { ticket, outcome: Outcome::Done(&signature) }))?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[test]
fn a_service_that_is_shut_in_signs_with_keys_of_other_machines() {
    let user = if geteuid().is_root() { format!("user = '{USER}'\n") } else { String::new() };
    let top = "[[device]]\nname = 'here'\nkind = 'inline'\n[[device]]\nname = 'far'\nkind = 'remote'\nfarm = 'keys'\nuser = 'root'";
    let folder = ServiceFolder::new(top, &format!("{user}seccomp = true\nlandlock = true"));
    let service = folder.start();
    let said = |arguments: &[&str], code: i32| {
        let output = folder.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let public = format!("{KEYS}/engine/crypto/keys/test-rsa-2048.spki.der");
    let told = said(&["keys", "import", "www", "--remote", "--public", &public], 0);
    assert!(told.contains("private part is on other machines"), "{told}");
    let certificate = format!("{KEYS}/keys/test-files/p-256.certificate.pem");
    said(&["keys", "import", "ec", "--remote", "--public", &certificate], 0);
    let list = said(&["keys", "list"], 0);
    assert!(list.lines().any(|line| line.contains("www") && line.contains("remote")), "{list}");
    assert!(said(&["keys", "list", "--json"], 0).contains("\"private_part\":\"remote\""));
    assert!(said(&["keys", "pem", "www"], 0).contains("SIDECORE KEY URI"));
    let private = format!("{KEYS}/keys/test-files/p-256.pkcs8.pem");
    let refused = said(&["keys", "import", "no", "--remote", "--public", &private], 2);
    assert!(refused.contains("a private key in it"), "{refused}");
    assert!(said(&["keys", "remote", "www", "--never"], 2).contains("other machines only"));

    let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };
    let mut client = folder.connect();
    let key = KeyMaterial::Stored("www".to_owned());
    let session = client.open_session(&SessionSpec { scheme, key }).unwrap();
    let refused = client.call(session, Op::Sign, 0, b"m", 256).unwrap_err().to_string();
    assert!(refused.contains("no gateway"), "{refused}");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        defer!(stop.store(true, Ordering::SeqCst));
        scope.spawn(|| serve(&folder, &stop));
        let mut signed = None;
        for _ in 0..3000 {
            signed = client.call(session, Op::Sign, 0, b"m", 256).ok();
            if signed.is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let log = || fs::read_to_string(folder.file("log")).unwrap();
        let signature = signed.unwrap_or_else(|| panic!("nobody signs: {}", log()));
        client.call(session, Op::Verify, 256, &[&signature[..], b"m"].concat(), 0).unwrap();
    });
    let threads = service.status_of_threads("Seccomp");
    assert!(threads.iter().all(|mode| mode == "2"), "{threads:?}");
}
