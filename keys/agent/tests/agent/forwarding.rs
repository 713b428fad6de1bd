//! Connections that ssh hands to another machine (`ssh -A`), and what an attacker does on one.

use crate::raw::{FAILURE, ask, ask_on, blob, connect, list, message, next, sign, signature, string};
use crate::site::{Agent, KEYS, Site};
use crate::sshd::Sshd;
use sidecore::keys::{Acl, KeyCommand, Kind, Usage};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BIND: &str = "session-bind@openssh.com";
const SUCCESS: [u8; 1] = [6];
/// With the code for "not allowed".
const EXTENSION_FAILURE: [u8; 2] = [28, 9];

/// What a server signs in TLS 1.3.
fn certificate_verify() -> Vec<u8> {
    [&[b' '; 64][..], b"TLS 1.3, server CertificateVerify\0", &[7; 32]].concat()
}

fn mark(site: &Site, name: &str) {
    let usage = Usage::SIGN.with(Usage::SSH);
    site.keys(KeyCommand::SetUsage { name: name.to_owned(), usage });
}

fn sign_request(blob: &[u8], data: &[u8], flags: u32) -> Vec<u8> {
    message(13, &[&string(blob), &string(data), &flags.to_be_bytes()])
}

fn key_list() -> Vec<u8> {
    message(27, &[&string("sidecore-keys@sidecore")])
}

/// A host key, which the service has as well.
struct Host {
    blob: Vec<u8>,
    flags: u32,
}

impl Host {
    fn of(agent: &Agent, name: &str) -> Self {
        Self { blob: blob(&agent.socket, name), flags: if name == "rsa" { 4 } else { 0 } }
    }

    /// The host's signature of a session.
    fn signed(&self, agent: &Agent, session: &[u8]) -> Vec<u8> {
        let reply = ask(&agent.socket, &sign_request(&self.blob, session, self.flags));
        assert_eq!(reply[0], 14, "{}", agent.said());
        next(&mut &reply[1..])
    }

    fn bind(&self, agent: &Agent, session: &[u8], is_forwarding: u8) -> Vec<u8> {
        let signature = self.signed(agent, session);
        bind(&self.blob, session, &signature, is_forwarding)
    }
}

fn bind(host: &[u8], session: &[u8], signature: &[u8], is_forwarding: u8) -> Vec<u8> {
    message(27, &[&string(BIND), &string(host), &string(session), &string(signature), &[is_forwarding]])
}

/// A client's login to a server in this session, as it is signed.
fn login(key: &[u8], session: &[u8]) -> Vec<u8> {
    let parts = [string(session), vec![50], string("me"), string("ssh-connection"), string("publickey"), vec![1]];
    [parts.concat(), string("ssh-ed25519"), string(key)].concat()
}

/// The agent's user has a key for SSH, and that of a TLS server.
fn site_with_both(is_marked: bool) -> (Site, Agent) {
    let site = Site::with(&[("deploy", Kind::Ed25519), ("www", Kind::P256)]);
    if is_marked {
        mark(&site, "deploy");
    }
    let agent = site.agent(&[]);
    (site, agent)
}

#[test]
fn host_keys_of_each_kind_bind_a_connection_and_a_forged_signature_binds_none() {
    let site = Site::with(&KEYS);
    let agent = site.agent(&[]);
    for (name, _) in KEYS {
        let host = Host::of(&agent, name);
        let whole = host.bind(&agent, b"a session", 0);
        assert_eq!(ask(&agent.socket, &whole), SUCCESS, "{name}: {}", agent.said());
        let signature = host.signed(&agent, b"a session");
        let mut forged = signature.clone();
        *forged.last_mut().unwrap() ^= 1;
        let other = Host::of(&agent, if name == "p256" { "p384" } else { "p256" });
        for request in [
            bind(&host.blob, b"a session", &forged, 0),
            bind(&host.blob, b"another", &signature, 0),
            bind(&other.blob, b"a session", &signature, 0),
            bind(b"no key", b"a session", &signature, 0),
            bind(&host.blob, b"a session", b"", 0),
            [&whole[..], &[0]].concat(),
            whole[..whole.len() - 1].to_vec(),
        ] {
            let stream = connect(&agent.socket);
            assert_eq!(ask_on(&stream, &request), FAILURE, "{name}");
            // It may be one of another machine, and is treated so.
            assert_eq!(ask_on(&stream, &key_list()), EXTENSION_FAILURE, "{name}");
        }
    }
    let said = agent.said();
    assert!(said.contains("the host key did not sign this session"), "{said}");
    assert_eq!(ask(&agent.socket, &key_list())[0], 29, "other connections are as before");
}

