//! Programs that cannot reach the service's socket, and programs whose log does not show the reason for a failure.

use crate::common::Site;
use crate::programs::made;
use sidecore::keys::KeyCommand;
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

fn fails(site: &Site, command: &mut Command) -> String {
    let output = command.current_dir(site.path("")).env("OPENSSL_CONF", "openssl.cnf").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1), "{command:?}: {} {told}", output.status);
    told
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn a_program_without_unix_sockets_is_told_so() {
    let site = Site::with(&["p256"]);
    let told = fails(&site, Command::new(made(&site, "small")).args(["without-sockets", "p256.pem"]));
    assert!(told.contains("RestrictAddressFamilies") && told.contains("AF_UNIX"), "{told}");
    assert!(!told.contains("start"), "{told}");
}

#[test]
fn a_program_in_another_root_is_told_so() {
    if !is_root() {
        return skipped("only root can change a program's root");
    }
    let site = Site::with(&["p256"]);
    fs::create_dir(site.path("root")).unwrap();
    let told = fails(&site, Command::new(made(&site, "small")).args(["in-a-root", "p256.pem", "root"]));
    assert!(told.contains("chroot") && told.contains("has no /tmp"), "{told}");
    assert!(!told.contains("systemctl"), "{told}");
}

#[test]
fn a_user_who_may_not_connect_is_told_of_groups_in_units() {
    if !is_root() {
        return skipped("only root can become another user");
    }
    let site = Site::with(&["p256"]);
    for open in ["", "openssl.cnf", "p256.pem", "message"] {
        fs::set_permissions(site.path(open), Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(site.path("socket"), Permissions::from_mode(0o660)).unwrap();
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "openssl",
        "dgst",
        "-sign",
        "p256.pem",
        "message",
    ]);
    let told = fails(&site, &mut command);
    assert!(told.contains("SupplementaryGroups=") && told.contains("DynamicUser="), "{told}");
}

/// A command with a `/dev` of its own, where `log` is the socket of the site.
pub(crate) fn logged(program: &str) -> Command {
    let script = "dev=$PWD/dev; mkdir -p $dev; mount -t tmpfs dev $dev; for name in null zero urandom random; do touch $dev/$name; \
                  mount --bind /dev/$name $dev/$name; done; ln -s $PWD/log $dev/log; mount --rbind $dev /dev; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh", program]);
    command
}

pub(crate) fn lines(log: &UnixDatagram) -> Vec<String> {
    let mut room = [0; 4096];
    let next = || log.recv(&mut room).ok().map(|len| String::from_utf8_lossy(&room[..len]).into_owned());
    std::iter::from_fn(next).collect()
}

pub(crate) fn log_of(site: &Site) -> UnixDatagram {
    let log = UnixDatagram::bind(site.path("log")).unwrap();
    log.set_nonblocking(true).unwrap();
    log
}

