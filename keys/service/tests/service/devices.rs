//! Devices of each kind: right results, and devices that join and leave under load.

use crate::common::{Running, administer, connect, start};
use crate::load::{Load, Tally};
use crate::peer::until;
use sidecore::client::{Client, Error};
use sidecore::config::{Config, DeviceConfig, DeviceKind, LimitsConfig};
use sidecore::core::dispatch::DeviceState;
use sidecore::core::session::{Class, Op, Refusal};
use sidecore::engine::crypto::sample::{Sample, sample};
use sidecore::engine::crypto::{DecryptionPadding, KeyMaterial, Scheme, Session, SessionSpec};
use sidecore_counters::{DeviceCounter, DeviceStats, Snapshot};
use std::time::{Duration, Instant};

pub(crate) fn service(devices: impl Into<Vec<DeviceConfig>>) -> Running {
    start(Config { devices: devices.into(), ..Config::default() })
}

pub(crate) fn worker(name: &str) -> DeviceConfig {
    DeviceConfig::worker(name, None, false)
}

pub(crate) fn devices_when(service: &Running, ready: impl Fn(&[DeviceStats]) -> bool) -> Vec<DeviceStats> {
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let devices = Snapshot::read(service.counters()).unwrap().devices;
        if ready(&devices) {
            return devices;
        }
        assert!(Instant::now() < patience, "the devices stay as they are: {devices:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn shares(service: &Running, total: u64) -> Vec<u64> {
    let given = |device: &DeviceStats| device.get(DeviceCounter::Requests);
    let all = devices_when(service, |devices| devices.iter().map(given).sum::<u64>() == total);
    all.iter().map(given).collect()
}

fn reason(result: Result<Option<String>, Error>) -> String {
    match result {
        Err(Error::Service(refused)) => refused.text,
        other => panic!("{other:?}"),
    }
}

fn randomised(scheme: &Scheme, op: Op) -> bool {
    let signature = matches!(scheme, Scheme::RsaSignature { .. } | Scheme::Ecdsa { .. } | Scheme::MlDsa65);
    let encryption = matches!(scheme, Scheme::RsaEncryption { .. });
    (signature && matches!(op, Op::Sign | Op::SignDigest)) || encryption || op == Op::Encapsulate
}

/// Whether the result equals the local engine's, or the local engine accepts it.
fn agrees(sample: &Sample, result: &[u8]) -> bool {
    // RSA encryption is checked by decryption with the same key.
    let scheme = match &sample.spec.scheme {
        Scheme::RsaEncryption { .. } => Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 },
        scheme => scheme.clone(),
    };
    let session = Session::open(&SessionSpec { scheme, key: sample.spec.key.clone() }).unwrap();
    let run = |op: Op, head_len: usize, input: &[u8]| {
        let mut output = vec![0; session.output_len(op, head_len, input.len()).unwrap()];
        session.run(op, head_len, input, &mut output).map(|len| output[..len].to_vec())
    };
    match sample.op {
        op if !randomised(&sample.spec.scheme, op) => run(op, sample.head_len, &sample.input).unwrap() == result,
        Op::Encrypt => run(Op::Decrypt, 0, result).unwrap() == sample.input,
        Op::Encapsulate => run(Op::Decapsulate, 0, &result[..1088]).unwrap() == result[1088..],
        Op::Sign => run(Op::Verify, result.len(), &[result, &sample.input].concat()).is_ok(),
        // A signature of a digest without a known message cannot be verified: only its length is checked.
        _ => result.len() >= 64,
    }
}

fn every_class(client: &mut Client) {
    for (class, size) in Class::all().flat_map(|class| [(class, 100), (class, 5000)]) {
        let sample = sample(class, size, 9);
        assert!(!matches!(sample.spec.key, KeyMaterial::Public(_)));
        let session = client.open_session(&sample.spec).unwrap();
        let (head_len, room) = (sample.head_len as u32, sample.output_len as u32);
        let result = client.call(session, sample.op, head_len, &sample.input, room).unwrap();
        assert!(agrees(&sample, &result), "{} of {size} bytes", class.name());
        client.close_session(session).unwrap();
    }
}

