//! sshd and ssh without keys of their own.

use crate::site::{Agent, KEYS, Site, root_or_skipped};
use sidecore::keys::Acl;
use std::fmt::Write;
use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const MAX_WAIT: Duration = Duration::from_secs(60);

pub(crate) struct Sshd {
    child: Child,
    pub(crate) port: String,
}

impl Sshd {
    /// With further lines of its configuration.
    pub(crate) fn start(site: &Site, more: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             LogLevel VERBOSE\n{more}",
        );
        fs::write(site.path("sshd_config"), config).unwrap();
        if rustix::process::geteuid().is_root() {
            // The directory of its processes without rights.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let log = fs::File::create(site.path("sshd.log")).unwrap();
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-e", "-f"]).arg(site.path("sshd_config")).stdin(Stdio::null()).stderr(log);
        let child = command.spawn().expect("apt-get install openssh-server");
        let mut sshd = Self { child, port };
        let begun = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{}", sshd.port)).is_err() {
            let runs = sshd.child.try_wait().unwrap().is_none();
            assert!(runs && begun.elapsed() < MAX_WAIT, "{}", said(site));
            thread::sleep(Duration::from_millis(20));
        }
        sshd
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Host keys and authority of the agent's keys.
fn with_agent(site: &Site, hosts: &Agent) -> String {
    let path = |name: &str| site.path(name).display().to_string();
    let keys = KEYS.map(|(name, _)| format!("HostKey {}", path(&format!("host-{name}.pub")))).join("\n");
    format!(
        "HostKeyAgent {agent}\n{keys}\nAuthorizedKeysFile {authorized}\nTrustedUserCAKeys {ca}\n",
        agent = hosts.socket.display(),
        authorized = path("authorized"),
        ca = path("ca.pub"),
    )
}

fn said(site: &Site) -> String {
    fs::read_to_string(site.path("sshd.log")).unwrap_or_default()
}

fn public(site: &Site, agent: &Agent, key: &str) -> String {
    let listed = site.run(agent, "ssh-add", &["-L"], "");
    listed.lines().find(|line| line.ends_with(&format!(" {key}"))).unwrap().to_owned()
}

/// Logs in with the key of this file, at the host key of this algorithm.
fn log_in(site: &Site, agent: &Agent, sshd: &Sshd, key: &str, host: &str, works: bool) {
    let file = format!("IdentityFile={}", site.path(key).display());
    let hosts = format!("UserKnownHostsFile={}", site.path("known").display());
    let algorithm = format!("HostKeyAlgorithms={host}");
    let options = [&file, &hosts, &algorithm, "IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=yes"];
    let options = options.iter().flat_map(|option| ["-o", option]);
    let arguments: Vec<&str> =
        ["-F", "none", "-p", &sshd.port].into_iter().chain(options).chain(["root@127.0.0.1", "echo", "in"]).collect();
    let done = site.output(agent, "ssh", &arguments, "");
    let text = format!("{key} {host}: {}\n{}\n{}", String::from_utf8_lossy(&done.stderr), said(site), agent.said());
    assert_eq!(done.status.success() && done.stdout == b"in\n", works, "{text}");
}

#[test]
fn sshd_and_its_clients_meet_with_keys_that_neither_of_them_has() {
    if !root_or_skipped("run sshd") {
        return;
    }
    let site = Site::with(&KEYS);
    for (name, kind) in KEYS {
        site.make(&format!("host-{name}"), kind, Acl::default());
    }
    site.make("ca", KEYS[3].1, Acl::default());
    let names = |prefix: &str| KEYS.map(|(name, _)| format!("{prefix}{name}")).join(",");
    let (hosts, all) = (site.agent_at("hosts", &["--keys", &names("host-")]), site.agent(&[]));
    let (mut known, mut authorized) = (String::new(), String::new());
    for (name, _) in KEYS {
        let host = public(&site, &hosts, &format!("host-{name}"));
        // As the guide has it: sshd tries the file as a private key first.
        let file = site.path(&format!("host-{name}.pub"));
        fs::write(&file, &host).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        writeln!(known, "* {host}").unwrap();
        let user = public(&site, &all, name);
        fs::write(site.path(&format!("{name}.pub")), &user).unwrap();
        // The Ed25519 key is certified only.
        if name != "ed25519" {
            writeln!(authorized, "{user}").unwrap();
        }
    }
    // The authority's key is one of the agent, too.
    fs::write(site.path("ca.pub"), public(&site, &all, "ca")).unwrap();
    let certify = ["-q", "-U", "-s", "ca.pub", "-I", "me", "-n", "root", "-V", "+1h", "ed25519.pub"];
    site.run(&all, "ssh-keygen", &certify, "");
    fs::write(site.path("authorized"), authorized).unwrap();
    fs::write(site.path("known"), known).unwrap();
    let sshd = Sshd::start(&site, &with_agent(&site, &hosts));
    let clients = site.agent_at("clients", &["--keys", &names("")]);
    for (key, host) in [
        ("rsa.pub", "rsa-sha2-512"),
        ("rsa.pub", "rsa-sha2-256"),
        ("p256.pub", "ecdsa-sha2-nistp256"),
        ("p384.pub", "ecdsa-sha2-nistp384"),
        ("rsa.pub", "ssh-ed25519"),
    ] {
        log_in(&site, &clients, &sshd, key, host, true);
    }
    log_in(&site, &clients, &sshd, "ed25519.pub", "ssh-ed25519", false);
    let certificate = site.path("ed25519-cert.pub");
    let certified = site.agent_at("certified", &["--keys", "ed25519", "--certificate", certificate.to_str().unwrap()]);
    let listed = site.run(&certified, "ssh-add", &["-L"], "");
    let kinds: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(kinds, ["ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519"]);
    log_in(&site, &certified, &sshd, "ed25519-cert.pub", "rsa-sha2-512", true);
    assert!(!said(&site).contains("UNPROTECTED PRIVATE KEY FILE"), "{}", said(&site));
    // Without the agent the server proves nothing.
    drop(hosts);
    log_in(&site, &clients, &sshd, "rsa.pub", "rsa-sha2-512", false);
}