#[test]
fn a_forwarded_connection_gets_no_extension_and_only_keys_for_ssh() {
    let (site, agent) = site_with_both(true);
    let www = blob(&site.agent_at("named", &["--keys", "www"]).socket, "www");
    let host = Host::of(&agent, "deploy");
    let local = connect(&agent.socket);
    // Before the binding, as a program of this machine.
    assert_eq!(ask_on(&local, &key_list())[0], 29);
    assert_eq!(ask_on(&local, &host.bind(&agent, b"one", 1)), SUCCESS);
    let far = local;
    let mut reply = &ask_on(&connect(&agent.socket), &key_list())[1..];
    next(&mut reply);
    let tls = |name: &str, public: &[u8]| {
        let parts = [string("sidecore-sign@sidecore"), string(name), string(public)];
        message(27, &[&parts.concat(), &0x0403_u32.to_be_bytes(), &string([7; 32])])
    };
    while !reply.is_empty() {
        let (name, public) = (String::from_utf8(next(&mut reply)).unwrap(), next(&mut reply));
        assert_eq!(ask_on(&far, &tls(&name, &public)), EXTENSION_FAILURE, "{name}");
        let works = ask(&agent.socket, &tls(&name, &public))[0] == 29;
        assert_eq!(works, name == "www", "{name}: Ed25519 has another scheme");
    }
    assert_eq!(ask_on(&far, &key_list()), EXTENSION_FAILURE);
    assert_eq!(ask_on(&far, &sign_request(&www, &certificate_verify(), 0)), FAILURE);
    assert_eq!(ask_on(&far, &sign_request(&www, &login(&www, b"two"), 0)), FAILURE);
    signature(&ask_on(&far, &sign_request(&host.blob, &login(&host.blob, b"two"), 0)));
    let names: Vec<String> = list(&agent.socket).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["deploy"]);
    let said = agent.said();
    assert!(said.contains("sidecore-keys@sidecore: refused to a connection from another machine"), "{said}");
    assert!(said.contains("keys usage NAME sign,ssh"), "{said}");
}

#[test]
fn without_a_key_for_ssh_all_are_offered_as_before_and_far_machines_get_logins_and_signed_files_only() {
    let (_site, agent) = site_with_both(false);
    assert_eq!(list(&agent.socket).len(), 2);
    assert!(agent.said().contains("keys usage deploy ssh"), "{}", agent.said());
    let (www, host) = (blob(&agent.socket, "www"), Host::of(&agent, "deploy"));
    // sshd's host key signs what it wants, on this machine.
    signature(&sign(&agent.socket, &host.blob, 0));
    let far = connect(&agent.socket);
    assert_eq!(ask_on(&far, &host.bind(&agent, b"one", 1)), SUCCESS);
    for data in [certificate_verify(), b"SSHSIG".to_vec(), vec![7; 32], login(&host.blob, b"two")] {
        assert_eq!(ask_on(&far, &sign_request(&www, &data, 0)), FAILURE, "{data:?}");
    }
    let file = [b"SSHSIG".to_vec(), string("git"), string(""), string("sha256"), string([7; 32])].concat();
    for data in [login(&www, b"two"), file] {
        signature(&ask_on(&far, &sign_request(&www, &data, 0)));
    }
    let said = agent.said();
    assert!(said.contains("another machine asked, for something that is no login"), "{said}");
}