#[test]
fn every_class_is_done_right_by_each_kind_of_device() {
    let batch = DeviceConfig::batch("d", None, false);
    for device in [DeviceConfig::inline("d"), worker("d"), batch, DeviceConfig::emulated("d", 2_000, 0.1)] {
        let service = service([device]);
        every_class(&mut connect(&service));
        assert_eq!(shares(&service, 2 * Class::COUNT as u64).len(), 1);
    }
}

#[test]
fn a_drained_device_finishes_what_it_has_and_gets_no_more() {
    for slow in [DeviceConfig::emulated("slow", 500_000, 0.0), worker("slow")] {
        let service = service([slow, DeviceConfig::inline("other")]);
        let mut control = administer(&service);
        control.set("balance=round-robin").unwrap();
        let mut load = Load::new(connect(&service), "aes-256-gcm", 3000, 32, false);
        load.run(64);
        load.fill(32);
        control.set("device.slow=drain").unwrap();
        let given = Snapshot::read(service.counters()).unwrap().devices[0].get(DeviceCounter::Requests);
        assert!(given > 0);
        load.run(200);
        assert_eq!(load.tally, Tally { done: 296, ..Tally::default() });
        let all = devices_when(&service, |all| all[0].get(DeviceCounter::InFlight) == 0);
        assert_eq!((all[0].state(), all[0].get(DeviceCounter::Requests)), (Some(DeviceState::Draining), given));
    }
}

#[test]
fn a_drained_device_gets_requests_again_when_it_is_made_active() {
    let service = service([worker("one"), DeviceConfig::inline("other")]);
    let mut control = administer(&service);
    let mut load = Load::new(connect(&service), "aes-256-gcm", 3000, 32, false);
    control.set("balance=round-robin").unwrap();
    control.set("device.one=drain").unwrap();
    load.run(64);
    assert_eq!(shares(&service, 64), [0, 64]);
    control.set("device.one=active").unwrap();
    load.run(64);
    assert_eq!(shares(&service, 128), [32, 96]);
    assert_eq!(devices_when(&service, |_| true)[0].state(), Some(DeviceState::Active));
    load.fill(32);
    control.set("device.one=remove").unwrap();
    let again = reason(control.set("device.one=active"));
    let told = ["taken away as soon as it is empty", "no device \"one\" here"];
    assert!(told.iter().any(|text| again.contains(text)), "{again}");
}

#[test]
fn settings_that_stand_together_are_carried_out_together_or_not_at_all() {
    let service = service([DeviceConfig::inline("first")]);
    let mut control = administer(&service);
    let mut set = |settings: &[&str]| control.set_all(settings.iter().map(|text| (*text).to_owned()).collect());
    let worker = "device={name='w',kind='worker'}";
    for refused in [
        [worker, "balance=sed", "device.nobody=drain"],
        ["device.first=drain", worker, worker],
        ["device.first=drain", worker, "device={name='x',kind='worker',sidecore=3}"],
        ["limits.clients_per_uid=1", worker, "record=off"],
    ] {
        reason(set(&refused));
    }
    let first = devices_when(&service, |all| {
        all.iter().filter(|device| device.state() != Some(DeviceState::Gone)).count() == 1
    });
    assert_eq!((first[0].state(), &*first[0].name), (Some(DeviceState::Active), "first"));
    set(&["device.w=drain", "limits.clients_per_uid=1", worker, "balance=sed"]).unwrap();
    let both = devices_when(&service, |all| all.iter().any(|device| device.state() == Some(DeviceState::Draining)));
    assert!(
        both.iter().any(|device| &*device.name == "w" && device.state() == Some(DeviceState::Draining)),
        "{both:?}"
    );
    let now = control.settings().unwrap();
    let in_force = |key: &str| now.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    assert_eq!((in_force("balance"), in_force("limits.clients_per_uid")), (Some("sed"), Some("1")));
    assert_eq!(in_force("limits.lanes"), Some("2048"));
}

