//! Programs that reach their keys by the agent, PKCS#11 or C: sshd, gnutls-serv, and an example in C.

use super::version::Version;
use crate::handshake::{TLS_13, handshake};
use crate::material::{Kind, Material};
use crate::programs::{Daemon, Done, free_port, program, run};
use crate::service::Service;
use crate::sshd;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

pub(super) struct Face {
    pub(super) name: &'static str,
    /// Program or library of the version.
    pub(super) by: &'static str,
    begin: fn(&Path, &Service, &Version, &Material) -> Running,
}

pub(super) const FACES: [Face; 3] = [
    Face { name: "gnutls-serv", by: "libsidecore_pkcs11.so", begin: pkcs11 },
    Face { name: "sshd", by: "sidecore-agent", begin: agent },
    Face { name: "C", by: "libsidecore.so", begin: c },
];

pub(super) struct Running {
    daemons: Vec<Daemon>,
    shake: Box<dyn Fn() -> Done + Sync>,
}

impl Face {
    /// With a key of the service, which has none yet.
    pub(super) fn start(&self, directory: &Path, service: &Service, library: &Version) -> Running {
        let key = Material::make(directory, Kind::P256);
        service.import_for(&key, &[]);
        (self.begin)(directory, service, library, &key)
    }
}

impl Running {
    pub(super) fn shake(&self) -> Done {
        (self.shake)()
    }

    pub(super) fn log(&self) -> String {
        self.daemons.iter().map(Daemon::log).collect()
    }
}

fn pkcs11(directory: &Path, service: &Service, library: &Version, key: &Material) -> Running {
    let port = free_port();
    let mut command = program("gnutls-serv");
    command.args(["--quiet", "--http", "--port", &port.to_string(), "--provider"]);
    command.arg(library.file(FACES[0].by)).arg("--x509certfile").arg(&key.certificate);
    command.args(["--x509keyfile", &format!("pkcs11:token=sidecore;object={};type=private", key.kind.name())]);
    command.env("SIDECORE_SOCKET", service.socket());
    let mut daemon = Daemon::start("gnutls-serv", &mut command, &directory.join("gnutls.log"));
    daemon.wait_for_port(port);
    let key = key.clone();
    Running { daemons: vec![daemon], shake: Box::new(move || handshake(port, &key, TLS_13)) }
}

fn agent(directory: &Path, service: &Service, library: &Version, key: &Material) -> Running {
    let (socket, user) = (directory.join("agent"), sshd::user_key(directory));
    let mut command = Command::new(library.file(FACES[1].by));
    command.args(["agent", "--service"]).arg(service.socket()).arg("--socket").arg(&socket);
    let mut agent = Daemon::start("sidecore-agent", &mut command, &directory.join("agent.log"));
    agent.wait_for_socket(&socket);
    let listed = run(program("ssh-add").arg("-L").env("SSH_AUTH_SOCK", &socket)).expect("ssh-add -L");
    let public = directory.join(format!("{}.pub", key.kind.name()));
    fs::write(&public, listed).unwrap();
    let host_keys = format!("HostKeyAgent {}\nHostKey {}\n", socket.display(), public.display());
    let (sshd, port) = sshd::start(directory, &user, &host_keys);
    let shake = move || {
        let mut ssh = program("ssh");
        ssh.args(["-F", "none", "-p", &port.to_string(), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i"]);
        ssh.arg(&user).args(["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]);
        run(ssh.args(["root@127.0.0.1", "true"]))
    };
    Running { daemons: vec![sshd, agent], shake: Box::new(shake) }
}

/// A new process for each signature.
fn c(directory: &Path, service: &Service, library: &Version, key: &Material) -> Running {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("sidecore-c");
    for name in ["libsidecore.so", "libsidecore.so.0"] {
        symlink(library.file(FACES[2].by), directory.join(name)).unwrap();
    }
    let queue = directory.join("queue");
    let mut cc = program("cc");
    cc.arg(source.join("examples/queue.c")).arg("-I").arg(source.join("include")).arg("-L").arg(directory);
    run(cc.arg("-lsidecore").arg("-o").arg(&queue)).expect("cc");
    let (directory, socket, name) = (directory.to_owned(), service.socket(), key.kind.name());
    let shake = move || {
        let mut sh = program("sh");
        sh.args(["-c", "echo text | \"$0\" \"$1\""]).arg(&queue).arg(name);
        run(sh.env("LD_LIBRARY_PATH", &directory).env("SIDECORE_SOCKET", &socket))
    };
    Running { daemons: Vec::new(), shake: Box::new(shake) }
}
