//! The simulator repeats the decisions of a real service.

use sidecore::client::{Admin, Client, Options, Request};
use sidecore::config::{Config, DeviceConfig};
use sidecore::core::session::Class;
use sidecore::core::wire::Status;
use sidecore::engine::crypto::sample::sample;
use sidecore::service::Service;
use sidecore_sim::replay::{ReplayError, Replayed, replay};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use tempfile::TempDir;

/// Longest wait for an answer before the test fails, ns.
const STALL: u64 = 20_000_000_000;

fn start(directory: &TempDir, devices: Vec<DeviceConfig>) -> Service {
    let path = |name: &str| directory.path().join(name);
    let config = Config { socket: path("socket"), record: Some(path("record")), devices, ..Config::default() };
    Service::start(Config { record_mib: 16, sample_every: 4, ..config }).unwrap()
}

fn connect(socket: &Path) -> Client {
    Client::connect(&Options { socket: socket.to_owned(), ..Options::default() }).unwrap()
}

fn admin(socket: &Path) -> Admin {
    Admin::connect(&Options { socket: socket.to_owned(), ..Options::default() }).unwrap()
}

fn load(socket: &Path, class: &str, total: u32) -> u32 {
    load_with(socket, class, total, 16)
}

fn load_with(socket: &Path, class: &str, total: u32, in_flight: u32) -> u32 {
    let mut client = connect(socket);
    let sample = sample(Class::from_name(class).unwrap(), 1_000, 5);
    let session = client.open_session(&sample.spec).unwrap();
    let from = client.alloc(sample.input.len() as u32).unwrap();
    let to = client.alloc(sample.output_len as u32).unwrap();
    client.write(&from, 0, &sample.input).unwrap();
    let (mut submitted, mut done) = (0, 0);
    for answered in 0..total {
        while submitted < total && submitted < answered + in_flight {
            let (inputs, outputs) = ([from.extent()], [to.extent()]);
            let urgent = submitted % 5 == 0;
            let request = Request { session, op: sample.op, head_len: 0, inputs: &inputs, outputs: &outputs, urgent };
            client.submit(submitted, &request).unwrap();
            submitted += 1;
        }
        client.ring();
        let received = client.wait_for(STALL).unwrap().expect("an answer comes");
        done += u32::from(matches!(received.status, Status::Done { .. }));
    }
    done
}

fn disturb(socket: &Path) {
    let mut control = admin(socket);
    for setting in [
        "balance=round-robin",
        "notify=park",
        "device.card=kill",
        "device={name='second',kind='emulated',fixed_ns=9000}",
        "notify=coalesce(4,20us)",
        "balance=sed",
        "device.worker=drain",
        "device={name='third',kind='worker'}",
        "balance=priced",
        "device.second=remove",
        "balance=tokens",
    ] {
        thread::sleep(std::time::Duration::from_millis(5));
        control.set(setting).unwrap();
    }
}

fn same(path: &Path) -> Replayed {
    let replayed = replay(&fs::read(path).unwrap()).unwrap();
    assert!(replayed.first_difference.is_none() && !replayed.cut_off, "{:?}", replayed.first_difference);
    replayed
}

#[test]
fn a_recorded_run_is_decided_again_bit_for_bit() {
    let directory = tempfile::tempdir().unwrap();
    let devices = vec![DeviceConfig::emulated("card", 15_000, 1.0), DeviceConfig::worker("worker", None, false)];
    let service = start(&directory, devices);
    let socket = service.socket();
    let done: u32 = thread::scope(|scope| {
        let classes = ["aes-256-gcm", "sha-256", "aes-128-cbc"];
        let clients = classes.map(|class| scope.spawn(move || load(socket, class, 3_000)));
        disturb(socket);
        clients.map(|client| client.join().unwrap()).into_iter().sum()
    });
    assert!(done > 8_000, "{done}");
    let mut control = admin(socket);
    control.set("record=off").unwrap();
    let path = directory.path().join("record");
    let said = control.set("record=off").unwrap_err().to_string();
    assert!(said.contains(path.to_str().unwrap()) && said.contains("start the service again"), "{said}");
    assert!(control.set("record=on").is_err());

    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let replayed = same(&path);
    println!("{} calls, {} decisions", replayed.events, replayed.decisions);
    assert!(replayed.decisions > 3 * 9_000, "{replayed:?}");

    let bytes = fs::read(&path).unwrap();
    for at in (64..bytes.len()).step_by(bytes.len() / 50) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(replay(&changed).is_err(), "byte {at}");
        assert!(matches!(replay(&bytes[..at]), Err(ReplayError::Truncated)), "{at} bytes");
    }
}

#[test]
fn a_service_that_ends_leaves_its_record() {
    let directory = tempfile::tempdir().unwrap();
    let service = start(&directory, vec![DeviceConfig::inline("inline")]);
    assert_eq!(load(service.socket(), "sha-256", 500), 500);
    drop(service);
    assert!(same(&directory.path().join("record")).decisions > 500);
}

#[test]
fn what_a_service_did_can_come_once_more_to_other_devices() {
    let directory = tempfile::tempdir().unwrap();
    let service = start(&directory, vec![DeviceConfig::emulated("card", 15_000, 1.0)]);
    assert_eq!(load(service.socket(), "sha-256", 2_000), 2_000);
    drop(service);
    let record = directory.path().join("record");
    let json = directory.path().join("figures.json");
    let again = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_sidecore-lab"));
        program.args(["sim", "replay"]).arg(&record).args(more).arg("--json").arg(&json).output().unwrap()
    };
    let done = again(&["--devices", "2", "--balance", "priced"]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && said.contains("2 like device 0 of the record, priced"), "{said}");
    let lines = fs::read_to_string(&json).unwrap();
    let figures: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [recorded, same, two] = [0, 1, 2].map(|line| figures[line]["mean_us"].as_f64().unwrap());
    // The sidecore's own time is left out; two devices are not slower than one.
    assert!(same <= recorded * 1.05 && two <= same * 1.01 && two >= 15.0, "{lines}");
    for (wrong, message) in [(["--like", "3"], "devices 0 to 0"), (["--balance", "best"], "--balance:")] {
        let refused = again(&wrong);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(message), "{said}");
    }
}

#[test]
fn of_a_client_that_waits_for_each_answer_it_is_said_that_others_would_have_come_at_other_times() {
    let directory = tempfile::tempdir().unwrap();
    let service = start(&directory, vec![DeviceConfig::emulated("card", 15_000, 1.0)]);
    assert_eq!(load_with(service.socket(), "sha-256", 2_000, 1), 2_000);
    drop(service);
    let mut program = Command::new(env!("CARGO_BIN_EXE_sidecore-lab"));
    let done = program.args(["sim", "replay"]).arg(directory.path().join("record")).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let note = "of a closed loop: 1 of 1 lanes wait for answers, with at most 1 requests in flight";
    assert!(done.status.success() && said.contains(note), "{said}");
}