#[test]
fn devices_are_added_and_removed_while_requests_run() {
    let service = service([DeviceConfig::inline("first")]);
    let mut control = administer(&service);
    control.set("balance=round-robin").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 2000, 64, true);
    for _ in 0..4 {
        for device in ["{name='a',kind='worker'}", "{name='b',kind='emulated',fixed_ns=20000}"] {
            load.fill(64);
            control.set(&format!("device={device}")).unwrap();
            load.run(200);
        }
        for name in ["a", "b"] {
            load.fill(64);
            control.set(&format!("device.{name}=remove")).unwrap();
            load.run(200);
        }
        // The next round's devices reuse their numbers.
        let gone =
            |all: &[DeviceStats]| all.len() == 3 && all[1..].iter().all(|d| d.state() == Some(DeviceState::Gone));
        let all = devices_when(&service, gone);
        assert!(all[1..].iter().all(|device| device.get(DeviceCounter::Requests) > 10));
    }
    assert_eq!(load.tally, Tally { done: 4 * 4 * 264, ..Tally::default() });
}

#[test]
fn a_device_gets_only_the_operations_that_it_does() {
    let ops = vec!["sha-256".to_owned()];
    let service = service([
        DeviceConfig { ops: ops.clone(), ..worker("digests") },
        DeviceConfig { ops, ..DeviceConfig::emulated("slow digests", 1_000_000, 0.0) },
        DeviceConfig { ops: vec!["aes-256-gcm".to_owned()], ..worker("ciphers") },
    ]);
    let tally = |class: &str, count: u32| {
        let mut load = Load::new(connect(&service), class, 500, 8, false);
        load.run(count);
        load.tally
    };
    assert_eq!(tally("sha-256", 300).done, 300);
    assert_eq!(tally("aes-256-gcm", 100).done, 100);
    assert_eq!(tally("sha-512", 20).refused, [Refusal::NoDevice; 20]);
    let shares = shares(&service, 400);
    assert_eq!((shares[0] + shares[1], shares[2]), (300, 100));
    assert!(shares[0] > shares[1]);
}

