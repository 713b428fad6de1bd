//! Key and chain of a server that runs change together, or stay.

use crate::site::{Ends, Site};
use rustls::pki_types::CertificateDer;
use sidecore::keys::{Acl, KeyCommand};
use sidecore_rustls::{Followed, follow, with_chain};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Enough for looks of the thread that follows, one each second.
const LOOKS: Duration = Duration::from_secs(3);

struct Renewal {
    site: Site,
    old: CertificateDer<'static>,
    new: CertificateDer<'static>,
    followed: Arc<Followed>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Renewal {
    fn new() -> Self {
        let site = Site::with(&["p256"]);
        let (old, _) = (site.certificate("p256"), site.make("p256", "new"));
        let new = site.certificate("new");
        put(&site, "p256.crt");
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&told);
        let tell = move |error: &sidecore_rustls::Error| log.lock().unwrap().push(error.to_string());
        let followed = follow(&site.options(), "p256", site.path("chain.pem"), tell).unwrap();
        Self { site, old, new, followed, told }
    }

    fn shows(&self) -> CertificateDer<'static> {
        let certified = self.followed.certified();
        Ends::resolved(self.followed.clone(), &certified.cert).talk().unwrap();
        certified.cert[0].clone()
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    fn until_it_shows(&self, certificate: &CertificateDer<'static>) {
        while self.followed.certified().cert[0] != *certificate {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.shows(), *certificate);
    }

    fn until_told(&self, part: &str) {
        while !self.told().iter().any(|said| said.contains(part)) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn import(&self, name: &str, file: &str) {
        let pkcs8 = sidecore::spec::Secret::new(fs::read(self.site.path(&format!("{file}.der"))).unwrap());
        self.site.keys(KeyCommand::Import { name: name.to_owned(), pkcs8, acl: Acl::default() });
    }
}

/// Puts a certificate in the place of the chain in one step, as certbot does.
fn put(site: &Site, certificate: &str) {
    site.openssl(&["x509", "-inform", "DER", "-in", certificate, "-out", "chain.new"]);
    fs::rename(site.path("chain.new"), site.path("chain.pem")).unwrap();
}

#[test]
fn a_renewal_of_key_and_chain_costs_a_server_that_follows_no_handshake() {
    let renewal = Renewal::new();
    let trusted = [renewal.old.clone(), renewal.new.clone()];
    let (end, good) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    Ends::resolved(renewal.followed.clone(), &trusted).talk().unwrap();
                    good.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // certbot has put the new chain in its place, and the service does not have its key yet.
        put(&renewal.site, "new.crt");
        renewal.until_told("run `sidecore keys renew p256`");
        assert_eq!(renewal.shows(), renewal.old);
        renewal.import("p256.1700000000", "new");
        renewal.until_it_shows(&renewal.new);
        renewal.site.keys(KeyCommand::Delete { name: "p256".to_owned() });
        for _ in 0..50 {
            assert_eq!(renewal.shows(), renewal.new);
        }
        end.store(true, Ordering::Relaxed);
    });
    println!("{} handshakes during the renewal, none failed", good.load(Ordering::Relaxed));
    assert_eq!(renewal.told().len(), 1, "{:?}", renewal.told());
    // A server that starts now finds the key by its certificate.
    with_chain(&renewal.site.options(), "p256", vec![renewal.new.clone()]).unwrap();
}

#[test]
fn a_key_that_is_replaced_under_its_name_brings_the_chain_that_waits_for_it() {
    let renewal = Renewal::new();
    put(&renewal.site, "new.crt");
    renewal.until_told("run `sidecore keys renew p256`");
    let pkcs8 = sidecore::spec::Secret::new(fs::read(renewal.site.path("new.der")).unwrap());
    renewal.site.keys(KeyCommand::Replace { name: "p256".to_owned(), pkcs8 });
    renewal.until_it_shows(&renewal.new);
}

/// Makes a certificate that begins in 2020, in DER.
fn certify_until(site: &Site, key: &str, ends: &str, certificate: &str) {
    let text = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\n\
                x509_extensions=e\n[p]\ncommonName=supplied\n[e]\nsubjectAltName=DNS:localhost\n";
    for (file, content) in [("ca.cnf", text), ("index", ""), ("serial", "01\n")] {
        fs::write(site.path(file), content).unwrap();
    }
    let request = ["req", "-new", "-config", "openssl.cnf", "-key", key, "-subj", "/CN=localhost", "-out", "ca.csr"];
    site.openssl(&request);
    let sign = ["ca", "-batch", "-config", "ca.cnf", "-selfsign", "-keyfile", key, "-in", "ca.csr", "-notext"];
    let dates = ["-startdate", "20200101000000Z", "-enddate", ends, "-out", "ca.pem"];
    site.openssl(&[&sign[..], &dates].concat());
    site.openssl(&["x509", "-in", "ca.pem", "-outform", "DER", "-out", certificate]);
}

#[test]
fn a_chain_that_is_gone_unreadable_or_expired_is_told_once_and_the_former_one_stays() {
    let renewal = Renewal::new();
    fs::remove_file(renewal.site.path("chain.pem")).unwrap();
    renewal.until_told("No such file");
    fs::write(renewal.site.path("chain.pem"), "-----BEGIN CERTIFICATE-----\nno\n").unwrap();
    renewal.until_told("put a chain in PEM");
    // The same key again, in a certificate that ended.
    certify_until(&renewal.site, "p256.key", "20210101000000Z", "ended.crt");
    put(&renewal.site, "ended.crt");
    renewal.until_told("the former one stays in use");
    thread::sleep(LOOKS);
    assert_eq!(renewal.shows(), renewal.old);
    assert_eq!(renewal.told().len(), 3, "{:?}", renewal.told());
    put(&renewal.site, "p256.crt");
    renewal.until_it_shows(&renewal.old);
}
