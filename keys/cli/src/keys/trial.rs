//! `sidecore keys test`: whether a server can use a key's file, step by step, with the rights of the server's user.

use super::requests;
use crate::args::keys::Trial;
use crate::error::{CliError, failed, unusable};
use crate::launch;
use crate::scratch::Scratch;
use crate::set::connect;
use nix::unistd::{User, getgrouplist};
use rustix::process::geteuid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use sidecore::client::Admin;
use sidecore::keys::pem::first_block;
use sidecore::keys::uri::Uri;
use sidecore::keys::{KeyInfo, Kind, read_public_key};
use sidecore_ipc::named_file::NamedFile;
use sidecore_terminal::output;
use std::ffi::CString;
use std::fmt::Write;
use std::fs;
use std::io::{self, Read};
use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::{Command, Stdio};

const MESSAGE: &[u8] = b"a message that nobody else signs: sidecore keys test\n";
/// More than any file of a key or certificate has, bytes.
const MAX_FILE: u64 = 1 << 20;
const HANDSHAKE_SECONDS: &str = "20";
/// OpenSSL's configuration on a system with sidecore installed.
const INSTALLED: &str = "/etc/ssl/openssl-sidecore.cnf";

type Step = Result<String, CliError>;

struct Told(String);

impl Told {
    /// `None`: the step failed.
    fn step<T>(&mut self, what: &str, step: Result<T, CliError>, found: impl FnOnce(&T) -> String) -> Option<T> {
        let (state, text) =
            step.as_ref().map_or_else(|wrong| ("FAILED", wrong.to_string()), |value| ("ok", found(value)));
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{state:<6} {what}: {text}");
        step.ok()
    }

    fn tell(&mut self, what: &str, step: Step) -> Option<()> {
        self.step(what, step, Clone::clone).map(drop)
    }
}

/// Runs the steps up to the first failure and prints each result. `true`: all succeeded.
pub(super) fn run(socket: &Path, trial: &Trial) -> Result<bool, CliError> {
    if let Some(name) = &trial.user {
        become_user(name)?;
    }
    let mut told = Told(String::new());
    let fine = try_all(socket, trial, &mut told).is_some();
    output::print(&told.0)?;
    Ok(fine)
}

fn try_all(socket: &Path, trial: &Trial, told: &mut Told) -> Option<()> {
    let file = trial.file.as_path();
    let named = |(_, uri): &(_, Uri)| format!("it names the key {:?}", uri.name());
    let (text, uri) = told.step("file", named_key(file), named)?;
    let answers = |_: &Admin| format!("it answers at {}", socket.display());
    let mut service = told.step("service", connect(socket), answers)?;
    let info = service.key_info(uri.name()).map_err(Into::into);
    let usable = |info: &KeyInfo| format!("of kind {}, which this user may use", info.kind.name());
    let info = told.step("key", info, usable)?;
    told.tell("public part", same_public(&uri, &info, file))?;
    if let Some(certificate) = certificate_of(trial, &text) {
        told.tell("certificate", certificate.and_then(|public| belongs(&public, &info)))?;
    }
    let openssl = OpenSsl::new(socket).and_then(|openssl| Ok((openssl.loads(file)?, openssl)));
    let (_, openssl) = told.step("provider", openssl, |(loaded, _)| loaded.clone())?;
    if matches!(info.kind, Kind::X25519 | Kind::MlKem768) {
        return told.tell("use", Ok("this kind agrees on secrets, which is not tried".to_owned()));
    }
    told.tell("signature", openssl.signs(file, &info.public))?;
    let Some(server) = &trial.server else { return Some(()) };
    told.tell("server", shakes_hands(server, socket, &info))
}

fn named_key(file: &Path) -> Result<(Vec<u8>, Uri), CliError> {
    let remedy = "name a file of `sidecore keys pem` that this user may read";
    let text = whole(file).map_err(|error| CliError::Usage(format!("{}: {error}: {remedy}", file.display())))?;
    let uri = Uri::from_pem(&text).map_err(CliError::library)?;
    Ok((text, uri))
}

