//! The service as an operator runs it, its keys, and the settings of programs that use them.

use crate::manager::Manager;
use crate::material::Material;
use crate::module;
use crate::programs::{BOUND, Daemon, is_root, program, run, wait_for};
use crate::server::{Identity, WORKER};
use sidecore::client::{Admin, Options};
use sidecore::engine::crypto::Secret;
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand};
use sidecore_counters::{KeyCounter, Snapshot, counters_beside};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Service {
    directory: PathBuf,
    daemon: Option<Daemon>,
    limits: String,
    manager: Option<Manager>,
    program: PathBuf,
    /// Services so far: each has a log of its own.
    starts: u32,
}

impl Service {
    pub(crate) fn start(directory: &Path) -> Self {
        Self::with_limits(directory, "")
    }

    /// Starts a service with these lines in `[limits]`, which may continue with further sections.
    pub(crate) fn with_limits(directory: &Path, limits: &str) -> Self {
        let mut service = Self::new(directory, limits.to_owned(), None);
        service.run();
        service
    }

    pub(crate) fn keeping_keys(directory: &Path) -> Self {
        Self::keeping_keys_with(directory, "")
    }

    /// As [`Service::keeping_keys`], with these lines as in [`Service::with_limits`].
    pub(crate) fn keeping_keys_with(directory: &Path, limits: &str) -> Self {
        Self::with_limits(directory, &format!("{limits}\n{}", at_rest(directory)))
    }

    /// Starts it again with these lines in `[keys]`.
    pub(crate) fn start_again_with(&mut self, keys: &str) {
        self.stop();
        self.limits = format!("{}\n{keys}", self.limits);
        std::fs::remove_dir_all(self.directory.join("service")).unwrap();
        self.write_configuration();
        self.run();
    }

    /// Writes the file with its address, and returns its path.
    pub(crate) fn address(&self) -> PathBuf {
        let file = self.directory.join("address.pem");
        std::fs::write(&file, Self::admin(self.socket()).transfer_address().unwrap().to_pem()).unwrap();
        file
    }

    fn new(directory: &Path, limits: String, manager: Option<Manager>) -> Self {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_sidecore"));
        let service = Self { directory: directory.to_owned(), daemon: None, limits, manager, program, starts: 0 };
        service.write_configuration();
        service
    }

    /// As [`Service::managed`], by this program of another version.
    pub(crate) fn managed_by(directory: &Path, program: &Path) -> Self {
        let mut service = Self::new(directory, at_rest(directory), Some(Manager::new(directory)));
        program.clone_into(&mut service.program);
        service.run();
        service
    }

    /// Replaces the running service by this program, as an upgrade or a rollback does.
    pub(crate) fn replace_by(&mut self, program: &Path) {
        self.stop();
        program.clone_into(&mut self.program);
        self.run();
    }

    pub(crate) fn managed(directory: &Path) -> Self {
        let mut service = Self::new(directory, at_rest(directory), Some(Manager::new(directory)));
        // Starts take longer while other tests load the machine.
        if std::env::var_os("SIDECORE_RESTARTS").is_none() {
            let text =
                configuration(&service.socket()).replace("activate = 1\n", "activate = 1\nrestart_wait_ms = 5000\n");
            std::fs::write(directory.join("openssl.cnf"), text).unwrap();
        }
        service.run();
        service
    }