#[test]
fn a_connection_signs_the_login_that_it_is_bound_to_and_that_of_no_other_hop() {
    let (_site, agent) = site_with_both(true);
    let host = Host::of(&agent, "deploy");
    let sign_on =
        |stream: &UnixStream, session: &[u8]| ask_on(stream, &sign_request(&host.blob, &login(&host.blob, session), 0));
    // As ssh does for a login of its own, and as the second of two hops does.
    for hops in [&[][..], &[(&b"first"[..], 1_u8)], &[(b"first", 1), (b"second", 1)]] {
        let stream = connect(&agent.socket);
        for (session, is_forwarding) in hops {
            assert_eq!(ask_on(&stream, &host.bind(&agent, session, *is_forwarding)), SUCCESS);
        }
        assert_eq!(ask_on(&stream, &host.bind(&agent, b"own", 0)), SUCCESS);
        signature(&sign_on(&stream, b"own"));
        for other in [&b"first"[..], b"second", b"another", b""] {
            let reply = sign_on(&stream, other);
            // Without a session it is no login, which a key for SSH signs all the same.
            assert_eq!(reply == FAILURE, !other.is_empty(), "{other:?}");
        }
        // Bound to a login, it is bound to nothing further, not even to the same again.
        for (session, is_forwarding) in [(&b"another"[..], 0), (b"another", 1), (b"own", 0)] {
            assert_eq!(ask_on(&stream, &host.bind(&agent, session, is_forwarding)), FAILURE);
        }
        signature(&sign_on(&stream, b"own"));
        assert_eq!(sign_on(&stream, b"another"), FAILURE);
    }
    let said = agent.said();
    assert!(said.contains("for another session than that of its connection"), "{said}");
    assert!(said.contains("bound to a login already"), "{said}");
}

/// A connection of ssh to a server, with the agent's socket that the server has by it.
struct Forwarded {
    ssh: Child,
    socket: PathBuf,
}

impl Forwarded {
    fn new(site: &Site, agent: &Agent, sshd: &Sshd) -> Self {
        let mut command = Command::new("ssh");
        command.args(ssh_options(site, sshd)).args(["-A", &format!("{}@127.0.0.1", user())]);
        // Lasts until its input ends.
        command.arg("echo \"$SSH_AUTH_SOCK\"; cat").env("SSH_AUTH_SOCK", &agent.socket);
        let mut ssh = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(ssh.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let socket = PathBuf::from(line.trim());
        assert!(socket.exists() && socket != agent.socket, "{line:?}: {}", agent.said());
        Self { ssh, socket }
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

fn user() -> String {
    let name = Command::new("id").arg("-un").output().unwrap().stdout;
    String::from_utf8(name).unwrap().trim().to_owned()
}

fn ssh_options(site: &Site, sshd: &Sshd) -> Vec<String> {
    let hosts = format!("UserKnownHostsFile={}", site.path("known").display());
    let options = [&hosts, "BatchMode=yes", "StrictHostKeyChecking=yes", "LogLevel=ERROR"].map(str::to_owned);
    let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]);
    ["-F", "none", "-p", &sshd.port].map(str::to_owned).into_iter().chain(options).collect()
}

/// An unprivileged server where the test runs without rights: it lets in its own user by the key `deploy`.
fn server(site: &Site, agent: &Agent) -> Sshd {
    let path = |name: &str| site.path(name).display().to_string();
    let host = path("host");
    site.run(agent, "ssh-keygen", &["-q", "-t", "ecdsa", "-N", "", "-f", &host], "");
    let listed = site.run(agent, "ssh-add", &["-L"], "");
    fs::write(site.path("authorized"), listed.lines().find(|line| line.ends_with(" deploy")).unwrap()).unwrap();
    fs::write(site.path("known"), format!("* {}", fs::read_to_string(site.path("host.pub")).unwrap())).unwrap();
    Sshd::start(site, &format!("HostKey {host}\nAuthorizedKeysFile {}\n", path("authorized")))
}

#[test]
fn openssh_binds_its_connections_and_a_far_machine_logs_in_further_and_signs_nothing_else() {
    for is_marked in [true, false] {
        let (site, agent) = site_with_both(is_marked);
        let sshd = server(&site, &agent);
        // OpenSSH says whether the agent took its binding.
        let target = format!("{}@127.0.0.1", user());
        let options = ssh_options(&site, &sshd);
        // The first value of an option counts.
        let mut direct = vec!["-o", "LogLevel=DEBUG3"];
        direct.extend(options.iter().map(String::as_str).chain([&target, "echo", "in"]));
        let done = site.output(&agent, "ssh", &direct, "");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("bound agent to hostkey"), "{said}\n{}", agent.said());

        let forwarded = Forwarded::new(&site, &agent, &sshd);
        assert_far_machine_is_limited(&forwarded.socket, &agent, is_marked);
        // From the far machine to a third one, twice over, by OpenSSH itself: each hop binds the connection further.
        let mut far = Command::new("timeout");
        far.args(["60", "ssh"]).args(&options).args(["-A", &target]);
        far.arg(format!("ssh {} {target} echo in", options.join(" "))).env("SSH_AUTH_SOCK", &forwarded.socket);
        let done = far.stdin(Stdio::null()).output().unwrap();
        assert_eq!(done.stdout, b"in\n", "{done:?}\n{}", agent.said());
    }
}