#[test]
fn what_cannot_be_done_to_a_device_is_explained() {
    let service = service([DeviceConfig::inline("here"), worker("there")]);
    let mut client = administer(&service);
    let mut told = |setting: &str| reason(client.set(setting));
    // The message equals that of a start.
    assert!(told("device={name='far',kind='worker',cpu=900}").starts_with("core 900 is not here: name one of those"));
    let elsewhere = told("device.elsewhere=drain");
    assert_eq!(elsewhere, r#"no device "elsewhere" here; there are here, there; nothing was changed"#);
    assert_eq!(told("device.here=kill"), r#""here" is the sidecore itself: drain it instead; nothing was changed"#);
    assert!(told("device.there=stop").contains("unknown action"));
    assert!(told("device={name='there',kind='worker'}").contains("give this one another name"));
    assert!(told("device={name='x',kind='worker',sidecore=3}").contains("no such sidecore"));
    client.set("device.there=remove").unwrap();
    assert_eq!(
        reason(client.set("device.there=kill")),
        r#"no device "there" here; there are here; nothing was changed"#
    );
}

#[test]
fn a_remote_device_has_its_name_without_a_gateway_too_until_it_is_removed() {
    let far = DeviceConfig { kind: DeviceKind::Remote, farm: Some("keys".to_owned()), ..worker("far") };
    let service = service([DeviceConfig::inline("first"), far]);
    let mut client = administer(&service);
    let other = "device={name='far',kind='worker'}";
    assert!(reason(client.set(other)).contains("give this one another name"));
    client.set("device.far=remove").unwrap();
    client.set(other).unwrap();
}

#[test]
fn a_name_is_free_again_when_its_device_is_gone() {
    let service = service([DeviceConfig::inline("first")]);
    let mut client = administer(&service);
    for kind in ["worker", "emulated"].into_iter().cycle().take(8) {
        client.set(&format!("device={{name='again',kind='{kind}'}}")).unwrap();
        client.set("device.again=remove").unwrap();
    }
}

#[test]
fn a_sidecore_has_so_many_devices_at_a_time_and_says_what_to_do_about_more() {
    let service = service([DeviceConfig::inline("first")]);
    let mut client = administer(&service);
    for number in 1..64 {
        client.set(&format!("device={{name='d{number}',kind='emulated'}}")).unwrap();
    }
    let full = reason(client.set("device={name='d64',kind='emulated'}"));
    assert!(
        full.starts_with("a sidecore has at most 64 devices at a time: remove one before adding \"d64\""),
        "{full}"
    );
    client.set("device.d7=remove").unwrap();
    client.set("device={name='d64',kind='emulated'}").unwrap();
    assert!(reason(client.set("device={name='d65',kind='emulated'}")).contains("at a time"));
    let mut load = Load::new(connect(&service), "aes-256-gcm", 100, 64, false);
    load.run(500);
    assert_eq!(load.tally.done, 500);
}

#[test]
fn a_thousand_devices_come_and_go_under_load_and_nothing_is_lost() {
    let service = service([DeviceConfig::inline("first")]);
    let mut control = administer(&service);
    control.set("balance=round-robin").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 500, 32, true);
    let mut submitted = 0;
    for round in 0..1_000 {
        let kind = ["kind='worker'", "kind='emulated',fixed_ns=2000", "kind='emulated',fixed_ns=200000"][round % 3];
        submitted += load.fill(16);
        // Devices that leave finish their requests first.
        until("a number is free", || {
            let added = control.set(&format!("device={{name='d{round}',{kind}}}"));
            added.inspect_err(|error| assert!(error.to_string().contains("at a time"), "{error}")).is_ok()
        });
        submitted += load.fill(16);
        // A killed worker may lose a request while it writes the result: only other kinds are killed here.
        let end = if round % 3 == 2 { "kill" } else { "remove" };
        control.set(&format!("device.d{round}={end}")).unwrap();
        load.finish();
    }
    assert_eq!(load.tally, Tally { done: submitted, ..Tally::default() });
    // Devices that left keep their rows until their numbers are reused.
    let one_is_left = |all: &[DeviceStats]| all.iter().filter(|d| d.state() != Some(DeviceState::Gone)).count() == 1;
    assert!(devices_when(&service, one_is_left).len() <= 64);
}

/// A device that does not answer for eleven seconds is found by the time since it has work. If idle time counted as
/// well, as after a long idle time, no attempt would be faster than that.
#[test]
fn a_device_that_hangs_after_an_idle_time_is_found_as_soon_as_any() {
    const IDLE: Duration = Duration::from_secs(3);
    const ATTEMPTS: u32 = 10;
    let limits = LimitsConfig { device_timeout_ms: 50, ..LimitsConfig::default() };
    let service = start(Config { devices: vec![DeviceConfig::inline("survivor")], limits, ..Config::default() });
    let mut control = administer(&service);
    control.set("balance=round-robin").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 10_000, 2, false);
    let found = (0..ATTEMPTS).any(|_| {
        control.set("device={name='v',kind='emulated',fixed_ns=1000000000,per_byte_ns=1000000}").unwrap();
        std::thread::sleep(IDLE);
        let start = Instant::now();
        // Each device has one of two requests, and the other one does both in the end.
        load.run(2);
        devices_when(&service, |all| all[1].state() == Some(DeviceState::Gone));
        start.elapsed() < IDLE
    });
    assert!(found, "in {ATTEMPTS} attempts");
    assert_eq!(load.tally.done % 2, 0);
}