    pub(crate) fn listen_for_it(&mut self) {
        std::fs::remove_file(self.socket()).unwrap();
        self.manager.as_mut().unwrap().listen(&self.directory.join("service/socket"));
        std::fs::set_permissions(self.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    }

    pub(crate) fn log(&self) -> String {
        self.daemon.as_ref().unwrap().log()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().pid()
    }

    /// The main process, by what its manager was told last.
    pub(crate) fn main(&self) -> Option<u32> {
        self.manager.as_ref().unwrap().main
    }

    pub(crate) fn forget(&mut self) {
        self.manager.as_mut().unwrap().held = None;
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("service/socket")
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.join("sidecore.toml")
    }

    fn write_configuration(&self) {
        let (directory, socket, limits) = (self.directory.join("service"), self.socket(), &self.limits);
        std::fs::create_dir(&directory).unwrap();
        let text = format!("socket = '{}'\nsocket_mode = \"0666\"\n[limits]\n{limits}\n", socket.display());
        std::fs::write(self.configuration(), text).unwrap();
        std::fs::write(self.directory.join("openssl.cnf"), configuration(&socket)).unwrap();
    }

    pub(crate) fn run(&mut self) {
        let mut daemon = self.begin(&[]);
        if let Some(manager) = &mut self.manager {
            manager.wait_until_ready();
        }
        daemon.wait_for_words("serving at");
        self.daemon = Some(daemon);
    }

    /// Another one takes the place of the running service, which then ends by itself.
    pub(crate) fn hand_over(&mut self) {
        let mut next = self.begin(&["--take-over"]);
        if let Some(manager) = &mut self.manager {
            manager.wait_until_ready();
            // It waits until the manager has read that.
            manager.wait_for_line("BARRIER=1");
        }
        next.wait_for_words("serving at");
        let mut former = self.daemon.replace(next).unwrap();
        assert!(wait_for(BOUND, || !former.lives()), "the former service does not end\n{}", former.log());
        assert!(former.status().unwrap().success(), "{}", former.log());
    }

    pub(crate) fn daemon(&mut self) -> &mut Daemon {
        self.daemon.as_mut().unwrap()
    }

    /// Starts one that is to take the running service's place.
    pub(crate) fn begin_next(&mut self) -> Daemon {
        self.begin(&["--take-over"])
    }

    fn begin(&mut self, options: &[&str]) -> Daemon {
        let mut command = Command::new(&self.program);
        command.stdin(Stdio::null());
        if let Some(manager) = &self.manager {
            command = manager.command(self.program.to_str().unwrap());
        }
        command.arg("serve").args(options).arg("--config").arg(self.configuration());
        self.starts += 1;
        let log = self.directory.join(format!("sidecore-{}.log", self.starts));
        Daemon::start_with_input("sidecore", &mut command, &log)
    }

    /// The log of a start by this program that ends. `None`: it serves.
    pub(crate) fn refusal_of(&mut self, program: &Path) -> Option<String> {
        self.stop();
        program.clone_into(&mut self.program);
        let mut daemon = self.begin(&[]);
        let serves = |daemon: &Daemon| daemon.log().contains("serving at");
        assert!(wait_for(BOUND, || serves(&daemon) || !daemon.lives()), "{}", daemon.log());
        let refusal = (!daemon.lives()).then(|| daemon.log());
        self.daemon = Some(daemon);
        refusal
    }

    pub(crate) fn stop(&mut self) {
        self.daemon.take().unwrap().stop();
    }

    pub(crate) fn kill(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    pub(crate) fn admin(socket: PathBuf) -> Admin {
        Admin::connect(&Options { socket, ..Options::default() }).unwrap()
    }

    pub(crate) fn import(&self, material: &Material) -> Identity {
        self.import_for(material, &[worker_uid()])
    }

    pub(crate) fn import_for(&self, material: &Material, uids: &[u32]) -> Identity {
        self.import_through(&self.socket(), material, uids)
    }

    pub(crate) fn import_through(&self, socket: &Path, material: &Material, uids: &[u32]) -> Identity {
        let der = self.directory.join("import.der");
        let mut command = program("openssl");
        command.args(["pkcs8", "-topk8", "-nocrypt", "-outform", "DER", "-in"]).arg(&material.key);
        run(command.arg("-out").arg(&der)).expect("pkcs8");
        let (name, pkcs8) = (material.kind.name().to_owned(), Secret::new(std::fs::read(der).unwrap()));
        let acl = Acl { uids: uids.to_vec(), gids: Vec::new() };
        let mut admin = Self::admin(socket.to_owned());
        admin.keys(KeyCommand::Import { name, pkcs8, acl }).unwrap();
        let public = admin.key_info(material.kind.name()).unwrap().public;
        let uri = Uri::new(material.kind.name()).unwrap().with_public(public).unwrap();
        self.identity_of(material, &uri)
    }

    /// Gives the stored key its certificate, for programs with PKCS#11.
    pub(crate) fn certify(&self, material: &Material) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        command.args(["keys", "cert", material.kind.name()]).arg(&material.certificate);
        run(command.arg("--socket").arg(self.socket())).expect("keys cert");
    }

    /// Registers the key as one of other machines, under the same name, for servers' workers. Returns the server's
    /// files.
    pub(crate) fn knows(&self, material: &Material) -> Identity {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        command.args(["keys", "import", material.kind.name(), "--remote", "--public"]).arg(&material.certificate);
        command.args(["--uid", &worker_uid().to_string(), "--socket"]).arg(self.socket());
        run(&mut command).expect("keys import --remote");
        let public = Self::admin(self.socket()).key_info(material.kind.name()).unwrap().public;
        self.identity_of(material, &Uri::new(material.kind.name()).unwrap().with_public(public).unwrap())
    }

    pub(crate) fn identity(&self, material: &Material, name: &str) -> Identity {
        self.identity_of(material, &Uri::new(name).unwrap())
    }

    fn identity_of(&self, material: &Material, uri: &Uri) -> Identity {
        let key = self.directory.join(format!("{}.sidecore.pem", uri.name()));
        std::fs::write(&key, uri.to_pem()).unwrap();
        Identity { certificate: material.certificate.clone(), key, client: None }
    }

    pub(crate) fn replace(&self, material: &Material, other: &Material) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        command.args(["keys", "import", material.kind.name(), "--replace", "--socket"]).arg(self.socket());
        run(command.arg(&other.key)).expect("keys import --replace");
    }

