//! A near machine far away from its key servers: a link with latency and losses, made of namespaces here.

use super::site::{Process, Site, User};
use nix::sched::{CloneFlags, setns};
use sidecore::client::{Buffer, Request};
use sidecore::core::session::Op;
use sidecore::core::wire::{Extent, Status};
use sidecore::keys::Acl;
use sidecore::spec::{Hash, Scheme};
use sidecore_testing::nats::Server;
use sidecore_testing::skipped;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Address of the far end.
const FAR: &str = "198.18.0.2";
const MESSAGE: &[u8] = &[7; 32];
const IN_FLIGHT: usize = 256;
const SPAN: Duration = Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 20 });
const P256: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-p-256.pkcs8.der");

struct Link {
    process: Child,
    near: File,
    far: File,
}

impl Link {
    fn start(delay_ms: u32, loss_percent: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
            skipped("only root enters the namespaces of another process, and interfaces are made with /dev/net/tun");
            return None;
        }
        let lab = Path::new(env!("CARGO_BIN_EXE_sidecore-remote")).with_file_name("sidecore-lab");
        let mut command = Command::new(lab);
        command.args(["net", "link", "--delay-us", &format!("{delay_ms}000"), "--loss-percent", loss_percent]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
        let mut end = || {
            let line = lines.next().unwrap().unwrap();
            let number = line.split_whitespace().skip_while(|word| *word != "-t").nth(1).unwrap();
            File::open(format!("/proc/{number}/ns/net")).unwrap()
        };
        let (near, far) = (end(), end());
        Some(Self { process, near, far })
    }

    /// Starts there what `does` starts.
    fn inside<T: Send>(end: &File, does: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(end, CloneFlags::CLONE_NEWNET).unwrap();
                does()
            });
            inside.join().unwrap()
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Distant {
    user: User,
    key_servers: Vec<Process>,
    _gateway: Process,
    _near: Site,
    _far: Vec<Site>,
    _nats: Server,
    _link: Link,
}

impl Distant {
    fn start(delay_ms: u32, loss_percent: &str) -> Option<Self> {
        let link = Link::start(delay_ms, loss_percent)?;
        let nats = Link::inside(&link.far, || Server::start_with(&["-a", FAR]))?;
        let url = nats.url().replace("127.0.0.1", FAR);
        let (near, far) = (Site::near(), [Site::far(), Site::far()]);
        let public = far.each_ref().map(|site| site.import("www", P256, Acl::default()));
        near.knows("www", &public[0]);
        let serve = || far.iter().zip(["one", "two"]).map(|(site, name)| site.key_server(&url, name)).collect();
        let key_servers = Link::inside(&link.far, serve);
        let gateway = Link::inside(&link.near, || near.gateway(&url));
        let mut user = User::new(&near, "www", Scheme::Ecdsa { hash: Hash::Sha256 });
        user.call_soon(Op::Sign, MESSAGE);
        Some(Self { user, key_servers, _gateway: gateway, _near: near, _far: far.into(), _nats: nats, _link: link })
    }
}

#[derive(Default)]
struct Found {
    done: u32,
    failed: u32,
    longest: Duration,
}

/// Keeps [`IN_FLIGHT`] requests under way for [`SPAN`]. `halfway` is called once.
fn under_load(user: &mut User, halfway: impl FnOnce()) -> Found {
    let input = user.client.alloc(64).unwrap();
    user.client.write(&input, 0, MESSAGE).unwrap();
    let outputs: Vec<Buffer> = (0..IN_FLIGHT).map(|_| user.client.alloc(256).unwrap()).collect();
    let submit = |user: &mut User, tag: usize| {
        let inputs = [Extent::new(input.extent().offset, MESSAGE.len() as u32)];
        let (session, outputs) = (user.session, [outputs[tag].extent()]);
        let request = Request { session, op: Op::Sign, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: true };
        user.client.submit(tag as u32, &request).unwrap();
        user.client.ring();
        Instant::now()
    };
    let (begun, mut found, mut halfway) = (Instant::now(), Found::default(), Some(halfway));
    let mut submitted: Vec<Instant> = (0..IN_FLIGHT).map(|tag| submit(user, tag)).collect();
    while user.client.in_flight() > 0 {
        let received = user.wait();
        let tag = received.tag as usize;
        found.longest = found.longest.max(submitted[tag].elapsed());
        if begun.elapsed() > SPAN / 2
            && let Some(halfway) = halfway.take()
        {
            halfway();
        }
        match received.status {
            Status::Done { .. } if begun.elapsed() < SPAN => {
                found.done += 1;
                submitted[tag] = submit(user, tag);
            }
            Status::Done { .. } => {}
            _ => found.failed += 1,
        }
    }
    found
}

fn tell(what: &str, found: &Found, delay_ms: u32) {
    // Nothing can be done before the first round trip.
    let a_second = f64::from(found.done) / (SPAN.as_secs_f64() - f64::from(2 * delay_ms) * 1e-3);
    let most = IN_FLIGHT as f64 / f64::from(2 * delay_ms) * 1e3;
    let Found { failed, longest, .. } = found;
    eprintln!("{what}: {a_second:.0} signatures a second of {most:.0}, longest {longest:?}, failed {failed}");
}

#[test]
fn neither_latency_nor_losses_of_the_network_fail_a_request() {
    for (delay_ms, loss_percent) in [(10, "0"), (50, "0"), (10, "1"), (50, "1")] {
        let Some(mut distant) = Distant::start(delay_ms, loss_percent) else { return };
        let found = under_load(&mut distant.user, || ());
        tell(&format!("{delay_ms} ms each way, {loss_percent} % lost"), &found, delay_ms);
        assert_eq!((found.failed, found.done > 0), (0, true));
    }
}

#[test]
fn far_away_a_dead_key_servers_requests_are_done_by_another() {
    let Some(mut distant) = Distant::start(50, "0") else { return };
    let key_server = &mut distant.key_servers[0];
    let found = under_load(&mut distant.user, || key_server.kill());
    tell("50 ms each way, one of two killed", &found, 50);
    assert_eq!((found.failed, found.done > 0), (0, true));
}
