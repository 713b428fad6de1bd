//! The service of sockets in its sandbox.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Signal, geteuid};
use sidecore_testing::{Running, skipped};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const USER: &str = "nobody";
const USER_ID: u32 = 65534;

struct ServiceFolder(TempDir);

impl ServiceFolder {
    /// `more`: lines of the configuration before its sandbox.
    fn new(more: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        // Other users need access to the service's files.
        fs::set_permissions(folder.0.path(), Permissions::from_mode(0o755)).unwrap();
        let user = if geteuid().is_root() { format!("user = '{USER}'\n") } else { String::new() };
        let config = format!(
            "socket = '{}'\nsocket_mode = '0666'\n{more}\n[sandbox]\n{user}seccomp = true\nlandlock = true\n",
            folder.socket().display()
        );
        fs::write(folder.config(), config).unwrap();
        folder
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("run/sidecore/socket")
    }

    fn config(&self) -> PathBuf {
        self.0.path().join("sockets.toml")
    }

    fn serve(&self, option: &str) -> Command {
        let mut command = sockets();
        command.arg("serve").args(Some(option).filter(|option| !option.is_empty())).arg("--config").arg(self.config());
        command
    }

    fn start(&self) -> Running {
        Running::start(self.serve(""), self.0.path().join("log"))
    }
}

fn sockets() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets"));
    command.arg("sockets");
    command
}

fn start() -> (ServiceFolder, Running) {
    let folder = ServiceFolder::new("[sockets]");
    let running = folder.start();
    (folder, running)
}

/// Filter mode in each thread's status, once there are `threads` threads.
fn filters(service: &Running, threads: usize) -> Vec<String> {
    for _ in 0..3000 {
        let filters = service.status_of_threads("Seccomp");
        if filters.len() >= threads {
            return filters;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it has fewer than {threads} threads");
}

fn list(folder: &ServiceFolder, option: &str) -> Output {
    let mut command = sockets();
    command.args(Some(option).filter(|option| !option.is_empty()));
    command.env("SIDECORE_SOCKETS", folder.socket()).env("SIDECORE_SERVICE_USER", USER).output().unwrap()
}

#[test]
fn each_thread_is_filtered_and_its_list_is_given() {
    let (folder, service) = start();
    let said = list(&folder, "");
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8(said.stdout).unwrap().starts_with("no sockets"));
    assert_eq!(list(&folder, "--json").stdout, b"");
    // A connected user has a thread, which starts behind the filter.
    let program = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&program, &SocketAddrUnix::new(folder.socket()).unwrap()).unwrap();
    let seccomp = filters(&service, 3);
    assert!(seccomp.iter().all(|mode| mode == "2"), "{seccomp:?}");
    assert!(service.status_of_threads("CapPrm").iter().all(|held| held == "0000000000000000"));
    assert!(!service.said().contains("warning"), "memory that nobody demands is not locked: {}", service.said());
    assert!(service.said().contains("notify: service break-even (parks: tied to no core)\n"), "{}", service.said());
}

#[test]
fn root_is_given_up() {
    if !geteuid().is_root() {
        skipped("only root can: becoming another user, sandbox.user");
        return;
    }
    let (_place, service) = start();
    let found = service.status_of_threads("Uid");
    assert!(found.iter().all(|ids| ids.split_whitespace().all(|id| id == USER_ID.to_string())), "{found:?}");
}

#[test]
fn a_signal_ends_it_and_nothing_is_left_behind() {
    let (folder, service) = start();
    assert!(list(&folder, "").status.success());
    assert!(service.end(Signal::TERM).success());
    assert_eq!(fs::read_dir(folder.socket().parent().unwrap()).unwrap().count(), 0);
    let said = list(&folder, "");
    assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(2), &b""[..]));
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(told.contains(&folder.socket().display().to_string()) && told.contains("sidecore sockets serve"), "{told}");
}

#[test]
fn the_next_one_takes_the_socket_of_one_that_was_killed() {
    let folder = ServiceFolder::new("[sockets]");
    folder.start().end(Signal::KILL);
    let _service = folder.start();
    assert!(list(&folder, "").status.success());
}

#[test]
fn a_file_with_keys_is_refused() {
    for both in ["[sockets]\n[keys]\ndirectory = '/nowhere'", "[sockets]\n[[device]]\nname = 'w'\nkind = 'worker'"] {
        let said = ServiceFolder::new(both).serve("").output().unwrap();
        assert_eq!(said.status.code(), Some(2));
        let told = String::from_utf8(said.stderr).unwrap();
        assert!(told.contains("two files"), "{told}");
    }
}

#[test]
fn check_says_whether_it_would_start_and_starts_nothing() {
    let folder = ServiceFolder::new("[sockets]");
    let said = folder.serve("--check").output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let told = String::from_utf8(said.stdout).unwrap();
    assert!(told.contains("would start with it") && told.contains(&folder.socket().display().to_string()), "{told}");
    assert!(!folder.socket().parent().unwrap().exists());
    let wrong = ServiceFolder::new("[sidecores]\ncpus = [100000]\n[sockets]").serve("--check").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("core 100000 is not here"));
}

#[test]
fn it_detaches_and_its_process_is_told() {
    let folder = ServiceFolder::new("[sockets]");
    // The service keeps standard error for its log.
    let said = folder.serve("--detach").stderr(Stdio::null()).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let process = String::from_utf8(said.stdout).unwrap().trim().parse().unwrap();
    assert!(list(&folder, "").status.success());
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, Signal::TERM).unwrap();
}

#[test]
fn the_unit_starts_it_with_words_that_it_takes() {
    let unit = include_str!("../../../packaging/sidecore-sockets.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..4], ["/usr/lib/sidecore/sidecore-sockets", "sockets", "serve", "--config"]);
    let help = String::from_utf8(sockets().args(["serve", "--help"]).output().unwrap().stdout).unwrap();
    assert!(help.contains("--config <FILE>"), "{help}");
}

#[test]
fn the_installed_configuration_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/sockets.toml");
    assert!(sidecore_sockets_service::Config::read(path.as_ref()).is_ok());
}