    pub(crate) fn delete(&self, material: &Material) {
        Self::admin(self.socket()).keys(KeyCommand::Delete { name: material.kind.name().to_owned() }).unwrap();
    }

    pub(crate) fn top(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        run(command.args(["top", "--once", "--socket"]).arg(self.socket())).expect("top")
    }

    pub(crate) fn signatures(&self, material: &Material) -> u64 {
        let counters = counters_beside(&self.socket());
        signatures(&Snapshot::read(&counters).unwrap(), material.kind.name())
    }

    pub(crate) fn serves(&self, pid: u32) -> bool {
        self.top().split_whitespace().any(|word| word == pid.to_string())
    }

    /// Sets the variable that makes a server load the provider, like an operator.
    pub(crate) fn told<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("OPENSSL_CONF", self.directory.join("openssl.cnf"))
    }

    /// The same, for a program whose operations may take long on a busy machine.
    pub(crate) fn told_with_patience<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let file = self.directory.join("openssl-patient.cnf");
        std::fs::write(&file, configuration(&self.socket()) + "timeout_ms = 40000\n").unwrap();
        command.env("OPENSSL_CONF", file)
    }

    /// The same, through another socket than this service's.
    pub(crate) fn told_of<'c>(&self, socket: &Path, command: &'c mut Command) -> &'c mut Command {
        let file = self.directory.join("openssl-other.cnf");
        std::fs::write(&file, configuration(socket)).unwrap();
        command.env("OPENSSL_CONF", file)
    }
}

fn at_rest(directory: &Path) -> String {
    let passphrase = directory.join("passphrase");
    std::fs::write(&passphrase, "a passphrase of the tests\n").unwrap();
    std::fs::set_permissions(&passphrase, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (keys, passphrase) = (directory.join("keys"), passphrase.display());
    format!("[keys]\ndirectory = '{}'\npassphrase_file = '{passphrase}'", keys.display())
}

pub(crate) fn signatures(counted: &Snapshot, name: &str) -> u64 {
    counted.keys.iter().find(|key| key.name == name).map_or(0, |key| key.get(KeyCounter::Sign))
}

fn configuration(socket: &Path) -> String {
    format!(
        "openssl_conf = openssl_init\n[openssl_init]\nproviders = provider_sect\n[provider_sect]\n\
         default = default_sect\nsidecore = sidecore_sect\n[default_sect]\nactivate = 1\n[sidecore_sect]\n\
         module = {}\nsocket = {}\nactivate = 1\n",
        module::path().display(),
        socket.display()
    )
}

pub(crate) fn worker_uid() -> u32 {
    if is_root() { uid_of(WORKER) } else { rustix::process::geteuid().as_raw() }
}

pub(crate) fn uid_of(name: &str) -> u32 {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with(&format!("{name}:")));
    let line = line.unwrap_or_else(|| panic!("there is no user {name}: install the package of its program"));
    line.split(':').nth(2).unwrap().parse().unwrap()
}
