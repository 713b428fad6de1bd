//! sshd with host keys in files and by the agent: a search of its memory, also of the processes of a login.

use crate::library;
use crate::material::{Kind, Material};
use crate::memory::{Needles, Seen};
use crate::programs::{BOUND, Daemon, free_port, is_root, program, run, wait_for};
use crate::secrets::directory;
use crate::server::search;
use crate::service::Service;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SSHD: &str = "/usr/sbin/sshd";

fn algorithm(kind: Kind) -> &'static str {
    match kind {
        Kind::Rsa => "rsa-sha2-512",
        Kind::P256 => "ecdsa-sha2-nistp256",
        Kind::Ed25519 => "ssh-ed25519",
    }
}

/// A key of the user in a file, so that only host keys are of the service.
pub(crate) fn user_key(directory: &Path) -> PathBuf {
    let key = directory.join("user");
    let mut command = program("ssh-keygen");
    run(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key)).expect("ssh-keygen");
    key
}

pub(crate) fn start(directory: &Path, user: &Path, host_keys: &str) -> (Daemon, u16) {
    assert!(is_root(), "sshd logs root in: run this test as root");
    let port = free_port();
    let text = format!(
        "ListenAddress 127.0.0.1\nPort {port}\n{host_keys}AuthorizedKeysFile {}.pub\nStrictModes no\nUsePAM no\n\
         PidFile none\nPermitRootLogin prohibit-password\n",
        user.display()
    );
    let configuration = directory.join("sshd_config");
    fs::write(&configuration, text).unwrap();
    // The directory of its processes without rights.
    fs::create_dir_all("/run/sshd").unwrap();
    let mut sshd =
        Daemon::start("sshd", program(SSHD).args(["-D", "-e", "-f"]).arg(&configuration), &directory.join("sshd.log"));
    sshd.wait_for_port(port);
    (sshd, port)
}

/// Logs in at each of the host keys, and searches sshd with the processes of that login.
fn search_in_use(directory: &Path, user: &Path, sshd: &Daemon, port: u16, keys: &[Material]) -> Seen {
    let needles = Needles::of(keys);
    let mut seen = Seen::default();
    for key in keys {
        let mut ssh = program("ssh");
        ssh.args(["-F", "none", "-p", &port.to_string(), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i"]);
        ssh.arg(user).args(["-o", "StrictHostKeyChecking=accept-new", "-o"]);
        ssh.arg(format!("UserKnownHostsFile={}", directory.join(algorithm(key.kind)).display()));
        ssh.arg(format!("-oHostKeyAlgorithms={}", algorithm(key.kind)));
        ssh.args(["root@127.0.0.1", "echo logged in; exec sleep 600"]);
        let mut login = Daemon::start("ssh", &mut ssh, &directory.join("ssh.log"));
        login.wait_for_words("logged in");
        let family = sshd.family();
        assert!(family.len() > 1, "sshd has no process of the login: {}", sshd.log());
        seen.add(search(&family, &needles));
        login.kill();
        assert!(wait_for(BOUND, || sshd.family().len() == 1), "the login does not end: {}", sshd.log());
    }
    seen.add(search(&[sshd.pid()], &needles));
    seen
}

/// OpenSSH encrypts keys of its own format in memory. A key in PKCS#8 leaves its number in the memory of OpenSSL.
#[test]
fn a_host_key_in_a_file_is_found_in_sshd() {
    let directory = directory();
    let path = directory.path();
    let (key, user) = (Material::make(path, Kind::P256), user_key(path));
    let (sshd, port) = start(path, &user, &format!("HostKey {}\n", key.key.display()));
    let seen = search_in_use(path, &user, &sshd, port, &[key]);
    assert_eq!(seen.numbers, BTreeSet::from(["p-256: priv".to_owned()]));
}

#[test]
fn host_keys_of_the_agent_never_enter_sshd() {
    let directory = directory();
    let path = directory.path();
    let user = user_key(path);
    let keys = Kind::ALL.map(|kind| Material::make(path, kind));
    let service = Service::start(path);
    for key in &keys {
        service.import_for(key, &[]);
    }
    let socket = path.join("agent");
    let mut agent = Command::new(library::file("sidecore-agent", "sidecore-agent"));
    agent.args(["agent", "--service"]).arg(service.socket()).arg("--socket").arg(&socket);
    let mut agent = Daemon::start("sidecore-agent", &mut agent, &path.join("agent.log"));
    agent.wait_for_socket(&socket);
    let listed = run(program("ssh-add").arg("-L").env("SSH_AUTH_SOCK", &socket)).expect("ssh-add -L");
    let mut host_keys = format!("HostKeyAgent {}\n", socket.display());
    for (number, line) in listed.lines().enumerate() {
        let file = path.join(format!("host{number}.pub"));
        fs::write(&file, format!("{line}\n")).unwrap();
        writeln!(host_keys, "HostKey {}", file.display()).unwrap();
    }
    let (sshd, port) = start(path, &user, &host_keys);
    let seen = search_in_use(path, &user, &sshd, port, &keys);
    assert_eq!(seen.numbers, BTreeSet::new());
    for key in &keys {
        assert!(service.signatures(key) >= 1, "{:?}\n{}", key.kind, agent.log());
    }
    // The control of the agent itself: it has no key either.
    let in_agent = search(&[agent.pid()], &Needles::of(&keys));
    assert_eq!(in_agent.numbers, BTreeSet::new());
}