fn whole(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    NamedFile::open(file)?.take(MAX_FILE).read_to_end(&mut bytes).map(|_| bytes)
}

fn same_public(uri: &Uri, info: &KeyInfo, file: &Path) -> Step {
    match uri.public() {
        None => Ok("the file has none: a server that loads it needs the service".to_owned()),
        Some(public) if read_public_key(public).is_ok_and(|public| public == info.public) => {
            Ok("it is that of the service's key".to_owned())
        }
        Some(_) => Err(CliError::Trial(format!(
            "it is that of another key, e.g. of an older one: write the file again with `sidecore keys pem {} --output {}`",
            uri.name(),
            file.display()
        ))),
    }
}

/// Public key of the named certificate, or of one in the file. `None`: there is no certificate.
fn certificate_of(trial: &Trial, text: &[u8]) -> Option<Result<Vec<u8>, CliError>> {
    let read = |bytes: &[u8]| read_public_key(bytes).map_err(CliError::library);
    if let Some(file) = &trial.certificate {
        let bytes = whole(file).map_err(failed(file.display()));
        return Some(bytes.and_then(|bytes| read(&bytes)));
    }
    first_block(text, |label| label == b"CERTIFICATE").map(|certificate| read(&certificate))
}

fn belongs(public: &[u8], info: &KeyInfo) -> Step {
    if public == info.public {
        return Ok("it is of this key".to_owned());
    }
    Err(CliError::OtherKey)
}

struct OpenSsl {
    scratch: Scratch,
    configuration: String,
    socket: String,
}

impl OpenSsl {
    fn new(socket: &Path) -> Result<Self, CliError> {
        let scratch = Scratch::new().map_err(failed("no directory for a signature"))?;
        let named = std::env::var("OPENSSL_CONF").ok();
        let installed = || Path::new(INSTALLED).exists().then(|| INSTALLED.to_owned());
        let configuration = match named.or_else(installed) {
            Some(configuration) => configuration,
            None => launch::configure(scratch.path())?.display().to_string(),
        };
        Ok(Self { scratch, configuration, socket: socket.display().to_string() })
    }

