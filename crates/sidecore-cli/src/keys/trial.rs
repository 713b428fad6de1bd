//! `sidecore keys test`: whether a server can use a key's file, step by step, with the rights of the server's user.

use super::requests;
use crate::args::keys::Trial;
use crate::launch;
use nix::unistd::{User, getgrouplist};
use rustix::process::geteuid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use sidecore::client::{Admin, Options};
use sidecore::keys::pem::first_block;
use sidecore::keys::uri::Uri;
use sidecore::keys::{KeyInfo, Kind, read_public_key};
use sidecore_terminal::output;
use std::ffi::CString;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const MESSAGE: &[u8] = b"a message that nobody else signs: sidecore keys test\n";
/// Longest duration of a handshake, seconds.
const HANDSHAKE_SECONDS: &str = "20";
/// OpenSSL's configuration on a system with sidecore installed.
const INSTALLED: &str = "/etc/ssl/openssl-sidecore.cnf";

/// The step's result, or the fault and its remedy.
type Step = Result<String, String>;

/// Runs the steps up to the first failure and prints each result. `true`: all succeeded.
pub(super) fn run(socket: &Path, trial: &Trial) -> Result<bool, String> {
    if let Some(name) = &trial.user {
        become_user(name)?;
    }
    let mut told = String::new();
    let fine = try_all(socket, trial, &mut told).is_some();
    output::print(&told)?;
    Ok(fine)
}

/// `None`: a step failed; `told` has its message.
fn try_all(socket: &Path, trial: &Trial, told: &mut String) -> Option<()> {
    let mut tell = |what: &str, step: Step| {
        let (state, text) = step.as_ref().map_or_else(|wrong| ("FAILED", wrong), |found| ("ok", found));
        let _ = writeln!(told, "{state:<6} {what}: {text}");
        step.ok()
    };
    let file = trial.file.as_path();
    let text = fs::read(file).map_err(|error| cannot_read(file, &error));
    let uri = text.as_ref().map_err(String::clone);
    let uri = uri.and_then(|text| Uri::from_pem(text).map_err(|error| error.to_string()));
    tell("file", uri.as_ref().map(|uri| format!("it names the key {:?}", uri.name())).map_err(String::clone))?;
    let (text, uri) = (text.ok()?, uri.ok()?);
    let service = Admin::connect(&Options { socket: socket.to_owned(), ..Options::default() });
    let mut service = match service {
        Ok(service) => service,
        Err(error) => {
            tell("service", Err(error.to_string()));
            return None;
        }
    };
    tell("service", Ok(format!("it answers at {}", socket.display())));
    let info = service.key_info(uri.name()).map_err(|error| error.to_string());
    tell(
        "key",
        info.as_ref()
            .map(|info| format!("of kind {}, which this user may use", info.kind.name()))
            .map_err(String::clone),
    )?;
    let info = info.ok()?;
    tell("public part", same_public(&uri, &info, file))?;
    if let Some(certificate) = certificate_of(trial, &text) {
        tell("certificate", certificate.and_then(|public| belongs(&public, &info)))?;
    }
    let scratch = tempfile::tempdir().map_err(|error| format!("no directory for a signature: {error}"));
    let openssl = scratch.and_then(|scratch| OpenSsl::new(scratch, socket));
    let openssl = match openssl {
        Ok(openssl) => openssl,
        Err(wrong) => {
            tell("provider", Err(wrong));
            return None;
        }
    };
    tell("provider", openssl.loads(file))?;
    if matches!(info.kind, Kind::X25519 | Kind::MlKem768) {
        return tell("use", Ok("this kind agrees on secrets, which is not tried".to_owned())).map(drop);
    }
    tell("signature", openssl.signs(file, &info.public))?;
    let Some(server) = &trial.server else { return Some(()) };
    tell("server", shakes_hands(server, socket, &info)).map(drop)
}

fn cannot_read(file: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}: name a file of `sidecore keys pem` that this user may read", file.display())
}

/// Whether the file and the service have the same public key.
fn same_public(uri: &Uri, info: &KeyInfo, file: &Path) -> Step {
    match uri.public() {
        None => Ok("the file has none: a server that loads it needs the service".to_owned()),
        Some(public) if read_public_key(public).is_ok_and(|public| public == info.public) => {
            Ok("it is that of the service's key".to_owned())
        }
        Some(_) => Err(format!(
            "it is that of another key, e.g. of an older one: write the file again with `sidecore keys pem {} --output {}`",
            uri.name(),
            file.display()
        )),
    }
}

/// Public key of the named certificate, or of one in the file. `None`: there is no certificate.
fn certificate_of(trial: &Trial, text: &[u8]) -> Option<Result<Vec<u8>, String>> {
    let read = |bytes: &[u8]| read_public_key(bytes).map_err(str::to_owned);
    if let Some(file) = &trial.certificate {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
        return Some(bytes.and_then(|bytes| read(&bytes)));
    }
    first_block(text, |label| label == b"CERTIFICATE").map(|certificate| read(&certificate))
}

fn belongs(public: &[u8], info: &KeyInfo) -> Step {
    if public == info.public {
        return Ok("it is of this key".to_owned());
    }
    Err("it is of another key: give the server the certificate that was issued for this one".to_owned())
}

