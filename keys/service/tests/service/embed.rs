//! Errors of a service that does not start, seen from its embedding program.

use crate::common::{administer, connect, start};
use sidecore::config::{Config, DeviceConfig, NotifyConfig, Sidecores};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;
use sidecore::service::{Service, StartError};
use sidecore_daemon::start;
use sidecore_daemon::sys::cpu;
use sidecore_testing::skipped;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

fn at(socket: &Path) -> Config {
    Config { socket: socket.to_owned(), ..Config::default() }
}

fn told(config: Config) -> String {
    Service::start(config).expect_err("it must not start").to_string()
}

#[test]
fn a_core_that_is_not_here_is_named_with_those_that_are() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let sidecores = Sidecores { cpus: vec![999], owned: false };
    assert!(told(Config { sidecores, ..at(&socket) }).starts_with("core 999 is not here: name one of those"));
    let devices = vec![DeviceConfig::worker("w", Some(998), false)];
    assert!(told(Config { devices, ..at(&socket) }).starts_with("core 998 is not here"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_contradiction_is_named_with_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let good = || at(&directory.path().join("socket"));
    let devices = |devices: Vec<DeviceConfig>| Config { devices, ..good() };
    let twins = vec![DeviceConfig::inline("a"), DeviceConfig::inline("a")];
    let astray = DeviceConfig { sidecore: Some(1), ..DeviceConfig::inline("a") };
    assert!(told(devices(Vec::new())).contains("leave the key out or add one"));
    assert!(told(devices(twins)).contains("give each its own name"));
    assert!(told(devices(vec![astray])).contains("sidecore = 1: use 0 to 0"));
    let mut config = good();
    config.limits.quantum_us = 0;
    assert_eq!(told(config), "limits.quantum_us = 0: use 1 to 100000");
    let many = (0..65).map(|number| DeviceConfig::emulated(&number.to_string(), 0, 0.0)).collect();
    assert!(told(devices(many)).contains("64 devices"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_place_that_cannot_be_used_is_named_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    for socket in [file.join("socket"), file.clone(), directory.path().to_owned()] {
        let message = told(at(&socket));
        assert!(message.contains(&*socket.to_string_lossy()) && message.contains("SIDECORE_SOCKET"), "{message}");
    }
    assert!(told(at(&file)).contains("no socket"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let counters = Some(file.join("counters"));
    let socket = directory.path().join("socket");
    let message = told(Config { counters, ..at(&socket) });
    assert!(message.contains("counters"), "{message}");
    assert!(!socket.exists());
}

#[test]
fn a_second_service_leaves_the_first_alone() {
    let service = start(Config::default());
    let error = Service::start(at(service.socket())).unwrap_err();
    assert!(matches!(error, StartError::Daemon(start::StartError::AlreadyRunning(_))));
    assert!(error.to_string().contains("stop it, or name another socket"));
    let mut client = connect(&service);
    client.open_session(&sample(Class::NOOP, 0, 0).spec).unwrap();
    assert!(service.is_alive());
}

#[test]
fn a_socket_left_by_a_service_that_died_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    for _ in 0..3 {
        let service = Service::start(at(&socket)).unwrap();
        connect(&service);
        assert!(service.is_alive());
        drop(service);
        assert!(!socket.exists());
    }
}

#[test]
fn a_directory_is_made_for_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(at(&directory.path().join("a/b/socket"))).unwrap();
    connect(&service);
}

fn cores_of_thread(name: &str) -> String {
    let mut tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let named = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let status = fs::read_to_string(tasks.find(named).unwrap().join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_worker_that_is_tied_to_no_core_leaves_an_owned_one_alone() {
    let [first, .., last] = cpu::allowed()[..] else { return skipped("there is one core") };
    let directory = tempfile::tempdir().unwrap();
    let sidecores = Sidecores { cpus: vec![first], owned: true };
    let devices = vec![DeviceConfig::inline("here"), DeviceConfig::worker("loose", None, false)];
    let notify = NotifyConfig::all(Notify::Park);
    let config = Config { sidecores, devices, notify, ..at(&directory.path().join("socket")) };
    let _service = Service::start(config).unwrap();
    // It sets this itself, as its first step.
    let settled = (0..10_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        cores_of_thread("sidecore-loose") != first.to_string()
    });
    let cores = cores_of_thread("sidecore-loose");
    assert!(settled && cores.ends_with(&last.to_string()) && !cores.starts_with(&format!("{first}-")), "{cores}");
}

#[test]
fn a_core_that_is_kept_free_is_used_by_who_names_it() {
    let [first, .., last] = cpu::allowed()[..] else { return skipped("there is one core") };
    let directory = tempfile::tempdir().unwrap();
    let sidecores = Sidecores { cpus: vec![last], owned: false };
    let config = Config { sidecores, ..at(&directory.path().join("socket")) };
    let start = || {
        // The state of a kernel with `isolcpus`.
        cpu::pin(first).unwrap();
        Service::start(config)
    };
    let service = thread::scope(|scope| scope.spawn(start).join().unwrap()).unwrap();
    connect(&service);
}

#[test]
fn several_sidecores_share_a_core_if_they_must() {
    let directory = tempfile::tempdir().unwrap();
    let here = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..1024).find(|cpu| here.is_set(*cpu)).unwrap();
    let sidecores = Sidecores { cpus: vec![cpu; 3], owned: false };
    let devices = vec![DeviceConfig::inline("here"), DeviceConfig { sidecore: Some(2), ..DeviceConfig::inline("two") }];
    let socket = directory.path().join("socket");
    let service = Service::start(Config { sidecores, devices, ..at(&socket) }).unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| connect(&service)).collect();
    for client in &mut clients {
        let noop = sample(Class::NOOP, 0, 0);
        let session = client.open_session(&noop.spec).unwrap();
        client.call(session, noop.op, 0, &[], 0).unwrap();
    }
    let mut admin = administer(&service);
    admin.set("device.two=drain").unwrap();
    assert!(admin.set("device.three=drain").is_err());
}
