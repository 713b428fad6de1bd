//! The hook of docs/keys.md, run by certbot while nginx serves. A local ACME server issues certificates after certbot
//! has proved control of the name.

use crate::guides::{blocks, page};
use crate::material::{Kind, Material};
use crate::module;
use crate::programs::{BOUND, Daemon, free_port, program, run, wait_for};
use crate::server::{Configured, Identity, Program, Server, WORKER};
use crate::service::Service;
use sidecore::keys::uri::Uri;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Let's Encrypt's ACME server for tests: a version for current Go, and one for Debian 12's.
const PEBBLE: &str = "github.com/letsencrypt/pebble/v2/cmd/pebble";
const VERSIONS: [&str; 2] = ["v2.7.0", "v2.4.0"];

struct Authority {
    directory: PathBuf,
    url: String,
    http_port: u16,
    _server: Daemon,
}

impl Authority {
    fn start(directory: &Path, tls: &Material) -> Self {
        let [port, management, http_port, tls_port] = [(); 4].map(|()| free_port());
        let (certificate, key) = (tls.certificate.display(), tls.key.display());
        let configuration = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
            "certificate": "{certificate}", "privateKey": "{key}", "httpPort": {http_port}, "tlsPort": {tls_port}}}}}"#
        );
        fs::write(directory.join("pebble.json"), configuration).unwrap();
        let mut command = Command::new(pebble());
        command
            .arg("-config")
            .arg(directory.join("pebble.json"))
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0")]);
        let mut server = Daemon::start("pebble", &mut command, &directory.join("pebble.log"));
        server.wait_for_port(port);
        let url = format!("https://localhost:{port}/dir");
        Self { directory: directory.to_owned(), url, http_port, _server: server }
    }

    fn certbot(&self, arguments: &[&str]) -> String {
        let mut certbot = program("certbot");
        for directory in ["config", "work", "logs"] {
            certbot.arg(format!("--{directory}-dir")).arg(self.directory.join("certbot").join(directory));
        }
        certbot.args(arguments).args(["--non-interactive", "--server", &self.url]);
        certbot.env("REQUESTS_CA_BUNDLE", self.directory.join("p-256.certificate.pem"));
        run(&mut certbot).expect("certbot")
    }

    fn obtain(&self) {
        let port = self.http_port.to_string();
        self.certbot(&[
            "certonly",
            "--standalone",
            "--http-01-address",
            "127.0.0.1",
            "--http-01-port",
            &port,
            "-d",
            "localhost",
            "--agree-tos",
            "--register-unsafely-without-email",
        ]);
    }

    fn renew(&self, hook: &Path) -> String {
        let hook = hook.to_str().unwrap();
        self.certbot(&["renew", "--force-renewal", "--no-random-sleep-on-renew", "--deploy-hook", hook])
    }

    fn lineage(&self, file: &str) -> PathBuf {
        self.directory.join("certbot/config/live/localhost").join(file)
    }

    fn keys(&self) -> usize {
        let archive = fs::read_dir(self.directory.join("certbot/config/archive/localhost")).unwrap();
        archive.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with("privkey")).count()
    }
}

fn pebble() -> PathBuf {
    let go = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    let built = go.join("bin/pebble");
    let install = |version: &&str| {
        let mut command = program("go");
        command.arg("install").arg(format!("{PEBBLE}@{version}"));
        command.env("GOPATH", &go).env("GOCACHE", go.join("cache")).env("GOFLAGS", "-modcacherw");
        let done = command.output().unwrap();
        eprintln!("go install {PEBBLE}@{version}: {}", String::from_utf8_lossy(&done.stderr));
        done.status.success()
    };
    assert!(built.is_file() || VERSIONS.iter().any(install), "no ACME server was built");
    built
}

struct Site {
    service: Service,
    output: PathBuf,
    hook: PathBuf,
    server: Server,
}

