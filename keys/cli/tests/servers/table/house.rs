//! A service with a key, and one program that uses the key.

use super::Row;
use super::programs::Program;
use crate::handshake::handshake;
use crate::material::{Kind, Material};
use crate::module;
use crate::programs::{BOUND, Daemon, Done, free_port, is_root, program, run, wait_for};
use crate::secrets::directory;
use crate::service::{Service, uid_of};
use crate::settings::{INCLUDE, configuration};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub(super) const NO_KEY: &str = "the sidecore service has no key of this name";
pub(super) const NO_SERVICE: &str = "no sidecore service answers at its socket";
pub(super) const NOTHING: &str = "nothing";
/// Timeouts of operations for restarts and replies, longer than a start takes on any machine. The second is for tests
/// of an absent service.
const PATIENT_MS: u32 = 60_000;
const HASTY_MS: u32 = 0;
/// Handshakes whose reason is looked for in a program's log.
const ATTEMPTS: u32 = 3;
const CERTIFICATE_FIRST: &str = "certificate-first.pem";
const KEY_FIRST: &str = "key-first.pem";

#[derive(Debug, PartialEq)]
pub(super) struct Seen<T = String> {
    pub(super) works: T,
    /// The service restarts during a handshake.
    pub(super) restart: T,
    /// The key is deleted and imported again.
    pub(super) deleted: T,
    pub(super) said_deleted: T,
    /// The service is absent at the program's start, and returns.
    pub(super) away: T,
    pub(super) said_away: T,
    /// Certificate and key in one file, in this order.
    pub(super) certificate_first: T,
    /// The same in the other order.
    pub(super) key_first: T,
}

impl<T> Seen<T> {
    pub(super) fn map<U>(self, of: impl Fn(T) -> U) -> Seen<U> {
        Seen {
            works: of(self.works),
            restart: of(self.restart),
            deleted: of(self.deleted),
            said_deleted: of(self.said_deleted),
            away: of(self.away),
            said_away: of(self.said_away),
            certificate_first: of(self.certificate_first),
            key_first: of(self.key_first),
        }
    }
}

pub(crate) struct House<'a> {
    program: &'a Program,
    row: &'a Row,
    directory: TempDir,
    service: Service,
    key: Material,
}

pub(crate) struct Running {
    daemon: Daemon,
    port: u16,
    log: Option<PathBuf>,
}

impl Running {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn daemon(&mut self) -> &mut Daemon {
        &mut self.daemon
    }

    pub(crate) fn log(&self) -> String {
        let beside = self.log.as_ref().map(|log| std::fs::read(log).unwrap_or_default()).unwrap_or_default();
        self.daemon.log() + &String::from_utf8_lossy(&beside)
    }
}

impl<'a> House<'a> {
    pub(crate) fn new(program: &'a Program, row: &'a Row) -> Self {
        let directory = directory();
        let service = Service::keeping_keys(directory.path());
        Self::with(program, row, directory, service, &module::path())
    }

