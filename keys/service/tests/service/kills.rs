//! Clients and devices that die in the middle of everything: surviving clients lose nothing and get nothing twice.

use crate::checked::{Counts, Load, Random};
use crate::peer::{Held, Peer, until};
use scopeguard::defer;
use sidecore::client::{Admin, Options};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const KILLS: usize = 120;
const VICTIMS: usize = 4;
const DEVICE_ROUNDS: u32 = 28;
const SURVIVORS: u64 = 2;

const ALL_KINDS: &str = r#"
device = [
    { name = "inline", kind = "inline" },
    { name = "worker0", kind = "worker" },
    { name = "card0", kind = "emulated", fixed_ns = 3000, per_byte_ns = 0.2 },
]"#;
const NO_INLINE: &str = r#"
device = [
    { name = "worker0", kind = "worker" },
    { name = "card0", kind = "emulated", fixed_ns = 3000, per_byte_ns = 0.2 },
]"#;

struct World {
    service: Peer,
    socket: PathBuf,
    before: Held,
    _directory: TempDir,
}

impl World {
    fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let service = Peer::serve(&socket, config);
        let before = Held::by(service.pid());
        Self { service, socket, before, _directory: directory }
    }

    fn options(&self) -> Options {
        Options { socket: self.socket.clone(), ..Options::default() }
    }

    fn survive(&self, disturb: impl FnOnce(&Path)) -> Vec<Counts> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let survive = |seed| {
                let mut load = Load::new(&self.options(), 48, seed).unwrap();
                while !done.load(Ordering::Relaxed) {
                    load.step().unwrap();
                }
                load.drain().unwrap();
                load.counts
            };
            let survivors: Vec<_> = (1..=SURVIVORS).map(|seed| scope.spawn(move || survive(seed))).collect();
            {
                defer!(done.store(true, Ordering::Relaxed));
                disturb(&self.socket);
            }
            survivors.into_iter().map(|survivor| survivor.join().unwrap()).collect()
        })
    }

    /// The service released all resources of its clients, and lives.
    fn end(self) {
        until("lanes and descriptors are given back", || Held::by(self.service.pid()) == self.before);
        self.service.finish();
    }
}

#[test]
fn killed_clients_take_nothing_with_them() {
    let world = World::new(ALL_KINDS);
    let counts = world.survive(|socket| {
        let mut random = Random(42);
        let mut start = |seed: usize| {
            let mut victim = Peer::start(&["load", socket.to_str().unwrap(), &(seed + 1).to_string()]);
            // Some die while they attach.
            if random.below(4) > 0 {
                victim.expect("loading");
            }
            thread::sleep(Duration::from_micros(random.below(4000) as u64));
            victim
        };
        let mut victims: Vec<Peer> = Vec::new();
        for kill in 0..KILLS {
            victims.push(start(kill));
            if victims.len() == VICTIMS {
                victims.remove(kill % VICTIMS).kill();
            }
        }
        victims.iter_mut().for_each(Peer::kill);
    });
    println!("{KILLS} clients killed; survivors: {counts:?}");
    for counts in counts {
        assert_eq!((counts.done, counts.refused, counts.failed), (counts.submitted, 0, 0));
        assert!(counts.done > 100);
    }
    world.end();
}

fn replace_devices(socket: &Path) {
    let mut client = Admin::connect(&Options { socket: socket.to_owned(), ..Options::default() }).unwrap();
    for round in 0..DEVICE_ROUNDS {
        thread::sleep(Duration::from_millis(u64::from(round % 4) * 5));
        client.set(&format!("device.worker{round}=kill")).unwrap();
        client.set(&format!("device.card{round}=kill")).unwrap();
        thread::sleep(Duration::from_millis(u64::from(round % 3) * 3));
        let next = round + 1;
        client.set(&format!("device={{ name = \"worker{next}\", kind = \"worker\" }}")).unwrap();
        let model = "kind = \"emulated\", fixed_ns = 3000, per_byte_ns = 0.2";
        client.set(&format!("device={{ name = \"card{next}\", {model} }}")).unwrap();
    }
}

#[test]
fn killed_devices_lose_nothing_where_another_is_left() {
    let world = World::new(ALL_KINDS);
    let counts = world.survive(replace_devices);
    println!("{} devices killed; clients: {counts:?}", 2 * DEVICE_ROUNDS);
    for counts in counts {
        assert_eq!((counts.done + counts.failed, counts.refused), (counts.submitted, 0));
        // Only requests that lost four devices are abandoned.
        assert!(counts.done > 1000 && counts.failed < 100, "{counts:?}");
    }
    world.end();
}

#[test]
fn each_request_is_answered_once_where_no_device_is_left() {
    let world = World::new(NO_INLINE);
    let counts = world.survive(replace_devices);
    println!("{} devices killed; clients: {counts:?}", 2 * DEVICE_ROUNDS);
    for counts in counts {
        assert_eq!(counts.answered(), counts.submitted);
        assert!(counts.done > 1000, "{counts:?}");
    }
    world.end();
}