impl Site {
    fn start(directory: &Path, authority: &Authority) -> Self {
        let service = Service::keeping_keys(directory);
        let output = directory.join("www.sidecore.pem");
        let sidecore = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
            run(command.args(arguments).env("SIDECORE_SOCKET", service.socket())).expect("sidecore")
        };
        sidecore(&["keys", "import", "www", authority.lineage("privkey.pem").to_str().unwrap(), "--gid", WORKER]);
        sidecore(&["keys", "pem", "www", "--output", output.to_str().unwrap()]);
        let identity = Identity { certificate: authority.lineage("fullchain.pem"), key: output.clone(), client: None };
        let configured: Configured = Program::Nginx.configure(directory, &[identity]);
        let server = configured.start(service.told(&mut configured.command()));
        let hook = directory.join("hook");
        let site = Self { service, output, hook, server };
        site.write_hook(directory, &format!("kill -HUP {}", site.server.daemon.pid()));
        site
    }

    fn write_hook(&self, directory: &Path, reload: &str) {
        let page = page("keys.md");
        let (_, command) = blocks(&page).into_iter().find(|(_, text)| text.contains("sidecore keys renew")).unwrap();
        let mut script = "#!/bin/sh\nset -e\n".to_owned();
        let bin = Path::new(env!("CARGO_BIN_EXE_sidecore")).parent().unwrap();
        // The worker's user tests the key without access to cargo's directory.
        let (module, configuration) = (directory.join("sidecore.so"), directory.join("worker.cnf"));
        fs::copy(module::path(), &module).unwrap();
        let text = fs::read_to_string(directory.join("openssl.cnf")).unwrap();
        fs::write(&configuration, text.replace(module::path().to_str().unwrap(), module.to_str().unwrap())).unwrap();
        writeln!(script, "export PATH={}:$PATH SIDECORE_SOCKET={}", bin.display(), self.service.socket().display())
            .unwrap();
        writeln!(script, "export OPENSSL_CONF={}", configuration.display()).unwrap();
        script += &command
            .replace("/etc/nginx/www.sidecore.pem", self.output.to_str().unwrap())
            .replace("systemctl reload nginx", reload);
        fs::write(&self.hook, script).unwrap();
        fs::set_permissions(&self.hook, Permissions::from_mode(0o755)).unwrap();
    }

    fn key(&self) -> String {
        Uri::from_pem(&fs::read(&self.output).unwrap()).unwrap().name().to_owned()
    }

    fn stored(&self) -> usize {
        let mut list = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        run(list.args(["keys", "list", "--json", "--socket"]).arg(self.service.socket()))
            .expect("keys list")
            .lines()
            .count()
    }

    fn serves_by(&self, key: &str) -> bool {
        let server = format!("localhost:{}", self.server.ports[0]);
        let mut test = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        test.args(["keys", "test", "--server", &server, "--socket"]).arg(self.service.socket()).arg(&self.output);
        let done = run(self.service.told(&mut test));
        assert_eq!(self.key(), key);
        done.stdout.contains(&format!("shook hands by the key \"{key}\""))
    }
}

/// The page's second block: certbot's file keeps no key.
fn empty(authority: &Authority) {
    let page = page("keys.md");
    let (_, command) = blocks(&page).into_iter().find(|(_, text)| text.contains("shred")).unwrap();
    run(program("sh").args(["-c", &command]).env("RENEWED_LINEAGE", authority.lineage("")))
        .expect("the file is emptied");
    assert_eq!(fs::metadata(authority.lineage("privkey.pem")).unwrap().len(), 0);
}

#[test]
fn certbot_renews_again_and_again_and_nginx_goes_on_with_each_new_key_or_with_the_former_one() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    let authority = Authority::start(directory, &Material::make(directory, Kind::P256));
    authority.obtain();
    let site = Site::start(directory, &authority);
    let mut former = site.key();
    assert!(former == "www" && site.serves_by("www"));
    // The certificate arrives before its hook runs.
    for renewal in 1..=2 {
        authority.renew(&site.hook);
        let key = site.key();
        assert!(key.starts_with("www.") && key != former, "{key} after {former}");
        assert!(wait_for(BOUND, || site.serves_by(&key)), "{}", site.server.daemon.log());
        assert_eq!((authority.keys(), site.stored()), (1 + renewal, 1 + renewal));
        assert!(fs::symlink_metadata(authority.lineage("privkey.pem")).unwrap().is_symlink());
        former = key;
    }
    // Certbot's file has no key, and the server does not reload.
    empty(&authority);
    site.write_hook(directory, "false");
    authority.renew(&site.hook);
    let log = fs::read_to_string(directory.join("certbot/logs/letsencrypt.log")).unwrap();
    assert!(log.contains("error code 2"), "{log}");
    assert_eq!((site.key(), site.stored(), authority.keys()), (former, 3, 4));
    // The advice of the message.
    site.write_hook(directory, &format!("kill -HUP {}", site.server.daemon.pid()));
    run(Command::new(&site.hook).env("RENEWED_LINEAGE", authority.lineage(""))).expect("the hook, run again");
    let key = site.key();
    assert!(wait_for(BOUND, || site.serves_by(&key)), "{}", site.server.daemon.log());
}