fn assert_far_machine_is_limited(socket: &Path, agent: &Agent, is_marked: bool) {
    assert_eq!(list(socket).len(), if is_marked { 1 } else { 2 });
    let deploy = Host::of(agent, "deploy");
    assert_eq!(ask(socket, &key_list()), EXTENSION_FAILURE, "{}", agent.said());
    for (name, _) in list(socket) {
        let is_refused = ask(socket, &sign_request(&name, &certificate_verify(), 0)) == FAILURE;
        assert_eq!(is_refused, !is_marked, "a key for SSH alone may sign anything");
    }
    // The attacker's own bindings: one of another session with a signature of its own making, a forged one, and a
    // second one after a login.
    let forged = bind(&deploy.blob, b"forged", &deploy.signed(agent, b"other"), 0);
    for request in [deploy.bind(agent, b"mine", 0), deploy.bind(agent, b"mine", 1), forged] {
        let stream = connect(socket);
        ask_on(&stream, &request);
        assert_eq!(ask_on(&stream, &key_list()), EXTENSION_FAILURE);
        assert_eq!(
            ask_on(&stream, &deploy.bind(agent, b"next", 0)) == SUCCESS,
            request.last() == Some(&1) || request.windows(6).any(|part| part == b"forged")
        );
        assert_eq!(ask_on(&stream, &key_list()), EXTENSION_FAILURE);
    }
}

#[test]
fn a_key_with_a_certificate_is_listed_with_the_one_of_its_file_and_a_renewal_changes_both_at_once() {
    let site = Site::with(&[("me", Kind::Ed25519), ("ca", Kind::Ed25519)]);
    let (all, next_key) = (site.agent(&[]), "next");
    site.make(next_key, Kind::Ed25519, Acl::default());
    let write = |file: &str, key: &str| {
        let line = site.run(&all, "ssh-add", &["-L"], "");
        fs::write(site.path(file), line.lines().find(|line| line.ends_with(&format!(" {key}"))).unwrap()).unwrap();
    };
    write("ca.pub", "ca");
    let certify = |file: &str, key: &str| {
        write(&format!("{file}.pub"), key);
        let file = format!("{file}.pub");
        site.run(&all, "ssh-keygen", &["-q", "-U", "-s", "ca.pub", "-I", "me", "-n", "me", "-V", "+1h", &file], "");
    };
    certify("id", "me");
    let path = site.path("id-cert.pub");
    let agent = site.agent_at("certified", &["--keys", "me", "--certificate", path.to_str().unwrap()]);
    let kinds = || -> Vec<(bool, Vec<u8>)> {
        let listed = list(&agent.socket).into_iter();
        listed.map(|(blob, _)| (blob.windows(8).any(|part| part == b"-cert-v0"), blob)).collect()
    };
    let before = kinds();
    assert_eq!(before.iter().map(|(is_certificate, _)| *is_certificate).collect::<Vec<_>>(), [true, false]);
    // The file comes first: the former certificate is kept with its key, which the service still has.
    certify("new", next_key);
    fs::rename(site.path("new-cert.pub"), &path).unwrap();
    assert_eq!(kinds(), before, "{}", agent.said());
    signature(&sign(&agent.socket, &before[0].1, 0));
    // Then the key, under the former one's name.
    site.keys(KeyCommand::Delete { name: "me".to_owned() });
    site.keys(KeyCommand::Rename { name: next_key.to_owned(), new: "me".to_owned() });
    let after = kinds();
    assert_eq!(after.iter().map(|(is_certificate, _)| *is_certificate).collect::<Vec<_>>(), [true, false]);
    assert!(after.iter().all(|new| !before.contains(new)));
    signature(&sign(&agent.socket, &after[0].1, 0));
    assert_eq!(sign(&agent.socket, &before[0].1, 0), FAILURE);
}
