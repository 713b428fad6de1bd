//! Apache as a client of a server behind it, with the client's key in the service.

use crate::material::{Kind, Material};
use crate::programs::{Daemon, free_port, is_root, program, run};
use crate::secrets::directory;
use crate::server::{Identity, Program, WORKER};
use crate::service::Service;
use std::path::Path;
use std::process::Command;

fn configuration(directory: &Path, port: u16, behind: u16, file: &Path) -> String {
    let modules = ["mpm_event", "authz_core", "ssl", "proxy", "proxy_http"];
    let load =
        modules.map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")).concat();
    let (directory, file) = (directory.display(), file.display());
    format!(
        "ServerRoot {directory}\nServerName localhost\nPidFile {directory}/apache.pid\nListen 127.0.0.1:{port}\n\
         User {WORKER}\nGroup {WORKER}\nErrorLog /dev/stderr\n{load}Mutex file:{directory} default\n\
         SSLProxyEngine on\nSSLProxyVerify none\nSSLProxyCheckPeerName off\nSSLProxyMachineCertificateFile {file}\n\
         ProxyPass / https://127.0.0.1:{behind}/\n"
    )
}

/// `SSLProxyMachineCertificateFile` takes only blocks with the label of private keys.
#[test]
fn apache_shows_a_server_behind_it_a_certificate_whose_key_is_in_the_service() {
    assert!(is_root(), "Apache becomes another user: run this test as root");
    let directory = directory();
    let service = Service::start(directory.path());
    let (own, client) = (directory.path().join("own"), directory.path().join("client"));
    for place in [&own, &client] {
        std::fs::create_dir(place).unwrap();
    }
    let (own, client) = (Material::make(&own, Kind::Rsa), Material::make(&client, Kind::P256));
    service.import(&client);
    let identity = Identity { client: Some(client.certificate.clone()), ..Identity::from(&own) };
    let configured = Program::Nginx.configure(directory.path(), &[identity]);
    let behind = configured.start(&mut configured.command());

    let mut pem = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    pem.args(["keys", "pem", client.kind.name(), "--pkcs8", "--socket"]).arg(service.socket());
    let pem = run(&mut pem).expect("keys pem --pkcs8");
    let (file, port) = (directory.path().join("machine.pem"), free_port());
    std::fs::write(&file, std::fs::read_to_string(&client.certificate).unwrap() + &pem).unwrap();
    let conf = directory.path().join("apache.conf");
    std::fs::write(&conf, configuration(directory.path(), port, behind.ports[0], &file)).unwrap();
    let mut apache = program("apache2");
    apache.arg("-f").arg(&conf).arg("-DFOREGROUND");
    let mut apache = Daemon::start("Apache", service.told(&mut apache), &directory.path().join("apache.log"));
    apache.wait_for_port(port);
    let got = run(program("curl").args(["-sS", &format!("http://127.0.0.1:{port}/")]));
    assert!(got.ok() && got.stdout == "ok", "{got:?}\n{}\n{}", apache.log(), behind.daemon.log());
    assert!(service.signatures(&client) > 0, "{}", service.top());
}