    fn run(&self, configuration: &str, arguments: &[&str]) -> Result<(), CliError> {
        let mut command = Command::new("openssl");
        command.args(arguments).env("OPENSSL_CONF", configuration).env("SIDECORE_SOCKET", &self.socket);
        let done = command.output().map_err(unusable("openssl", "install it, e.g. apt-get install openssl"))?;
        if done.status.success() {
            Ok(())
        } else {
            Err(CliError::OpenSsl(String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; ")))
        }
    }

    fn loads(&self, file: &Path) -> Step {
        let file = file.to_str().ok_or_else(no_text)?;
        let loaded = self.run(&self.configuration, &["pkey", "-in", file, "-noout"]);
        loaded.map_err(failed(format_args!("OpenSSL does not load the file with {}", self.configuration)))?;
        Ok(format!("OpenSSL loads the file with OPENSSL_CONF={}", self.configuration))
    }

    fn signs(&self, file: &Path, public: &[u8]) -> Step {
        let path = |name: &str| self.scratch.path().join(name).display().to_string();
        let (message, public_file, signature) = (path("message"), path("public.der"), path("signature"));
        let written = fs::write(&message, MESSAGE).and_then(|()| fs::write(&public_file, public));
        written.map_err(failed(self.scratch.path().display()))?;
        let file = file.to_str().ok_or_else(no_text)?;
        let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", file, "-in", &message, "-out", &signature];
        self.run(&self.configuration, &sign).map_err(failed("none was made"))?;
        let key = ["-pubin", "-keyform", "DER", "-inkey", &public_file];
        let verify = ["pkeyutl", "-verify", "-rawin", "-in", &message, "-sigfile", &signature];
        self.run("/dev/null", &[&verify[..], &key].concat()).map_err(failed("it does not verify"))?;
        Ok("one was made by the service, and OpenSSL's own code verified it".to_owned())
    }
}

/// Whether the server proves its identity with the service's key. The service's counters show the signature.
fn shakes_hands(server: &str, socket: &Path, info: &KeyInfo) -> Step {
    resolves(server)?;
    let counted = || requests(socket, &info.name).ok_or(CliError::NoCounters);
    let before = counted()?;
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let mut client = Command::new("timeout");
    client.args([HANDSHAKE_SECONDS, "openssl", "s_client", "-connect", server, "-servername", host]);
    let done = client.env("OPENSSL_CONF", "/dev/null").stdin(Stdio::null()).output();
    let done = done.map_err(unusable("timeout", "install it, e.g. apt-get install coreutils"))?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let certificate = out.find("-----BEGIN CERTIFICATE-----").map(|from| read_public_key(&out.as_bytes()[from..]));
    let public = certificate.filter(|_| done.status.success()).ok_or_else(|| {
        // ID:error:NUMBER:LIBRARY:FUNCTION:REASON
        let said = err.lines().find_map(|line| line.split(':').skip_while(|part| *part != "error").nth(4));
        let said = said.unwrap_or("it does not answer");
        CliError::Trial(format!("no TLS handshake with {server}: {said}; is it started?"))
    })?;
    belongs(&public.map_err(CliError::library)?, info)?;
    let (made, all) = counted().map(|after| (after - before.min(after), after))?;
    if made == 0 {
        return Err(CliError::Trial(format!(
            "{server} shook hands by a key of its own: name this file as its key, let it load the provider \
             (OPENSSL_CONF={INSTALLED}), and restart it"
        )));
    }
    Ok(format!("{server} shook hands by the key {:?}, which signed for it: {made}, in all: {all}", info.name))
}

/// `openssl s_client` says of a name that does not resolve only that the system's library failed.
fn resolves(server: &str) -> Result<(), CliError> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    match server.to_socket_addrs().map(|mut found| found.next().is_some()) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(CliError::Usage(format!("--server {server}: write HOST:PORT, e.g. localhost:443")))
        }
        found => {
            let why = found.err().map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
            Err(CliError::Trial(format!(
                "the name {host} does not resolve ({why}): write one that `getent ahosts {host}` knows, or an address"
            )))
        }
    }
}

fn no_text() -> CliError {
    CliError::usage("the file's name is no text: give it another one")
}

/// Changes this process, which has one thread, to that user with its groups.
fn become_user(name: &str) -> Result<(), CliError> {
    let user = User::from_name(name)
        .ok()
        .flatten()
        .ok_or_else(|| CliError::Usage(format!("there is no user {name:?} (--as)")))?;
    if geteuid().as_raw() == user.uid.as_raw() {
        return Ok(());
    }
    if !geteuid().is_root() {
        let why = format!("only root can try it as {name}: run this as root, or as {name} without --as");
        return Err(CliError::Usage(why));
    }
    let cannot = |error: io::Error| failed(format_args!("cannot become {name}"))(error);
    let known = CString::new(name).map_err(|error| cannot(error.into()))?;
    let groups = getgrouplist(&known, user.gid).map_err(|error| cannot(error.into()))?;
    let groups: Vec<_> = groups.into_iter().map(|group| rustix::fs::Gid::from_raw(group.as_raw())).collect();
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid.as_raw()), rustix::fs::Gid::from_raw(user.gid.as_raw()));
    // Groups first: a process without root's rights cannot drop them.
    set_thread_groups(&groups).map_err(|error| cannot(error.into()))?;
    set_thread_res_gid(gid, gid, gid).map_err(|error| cannot(error.into()))?;
    set_thread_res_uid(uid, uid, uid).map_err(|error| cannot(error.into()))
}