    /// With a service in this directory that keeps keys, and this library for the program.
    pub(crate) fn with(
        program: &'a Program,
        row: &'a Row,
        directory: TempDir,
        service: Service,
        library: &Path,
    ) -> Self {
        assert!(is_root(), "servers become other users: run these tests as root");
        let key = Material::make(directory.path(), Kind::P256);
        let house = Self { program, row, directory, service, key };
        house.import();
        std::fs::copy(library, house.path("sidecore.so")).unwrap();
        house.name_key("key.pem");
        house.put_together();
        house.own_directory();
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn import(&self) {
        self.service.import_for(&self.key, &[uid_of(self.program.user)]);
    }

    fn name_key(&self, file: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        command.args(["keys", "pem", self.key.kind.name(), "--mode", "0600", "--owner", self.program.user, "--output"]);
        run(command.arg(self.path(file)).arg("--socket").arg(self.service.socket())).expect("keys pem");
    }

    fn put_together(&self) {
        let certificate = std::fs::read(&self.key.certificate).unwrap();
        let key = std::fs::read(self.path("key.pem")).unwrap();
        for (file, text) in
            [(CERTIFICATE_FIRST, [&*certificate, &*key].concat()), (KEY_FIRST, [key, certificate].concat())]
        {
            // The file already has the mode and owner of a key file.
            self.name_key(file);
            std::fs::write(self.path(file), text).unwrap();
        }
    }

    fn own_directory(&self) {
        let own = self.path("program");
        std::fs::create_dir(&own).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
        if self.program.as_user {
            std::os::unix::fs::chown(&own, Some(uid_of(self.program.user)), None).unwrap();
        }
        self.write_files(free_port(), &self.lines(HASTY_MS, None));
        for first in self.program.first {
            run(&mut self.command(first, 0, &[])).expect(first[0]);
        }
    }

    fn openssl(&self, wait_ms: u32) -> PathBuf {
        let file = self.path(&format!("openssl-{wait_ms}.cnf"));
        let text = configuration(&self.path("sidecore.so"), &self.service.socket(), INCLUDE)
            .replace("#restart_wait_ms = 2000", &format!("restart_wait_ms = {wait_ms}"))
            .replace("#timeout_ms = 2000", &format!("timeout_ms = {PATIENT_MS}"));
        std::fs::write(&file, text).unwrap();
        file
    }

    fn line(&self, line: &str, openssl: &Path, file: &str) -> String {
        let path = |name| self.path(name).display().to_string();
        line.replace("CERTIFICATE", &self.key.certificate.display().to_string())
            .replace("KEY", &path("key.pem"))
            .replace("FILE", &path(file))
            .replace("/etc/ssl/openssl-sidecore.cnf", &openssl.display().to_string())
            // Dovecot needs braces at the ends of lines.
            .replace(" { ", " {\n  ")
            .replace(" }", "\n}")
    }

    fn lines(&self, wait_ms: u32, file: Option<&str>) -> Vec<String> {
        let openssl = self.openssl(wait_ms);
        let apart = self.row.lines.iter().filter(|line| file.is_none() || !names_files(line));
        let together = self.row.together.iter().filter(|_| file.is_some());
        // The lines for `HAProxy` continue the line of its port.
        together.chain(apart).map(|line| self.line(line, &openssl, file.unwrap_or(CERTIFICATE_FIRST))).collect()
    }

    fn filled(&self, text: &str, port: u16, lines: &str) -> String {
        text.replace("@directory@", &self.path("program").display().to_string())
            .replace("@port@", &port.to_string())
            .replace("@user@", self.program.user)
            .replace("@lines@", lines)
    }

    fn write_files(&self, port: u16, lines: &[String]) {
        let lines: Vec<&str> = lines.iter().filter(|line| !is_environment(line)).map(String::as_str).collect();
        for (name, text) in self.program.files {
            std::fs::write(self.path("program").join(name), self.filled(text, port, &lines.join("\n"))).unwrap();
        }
    }

    fn command(&self, words: &[&str], port: u16, lines: &[String]) -> Command {
        let mut command = if self.program.as_user {
            let user = self.program.user;
            let mut command = program("setpriv");
            command.args([format!("--reuid={user}"), format!("--regid={user}"), "--init-groups".to_owned()]);
            command.arg(program(words[0]).get_program());
            command
        } else {
            program(words[0])
        };
        for word in &words[1..] {
            if *word == "@lines@" {
                let lines = lines.iter().filter(|line| !is_environment(line));
                command.args(lines.flat_map(|line| line.split(' ')));
            } else {
                command.arg(self.filled(word, port, ""));
            }
        }
        command.current_dir(self.directory.path());
        command
    }

    fn start(&self, lines: &[String]) -> Running {
        let port = free_port();
        self.write_files(port, lines);
        let mut command = self.command(self.program.command, port, lines);
        for line in lines.iter().filter(|line| is_environment(line)) {
            let (name, value) = line.split_once('=').unwrap();
            command.env(name, value);
        }
        let mut daemon = Daemon::start(self.program.name, &mut command, &self.path(&format!("{port}.log")));
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(wait_for(BOUND, || listens() || !daemon.lives()), "{}", daemon.log());
        let log = self.program.log.map(|log| self.path("program").join(log));
        Running { daemon, port, log }
    }

    /// Starts the program. It waits for a service as long as a start takes on any machine.
    pub(crate) fn start_patient(&self) -> Running {
        self.start(&self.lines(PATIENT_MS, None))
    }

    /// The service, and the handshake of a program that was started.
    pub(crate) fn parts(&mut self, running: &Running) -> (&mut Service, impl Fn() -> Done + Sync) {
        let (key, program, port) = (&self.key, self.program, running.port);
        (&mut self.service, move || shake(port, key, program))
    }

    fn shake(&self, running: &Running) -> Done {
        shake(running.port, &self.key, self.program)
    }

    pub(super) fn see(mut self) -> (Seen, String) {
        let mut running = self.start(&self.lines(PATIENT_MS, None));
        let works = self.works(&running);
        let restart = self.restart(&running);
        let (deleted, said_deleted) = self.deleted(&mut running);
        let mut log = running.log();
        running.daemon.stop();
        self.service.stop();
        let mut running = self.start(&self.lines(HASTY_MS, None));
        let (away, said_away) = self.away(&mut running);
        log += &running.log();
        running.daemon.stop();
        let [certificate_first, key_first] = [CERTIFICATE_FIRST, KEY_FIRST].map(|file| {
            let (cell, said) = self.together(file);
            log += &said;
            cell
        });
        (Seen { works, restart, deleted, said_deleted, away, said_away, certificate_first, key_first }, log)
    }

    fn together(&self, file: &str) -> (String, String) {
        let mut running = self.start(&self.lines(PATIENT_MS, Some(file)));
        let works = running.daemon.lives() && self.shake(&running).ok();
        running.daemon.stop();
        (if works { "yes" } else { "no" }.to_owned(), running.log())
    }

    fn works(&self, running: &Running) -> String {
        let done = self.shake(running);
        let signed = self.service.signatures(&self.key);
        if done.ok() && signed > 0 { "it succeeds".to_owned() } else { format!("no: {signed} signatures, {done:?}") }
    }

    /// Kills the service, and restarts it during a handshake.
    fn restart(&mut self, running: &Running) -> String {
        self.service.kill();
        let (service, program, key, port) = (&mut self.service, self.program, &self.key, running.port);
        let during = std::thread::scope(|scope| {
            let during = scope.spawn(|| shake(port, key, program));
            service.run();
            during.join().unwrap()
        });
        let after = self.shake(running);
        if during.ok() && after.ok() { "no handshake fails".to_owned() } else { format!("{during:?} {after:?}") }
    }

    fn deleted(&self, running: &mut Running) -> (String, String) {
        self.service.delete(&self.key);
        let without = self.shake(running);
        let said = self.said(running, NO_KEY, &self.row.expected.said_deleted);
        self.import();
        let with = self.shake(running);
        let cell = match (without.ok(), with.ok()) {
            (false, true) => "handshakes fail, the program goes on".to_owned(),
            _ => format!("without the key: {without:?}; with it: {with:?}"),
        };
        (cell, said)
    }

    fn away(&mut self, running: &mut Running) -> (String, String) {
        if !running.daemon.lives() {
            return ("it does not start".to_owned(), self.said(running, NO_SERVICE, &self.row.expected.said_away));
        }
        let without = self.shake(running);
        let said = self.said(running, NO_SERVICE, &self.row.expected.said_away);
        self.service.run();
        let with = self.shake(running);
        let cell = match (without.ok(), with.ok()) {
            (false, true) => "starts, and works once the service is there".to_owned(),
            _ => format!("without the service: {without:?}; with it: {with:?}"),
        };
        (cell, said)
    }

    /// The words, if they are in the program's log. Waits for them if the page expects them.
    fn said(&self, running: &mut Running, words: &str, expected: &str) -> String {
        let is_there = |running: &Running| running.log().contains(words);
        if expected == NOTHING {
            return if is_there(running) { format!("`{words}`") } else { NOTHING.to_owned() };
        }
        // Kamailio's processes have one queue of OpenSSL's errors in shared memory, and one may take another's out of it.
        for attempt in 0..ATTEMPTS {
            if attempt > 0 && running.daemon.lives() {
                drop(self.shake(running));
            }
            if wait_for(BOUND / ATTEMPTS, || is_there(running)) {
                return format!("`{words}`");
            }
        }
        NOTHING.to_owned()
    }
}

fn shake(port: u16, key: &Material, program: &Program) -> Done {
    handshake(port, key, program.asked)
}

fn is_environment(line: &str) -> bool {
    line.starts_with("OPENSSL_CONF=")
}

fn names_files(line: &str) -> bool {
    ["CERTIFICATE", "KEY", "FILE"].iter().any(|word| line.contains(word))
}