/// The command `openssl`, configured like a server's OpenSSL.
struct OpenSsl {
    scratch: TempDir,
    configuration: String,
    socket: String,
}

impl OpenSsl {
    fn new(scratch: TempDir, socket: &Path) -> Result<Self, String> {
        let named = std::env::var("OPENSSL_CONF").ok();
        let installed = || Path::new(INSTALLED).exists().then(|| INSTALLED.to_owned());
        let configuration = match named.or_else(installed) {
            Some(configuration) => configuration,
            None => launch::configure(scratch.path())?.display().to_string(),
        };
        Ok(Self { scratch, configuration, socket: socket.display().to_string() })
    }

    fn run(&self, configuration: &str, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new("openssl");
        command.args(arguments).env("OPENSSL_CONF", configuration).env("SIDECORE_SOCKET", &self.socket);
        let done =
            command.output().map_err(|error| format!("openssl: {error}; install it, e.g. apt-get install openssl"))?;
        if done.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; "))
        }
    }

    /// Whether OpenSSL accepts the file as a private key.
    fn loads(&self, file: &Path) -> Step {
        let file = file.to_str().ok_or("the file's name is no text: give it another one")?;
        self.run(&self.configuration, &["pkey", "-in", file, "-noout"])
            .map_err(|error| format!("OpenSSL does not load the file with {}: {error}", self.configuration))?;
        Ok(format!("OpenSSL loads the file with OPENSSL_CONF={}", self.configuration))
    }

    /// Makes one signature with the key; OpenSSL's own code verifies it.
    fn signs(&self, file: &Path, public: &[u8]) -> Step {
        let path = |name: &str| self.scratch.path().join(name).display().to_string();
        let (message, public_file, signature) = (path("message"), path("public.der"), path("signature"));
        let written = fs::write(&message, MESSAGE).and_then(|()| fs::write(&public_file, public));
        written.map_err(|error| format!("{}: {error}", self.scratch.path().display()))?;
        let file = file.to_str().ok_or("the file's name is no text: give it another one")?;
        let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", file, "-in", &message, "-out", &signature];
        self.run(&self.configuration, &sign).map_err(|error| format!("none was made: {error}"))?;
        let key = ["-pubin", "-keyform", "DER", "-inkey", &public_file];
        let verify = ["pkeyutl", "-verify", "-rawin", "-in", &message, "-sigfile", &signature];
        self.run("/dev/null", &[&verify[..], &key].concat()).map_err(|error| format!("it does not verify: {error}"))?;
        Ok("one was made by the service, and OpenSSL's own code verified it".to_owned())
    }
}

/// Whether the server proves its identity with the service's key. The service's counters show the signature.
fn shakes_hands(server: &str, socket: &Path, info: &KeyInfo) -> Step {
    let counted = || requests(socket, &info.name).ok_or("the service's counters cannot be read".to_owned());
    let before = counted()?;
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let mut client = Command::new("timeout");
    client.args([HANDSHAKE_SECONDS, "openssl", "s_client", "-connect", server, "-servername", host]);
    let done = client.env("OPENSSL_CONF", "/dev/null").stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("timeout: {error}; install it, e.g. apt-get install coreutils"))?;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let certificate = out.find("-----BEGIN CERTIFICATE-----").map(|from| read_public_key(&out.as_bytes()[from..]));
    let public = certificate.filter(|_| done.status.success()).ok_or_else(|| {
        // ID:error:NUMBER:LIBRARY:FUNCTION:REASON
        let said = err.lines().find_map(|line| line.split(':').skip_while(|part| *part != "error").nth(4));
        format!("no TLS handshake with {server}: {}; is it started?", said.unwrap_or("it does not answer"))
    })?;
    belongs(&public?, info)?;
    let (made, all) = counted().map(|after| (after - before.min(after), after))?;
    if made == 0 {
        return Err(format!(
            "{server} shook hands by a key of its own: name this file as its key, let it load the provider \
             (OPENSSL_CONF={INSTALLED}), and restart it"
        ));
    }
    Ok(format!("{server} shook hands by the key {:?}, which signed for it: {made}, in all: {all}", info.name))
}

/// Changes this process to that user, with its groups. The process has one thread, and its child processes inherit the
/// user.
fn become_user(name: &str) -> Result<(), String> {
    let user = User::from_name(name).ok().flatten().ok_or_else(|| format!("there is no user {name:?} (--as)"))?;
    if geteuid().as_raw() == user.uid.as_raw() {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(format!("only root can try it as {name}: run this as root, or as {name} without --as"));
    }
    let cannot = |error: std::io::Error| format!("cannot become {name}: {error}");
    let known = CString::new(name).map_err(|error| cannot(error.into()))?;
    let groups = getgrouplist(&known, user.gid).map_err(|error| cannot(error.into()))?;
    let groups: Vec<_> = groups.into_iter().map(|group| rustix::fs::Gid::from_raw(group.as_raw())).collect();
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid.as_raw()), rustix::fs::Gid::from_raw(user.gid.as_raw()));
    // Groups first: a process without root's rights cannot drop them.
    set_thread_groups(&groups).map_err(|error| cannot(error.into()))?;
    set_thread_res_gid(gid, gid, gid).map_err(|error| cannot(error.into()))?;
    set_thread_res_uid(uid, uid, uid).map_err(|error| cannot(error.into()))
}
