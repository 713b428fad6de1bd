//! The project's example configurations, started unchanged.

use crate::root_or_skipped;
use crate::service::{USER_ID, sidecore};
use sidecore::client::{Admin, Client, Options};
use sidecore::core::session::{Class, Op};
use sidecore::engine::crypto::sample::sample;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_counters::{DeviceCounter, Snapshot};
use sidecore_testing::copy_program;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// Number of polls, 10 ms apart, for steps that take milliseconds.
const MAX_POLLS: u32 = 3000;
const SOCKET: &str = "/run/sidecore/sidecore.sock";

/// Gives root's service private directories in the place of the system's; they vanish with it.
const MACHINE: &str = "set -e; mount -t tmpfs run /run; mkdir /run/new /run/work; \
    mount -t overlay etc -o lowerdir=/etc,upperdir=/run/new,workdir=/run/work /etc; mount -t tmpfs lib /var/lib; \
    mkdir -p /etc/sidecore; (umask 077; echo correct horse battery >/etc/sidecore/passphrase); exec \"$@\"";

struct Serving {
    child: Child,
    log: PathBuf,
}

impl Serving {
    fn start(mut command: Command, scratch: &Path) -> Self {
        let log = scratch.join("log");
        let child = command.current_dir(project()).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut serving = Self { child, log };
        for _ in 0..MAX_POLLS {
            if serving.said().contains("serving at") {
                return serving;
            }
            assert_eq!(serving.child.try_wait().unwrap(), None, "{}", serving.said());
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not serve: {}", serving.said());
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn inside(&self, path: &str) -> PathBuf {
        format!("/proc/{}/root{path}", self.child.id()).into()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn as_root(before: &[&str], config: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", MACHINE, "machine"]).args(before);
    command.arg(sidecore().get_program()).args(["serve", "--config"]).arg(config);
    command.env_remove("SIDECORE_SOCKET");
    command
}

fn client(socket: PathBuf) -> Client {
    let service_users = vec![USER_ID.to_string()];
    Client::connect(&Options { socket, service_users, ..Options::default() }).unwrap()
}

fn each_device_works(socket: PathBuf, counters: &Path) {
    let mut client = client(socket);
    for class in Class::all() {
        let sample = sample(class, 1000, 7);
        let session = client.open_session(&sample.spec).unwrap();
        let result = client.call(session, sample.op, sample.head_len as u32, &sample.input, sample.output_len as u32);
        assert!(result.is_ok() || class.op() == Op::Noop, "{}: {result:?}", class.name());
        client.close_session(session).unwrap();
    }
    let rsa = Class::all().filter(|class| class.belongs_to("rsa")).count() as u64;
    let expected = vec![("inline".to_owned(), Class::COUNT as u64 - rsa), ("rsa".to_owned(), rsa)];
    let counted = || {
        let devices = Snapshot::read(counters).unwrap().devices;
        let counts = devices.iter().map(|device| (device.name.clone(), device.get(DeviceCounter::Requests)));
        counts.collect::<Vec<(String, u64)>>()
    };
    for _ in 0..MAX_POLLS {
        if counted() == expected {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(counted(), expected);
}

#[test]
fn the_example_starts_as_typed_on_two_cores_and_on_one_and_each_device_works() {
    if !root_or_skipped("a mount of its own") {
        return;
    }
    for before in [&[][..], &["taskset", "--cpu-list", "0"]] {
        let scratch = tempfile::tempdir().unwrap();
        let service = Serving::start(as_root(before, Path::new("examples/sidecore.toml")), scratch.path());
        assert!(!service.said().contains("no device does"), "{}", service.said());
        each_device_works(service.inside(SOCKET), &service.inside(&format!("{SOCKET}.counters")));
    }
}

#[test]
fn another_user_starts_the_example_at_a_socket_of_its_own_and_is_told_so() {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o777)).unwrap();
    // Copies for a user without access to the originals.
    let (program, config) = (scratch.path().join("sidecore"), scratch.path().join("sidecore.toml"));
    copy_program(sidecore().get_program(), &program);
    fs::copy(project().join("examples/sidecore.toml"), &config).unwrap();
    let command = || {
        let mut command = Command::new("setpriv");
        if rustix::process::geteuid().is_root() {
            command.args(["--clear-groups", &format!("--regid={USER_ID}"), &format!("--reuid={USER_ID}")]);
        }
        command.arg(&program).args(["serve", "--config"]).arg(&config).env_remove("SIDECORE_SOCKET");
        command
    };
    let refused = command().output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("SIDECORE_SOCKET"), "{said}");
    let socket = scratch.path().join("own/socket");
    let mut started = command();
    started.env("SIDECORE_SOCKET", &socket);
    let _service = Serving::start(started, scratch.path());
    each_device_works(socket.clone(), &scratch.path().join("own/socket.counters"));
}

#[test]
fn the_keys_of_the_page_about_keys_are_at_rest_where_it_says() {
    if !root_or_skipped("a mount of its own") {
        return;
    }
    let page = fs::read_to_string(project().join("docs/keys.md")).unwrap();
    let block = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let config = scratch.path().join("sidecore.toml");
    fs::write(&config, block).unwrap();
    let service = Serving::start(as_root(&[], &config), scratch.path());
    let acl = Acl { uids: Vec::new(), gids: Vec::new() };
    let made = KeyCommand::Generate { name: "www".to_owned(), kind: Kind::P256, acl };
    Admin::connect(&Options { socket: service.inside(SOCKET), ..Options::default() }).unwrap().keys(made).unwrap();
    let files = fs::read_dir(service.inside("/var/lib/sidecore/keys")).unwrap();
    let names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.contains(&"master".to_owned()) && names.len() == 2, "{names:?}");
}

#[test]
fn what_no_device_does_is_warned_of_at_the_start() {
    let scratch = tempfile::tempdir().unwrap();
    let config = scratch.path().join("sidecore.toml");
    let socket = scratch.path().join("socket");
    let text = format!("socket='{}'\n[[device]]\nname='a'\nkind='inline'\nops=['rsa']\n", socket.display());
    fs::write(&config, text).unwrap();
    let mut command = sidecore();
    command.args(["serve", "--config"]).arg(&config);
    let service = Serving::start(command, scratch.path());
    let (left, said) = (Class::COUNT - 31, service.said());
    assert!(said.contains(&format!("no device does noop and {left} more operations")), "{said}");
}
