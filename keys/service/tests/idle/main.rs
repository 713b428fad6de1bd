//! CPU time of an idle service, and no spinning on a core that is not its own. A test program of its own, since it
//! reads the threads of its process.

use sidecore::client::{Admin, Client, Options};
use sidecore::config::{Config, DeviceConfig, NotifyConfig};
use sidecore::core::policy::notify::Notify;
use sidecore::engine::crypto::sample::sample;
use sidecore::service::Service;
use sidecore_counters::{SidecoreCounter, Snapshot};
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Clock ticks of CPU time, 10 ms each, that threads of a service may take in one idle second.
const TICKS: u64 = 2;
/// Waits of the sidecore that may end in one idle second, or for one request. A neighbour of this machine makes none.
const WAITS: u64 = 4;

const POLICIES: [Notify; 6] = [
    Notify::Spin,
    Notify::Park,
    Notify::Timer { period: 200_000 },
    Notify::Coalesce { count: 4, delay: 100_000 },
    Notify::BreakEven,
    Notify::Learn,
];

/// One test at a time: each looks at all threads.
static ALONE: Mutex<()> = Mutex::new(());

fn start(notify: Notify, devices: Vec<DeviceConfig>) -> (Service, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let config = Config { socket, notify: NotifyConfig::all(notify), devices, ..Config::default() };
    (Service::start(config).unwrap(), directory)
}

fn devices() -> Vec<DeviceConfig> {
    vec![DeviceConfig::inline("inline"), DeviceConfig::worker("worker", None, false)]
}

fn administer(service: &Service) -> Admin {
    let socket = service.socket().to_owned();
    Admin::connect(&Options { socket, ..Options::default() }).unwrap()
}

fn connect(service: &Service) -> Client {
    let socket = service.socket().to_owned();
    Client::connect(&Options { socket, slots: 16, arena_bytes: 1 << 16, ..Options::default() }).unwrap()
}

fn work(client: &mut Client, requests: u32) {
    let sample = sample(sidecore::core::session::Class::from_name("aes-256-gcm").unwrap(), 100, 1);
    let session = client.open_session(&sample.spec).unwrap();
    for _ in 0..requests {
        client.call(session, sample.op, 0, &sample.input, 128).unwrap();
    }
    client.close_session(session).unwrap();
}

fn ticks() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats.filter(|stat| stat.contains("(sidecore-")).map(|stat| ticks_of(&stat)).sum()
}

/// Fields 14 and 15, counted from the end of the name.
fn ticks_of(stat: &str) -> u64 {
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Whether one of three runs takes at most that number of ticks: other load lengthens CPU time, never shortens it.
fn takes_at_most(most: u64, what: &str, mut took: impl FnMut() -> u64) -> bool {
    (0..3).any(|_| {
        let took = took();
        println!("{what}: {took} ticks");
        took <= most
    })
}

#[test]
fn an_idle_service_takes_no_cpu_time() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (notify, lanes) in [(Notify::Park, 1), (Notify::Park, 300), (Notify::BreakEven, 300)] {
        let (service, _directory) = start(notify, devices());
        let mut clients: Vec<Client> = (0..lanes).map(|_| connect(&service)).collect();
        for client in &mut clients {
            work(client, 2);
        }
        thread::sleep(Duration::from_millis(30));
        assert!(takes_at_most(TICKS, &format!("{notify}, {lanes} lanes"), || {
            let (before, counted) = (ticks(), counted(&service));
            thread::sleep(Duration::from_secs(1));
            let [polls, waits] = counted_since(&service, counted);
            assert!(polls == 0 && waits <= WAITS, "{polls} empty polls, {waits} waits");
            ticks() - before
        }));
        for client in &mut clients {
            work(client, 2);
        }
    }
}

#[test]
fn a_sidecore_whose_devices_are_full_sleeps() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let slow = DeviceConfig { depth: Some(1), ..DeviceConfig::emulated("slow", 100_000_000, 0.0) };
    let (service, _directory) = start(Notify::Park, vec![slow]);
    let mut clients: Vec<Client> = (0..10).map(|_| connect(&service)).collect();
    assert!(takes_at_most(3 * TICKS, "about 900 ms of waiting for room", || {
        let counted = counted(&service);
        let before = thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| work(client, 1));
            }
            thread::sleep(Duration::from_millis(100));
            ticks()
        });
        let [polls, waits] = counted_since(&service, counted);
        assert!(polls == 0 && waits <= 10 * WAITS, "{polls} empty polls, {waits} waits");
        ticks() - before
    }));
}

fn counted(service: &Service) -> [u64; 2] {
    let sidecore = &Snapshot::read(service.counters()).unwrap().sidecores[0];
    [SidecoreCounter::EmptyPolls, SidecoreCounter::Waits].map(|counter| sidecore.get(counter))
}

fn counted_since(service: &Service, before: [u64; 2]) -> [u64; 2] {
    let now = counted(service);
    [now[0] - before[0], now[1] - before[1]]
}

fn when(service: &Service, said: impl Fn([u64; 2]) -> bool) -> [u64; 2] {
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let counted = counted(service);
        if said(counted) {
            return counted;
        }
        assert!(Instant::now() < patience, "{counted:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn on_one_core(test: impl FnOnce() + Send) {
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set(first);
    thread::scope(|scope| {
        scope.spawn(|| {
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            test();
        });
    });
}

#[test]
fn on_one_core_everything_works_and_nobody_spins() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    on_one_core(|| {
        for notify in POLICIES {
            let (service, _directory) = start(notify, devices());
            let mut client = connect(&service);
            administer(&service).set("balance=round-robin").unwrap();
            work(&mut client, 200);
            let audit = client.wait_report().audit;
            assert_eq!((audit.empty_polls, audit.spun_ns), (0, 0), "{notify}");
            let [polls, waits] = when(&service, |[_, waits]| waits > 0);
            assert_eq!(polls, 0, "{notify}: {waits} waits");
        }
    });
}

#[test]
fn who_owns_its_core_spins_and_lets_clients_spin_on_others() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let sidecores = sidecore::config::Sidecores { cpus: vec![first], owned: true };
    let notify = NotifyConfig::all(Notify::Spin);
    let service = Service::start(Config { socket, sidecores, notify, ..Config::default() }).unwrap();
    let mut client = connect(&service);
    work(&mut client, 500);
    let polls = client.wait_report().audit.empty_polls;
    println!("{polls} empty polls of the client on {} cores", all.count());
    assert_eq!(polls > 0, all.count() > 1);
    when(&service, |[polls, _]| polls > 0);
    let sidecore = &Snapshot::read(service.counters()).unwrap().sidecores[0];
    assert_eq!((sidecore.get(SidecoreCounter::Parks), sidecore.get(SidecoreCounter::Naps)), (0, 0));
}