#[test]
fn the_systems_log_is_told_once_why_a_program_failed() {
    if !is_root() {
        return skipped("only root can give a program another /dev");
    }
    let site = Site::with(&["p256", "rsa2048"]);
    let log = log_of(&site);
    site.admin().keys(KeyCommand::Delete { name: "p256".to_owned() }).unwrap();
    let sign = ["dgst", "-sha256", "-sign"];
    fails(&site, logged("openssl").args(sign).args(["p256.pem", "message"]));
    let told = lines(&log);
    let [line] = &told[..] else { panic!("one line: {told:?}") };
    assert!(line.starts_with("<27>sidecore[") && line.contains("]: openssl, user 0, key p256: the sidecore"), "{line}");
    assert!(line.contains("no key \"p256\"") && !line.contains('\n'), "{line}");
    // Neither a found key nor a mistake of the program itself is logged.
    fails(&site, logged("openssl").args(sign).args(["rsa2048.pem", "-sigopt", "rsa_padding_mode:x931", "message"]));
    assert_eq!(lines(&log), [""; 0]);
    // Turned off.
    let cnf = fs::read_to_string(site.path("openssl.cnf")).unwrap();
    fs::write(site.path("openssl.cnf"), cnf.replace("socket = ", "syslog = no\nsocket = ")).unwrap();
    fails(&site, logged("openssl").args(sign).args(["p256.pem", "message"]));
    assert_eq!(lines(&log), [""; 0]);
    fs::write(site.path("openssl.cnf"), cnf).unwrap();
    // First a log without room and without a reader, then no log at all.
    let full = UnixDatagram::unbound().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.send_to(b"full", site.path("log")).is_ok() {}
    fails(&site, logged("openssl").args(sign).args(["p256.pem", "message"]));
    drop(log);
    fails(&site, logged("openssl").args(sign).args(["p256.pem", "message"]));
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A TLS server in Python, which prints its port, and nothing on failed handshakes.
const PYTHON: &str = "import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('certificate', 'p256.pem')
with socket.create_server(('127.0.0.1', 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            connection.close()
";

#[test]
fn of_many_handshakes_that_fail_the_log_is_told_once() {
    if !is_root() {
        return skipped("only root can give a program another /dev");
    }
    let site = Site::with(&["p256"]);
    let log = log_of(&site);
    site.ok(&["req", "-x509", "-new", "-key", "p256.pem", "-subj", "/CN=localhost", "-out", "certificate"]);
    site.admin().keys(KeyCommand::Delete { name: "p256".to_owned() }).unwrap();
    let mut python = logged("python3");
    python.args(["-c", PYTHON]).current_dir(site.path("")).env("OPENSSL_CONF", "openssl.cnf").stdout(Stdio::piped());
    let mut server = Daemon(python.spawn().unwrap());
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    for _ in 0..20 {
        site.plain_fails(&["s_client", "-connect", &format!("127.0.0.1:{}", port.trim())]);
    }
    let told = lines(&log);
    let [line] = &told[..] else { panic!("one line: {told:?}") };
    assert!(line.contains("python3") && line.contains("key p256"), "{line}");
}

#[test]
fn vsftpd_in_its_own_root_says_that_it_cannot_see_the_socket() {
    if !is_root() {
        return skipped("vsftpd is started by root");
    }
    assert!(Command::new("vsftpd").arg("-v").output().is_ok(), "vsftpd is missing; run: sudo apt-get install vsftpd");
    let site = Site::with(&["rsa2048"]);
    site.ok(&["req", "-x509", "-new", "-key", "rsa2048.pem", "-subj", "/CN=localhost", "-out", "certificate"]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = |name: &str| site.path(name).display().to_string();
    fs::create_dir(site.path("empty")).unwrap();
    let settings = format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nssl_enable=YES\ndebug_ssl=YES\n\
         secure_chroot_dir={}\nrsa_cert_file={}\nrsa_private_key_file={}\nvsftpd_log_file={}\nxferlog_enable=YES\n\
         log_ftp_protocol=YES\nrequire_ssl_reuse=NO\nanonymous_enable=YES\nallow_anon_ssl=YES\n",
        at("empty"),
        at("certificate"),
        at("rsa2048.pem"),
        at("vsftpd.log"),
    );
    fs::write(site.path("vsftpd.conf"), settings).unwrap();
    let mut vsftpd = Command::new("vsftpd");
    vsftpd.arg(at("vsftpd.conf")).env("OPENSSL_CONF", at("openssl.cnf")).stdin(Stdio::null());
    let mut server = Daemon(vsftpd.spawn().unwrap());
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(server.0.try_wait().unwrap().is_none(), "vsftpd ended");
        std::thread::yield_now();
    }
    site.plain_fails(&["s_client", "-starttls", "ftp", "-connect", &format!("127.0.0.1:{port}")]);
    let told = fs::read_to_string(site.path("vsftpd.log")).unwrap();
    assert!(told.contains("cannot see the sidecore service's socket"), "{told}");
}
