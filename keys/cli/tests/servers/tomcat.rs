//! Tomcat with keys in a file and by the module of PKCS#11: a search of Java's memory.

use crate::handshake::{Load, TLS_12, TLS_13, shake};
use crate::library;
use crate::material::{Kind, Material};
use crate::memory::{Needles, Seen};
use crate::programs::{Daemon, free_port, program, run};
use crate::secrets::{all_numbers, directory};
use crate::server::search;
use crate::service::Service;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The kinds of which Java takes keys from a module.
const KINDS: [Kind; 2] = [Kind::Rsa, Kind::P256];
const HOME: &str = "/usr/share/tomcat10";

struct Tomcat {
    daemon: Daemon,
    ports: Vec<u16>,
}

fn server(connectors: &str) -> String {
    format!(
        "<Server port='-1'><Service name='Catalina'>{connectors}<Engine name='Catalina' defaultHost='localhost'>\
         <Host name='localhost' appBase='webapps'/></Engine></Service></Server>"
    )
}

fn start(directory: &Path, keys: &[Material], service: Option<&Service>) -> Tomcat {
    let (ports, mut connectors) = (keys.iter().map(|_| free_port()).collect::<Vec<_>>(), String::new());
    for (key, port) in keys.iter().zip(&ports) {
        let store = if service.is_some() { by_module() } else { in_file(directory, key) };
        let (kind, alias) = (if key.kind == Kind::Rsa { "RSA" } else { "EC" }, key.kind.name());
        write!(
            connectors,
            "<Connector port='{port}' address='127.0.0.1' SSLEnabled='true'><SSLHostConfig>\
             <Certificate type='{kind}' certificateKeyAlias='{alias}' {store}/></SSLHostConfig></Connector>"
        )
        .unwrap();
    }
    for part in ["conf", "webapps", "logs", "temp", "work"] {
        fs::create_dir(directory.join(part)).unwrap();
    }
    fs::write(directory.join("conf/server.xml"), server(&connectors)).unwrap();
    let mut java = program("java");
    java.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:CompressedClassSpaceSize=32m", "-XX:ReservedCodeCacheSize=32m"]);
    // A search reads also the address space that an arena reserves.
    java.env("MALLOC_ARENA_MAX", "1").arg("-cp").arg(format!("{HOME}/bin/bootstrap.jar:{HOME}/bin/tomcat-juli.jar"));
    java.arg(format!("-Dcatalina.home={HOME}")).arg(format!("-Dcatalina.base={}", directory.display()));
    java.arg(format!("-Djava.io.tmpdir={}", directory.join("temp").display()));
    if let Some(service) = service {
        let (module, settings) = (directory.join("module.cfg"), directory.join("java.security"));
        let library = library::built("sidecore-pkcs11");
        fs::write(&module, format!("name = sidecore\nlibrary = {}\n", library.display())).unwrap();
        fs::write(&settings, format!("security.provider.12=SunPKCS11 {}\n", module.display())).unwrap();
        java.arg(format!("-Djava.security.properties={}", settings.display()));
        java.env("SIDECORE_SOCKET", service.socket());
    }
    java.args(["org.apache.catalina.startup.Bootstrap", "start"]);
    let mut daemon = Daemon::start("tomcat", &mut java, &directory.join("tomcat.log"));
    for port in &ports {
        daemon.wait_for_port(*port);
    }
    Tomcat { daemon, ports }
}

fn by_module() -> String {
    "certificateKeystoreType='PKCS11' certificateKeystoreProvider='SunPKCS11-sidecore' certificateKeystoreFile='NONE'"
        .to_owned()
}

fn in_file(directory: &Path, key: &Material) -> String {
    let store = directory.join(format!("{}.p12", key.kind.name()));
    let mut command = program("openssl");
    command.args(["pkcs12", "-export", "-name", key.kind.name(), "-passout", "pass:changeit", "-inkey"]);
    command.arg(&key.key).arg("-in").arg(&key.certificate).arg("-out").arg(&store);
    run(&mut command).expect("pkcs12");
    format!("certificateKeystoreType='PKCS12' certificateKeystoreFile='{}'", store.display())
}

/// Signatures of a key before the search: two handshakes and the first of the load, whose others resume its session.
const LEAST_SIGNATURES: u64 = 3;

/// Handshakes, then a search under load.
fn search_in_use(tomcat: &Tomcat, keys: &[Material], directory: &Path) -> Seen {
    for (key, port) in keys.iter().zip(&tomcat.ports) {
        for how in [TLS_12, TLS_13] {
            shake(*port, key, how);
        }
        let answered = Load::start(*port, directory).answered();
        assert!(answered > 0, "{}", tomcat.daemon.log());
    }
    let loads: Vec<Load> = tomcat.ports.iter().map(|port| Load::start(*port, directory)).collect();
    let seen = search(&tomcat.daemon.family(), &Needles::of(keys));
    drop(loads);
    seen
}

#[test]
fn keys_in_files_are_found_in_tomcat() {
    program("/usr/share/tomcat10/bin/bootstrap.jar");
    let directory = directory();
    let keys = KINDS.map(|kind| Material::make(directory.path(), kind));
    let tomcat = start(directory.path(), &keys, None);
    let seen = search_in_use(&tomcat, &keys, directory.path());
    assert_eq!(seen.numbers, all_numbers(&keys));
}

#[test]
fn stored_keys_never_enter_tomcat() {
    program("/usr/share/tomcat10/bin/bootstrap.jar");
    let directory = directory();
    let keys = KINDS.map(|kind| Material::make(directory.path(), kind));
    let service = Service::start(directory.path());
    for key in &keys {
        service.import_for(key, &[]);
        service.certify(key);
    }
    let tomcat = start(directory.path(), &keys, Some(&service));
    let seen = search_in_use(&tomcat, &keys, directory.path());
    for key in &keys {
        let made = service.signatures(key);
        assert!(made >= LEAST_SIGNATURES, "{:?}: the service made {made} signatures", key.kind);
    }
    assert_eq!(seen.numbers, BTreeSet::new());
    assert!(seen.mappings.iter().any(|label| label.contains("sidecore_pkcs11")), "{seen:?}");
    assert!(seen.mappings.iter().any(|label| label.starts_with("/memfd:")), "no lane was searched: {seen:?}");
}
