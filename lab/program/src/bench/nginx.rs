//! Cost of a TLS handshake in nginx, with its key in a file and in the service.

use super::error::BenchError;
use super::experiment::{By, Case, Turn, Variant, measure_all};
use super::scenario::{SERVICES, Scenario, Settings};
use super::testbed::{Plan, Testbed};
use super::web::{BASELINE, Crowd, Load, identity, provided, run};
use crate::report::{Outcome, column, section};
use sidecore::config::Sidecores;
use sidecore_daemon::sys::cpu;
use sidecore_measure::programs::need;
use sidecore_measure::progress::Progress;
use sidecore_measure::servers::{Identity, Program, WebServer};

pub(super) static SCENARIO: Scenario = Scenario::new(
    "nginx",
    "TLS handshakes of nginx with its key in a file and in the service; not among all",
    measure,
    &[section(
    "nginx",
    "nginx: what a handshake costs",
    "Full TLS 1.3 handshakes a second of CPU time of server and service together, against the same \
     server with its key in a file.",
),
        section(
    "nginx-crowd",
    "nginx with eight workers",
    "Full TLS handshakes a second of CPU time, of server and service together, as a batch device does the private operations of \
     eight workers side by side.",
)],
).ops(ops).alone(SERVICES);

/// Keys with the promised ratio of handshakes a second of CPU time.
const KEYS: [(&str, f64); 3] = [("rsa-2048-sign", 0.97), ("p-256-sign", 0.97), ("rsa-4096-sign", 1.5)];
const CLIENTS: usize = 2;
const ONE: Program = Program::Nginx { workers: 1 };
/// Workers wait for their signatures simultaneously. Clients outnumber workers, so that no worker is idle.
const CROWD: Crowd = Crowd {
    scenario: "nginx-crowd",
    program: Program::Nginx { workers: 8 },
    op: "rsa-2048-sign",
    clients: 16,
    reach: 1.2,
    note: "nginx-crowd: as nginx, with eight workers on the first core and 16 processes openssl s_time on the last, which the device \
           shares with them; all hops park.",
};

fn ops() -> Vec<&'static str> {
    KEYS.iter().map(|(op, _)| *op).collect()
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    if let Err(why) = need(&["nginx", "openssl"], "apt-get install nginx openssl") {
        return Ok(Outcome::left_out(format!("nginx: {why}")));
    }
    let keys: Vec<_> = KEYS.into_iter().filter(|(op, _)| settings.wants(op)).collect();
    let ops: Vec<&str> = keys.iter().map(|(op, _)| *op).collect();
    let everywhere = Sidecores { cpus: cpu::allowed(), owned: false };
    let services = Services {
        same: Testbed::with_keys(&Plan { sidecores: everywhere, ..Plan::inline(0) }, &ops)?,
        other: Testbed::with_keys(&Plan::inline(0), &ops)?,
    };
    // A service on a web server's machine has no core of its own.
    services.same.set("notify=park")?;
    services.other.set("notify=park")?;
    let (repeats, seconds) = settings.pick((1, 1), (7, 2));
    let mut outcome = Outcome::default();
    for (op, reach) in keys {
        if progress.is_stopped() {
            break;
        }
        let mut servers = Servers::start(&services, op)?;
        let cases = vec![case(&services, op, reach, seconds)];
        outcome.add(measure_all(&mut servers, cases, repeats, progress)?);
    }
    drop(services);
    outcome.add(CROWD.measure(settings, progress)?);
    Ok(outcome.noted(
        "nginx: full TLS 1.3 handshakes by two processes openssl s_time -new on the last core, with one worker on the first. Client \
         CPU is that of the worker, service CPU that of the service; the ratio is that of handshakes a second of both \
         together. All hops park. Same core: a service with a sidecore on each core, of which a lane gets the one on its \
         client's; nothing is woken on another core. Other core: its only sidecore is on the last core, which it shares with the load.",
    ))
}

struct Services {
    same: Testbed,
    other: Testbed,
}

struct Servers([WebServer; 3]);

impl Servers {
    fn start(services: &Services, op: &str) -> Result<Self, BenchError> {
        let directory = services.same.directory();
        let (certificate, key) = identity(directory, op)?;
        let own = Identity { certificate: &certificate, key: &key, openssl: None };
        Ok(Self([
            WebServer::start(ONE, &directory.join("own"), &own, services.same.pinning.client(0))?,
            provided(&services.same, ONE, op, &certificate)?,
            provided(&services.other, ONE, op, &certificate)?,
        ]))
    }
}

fn case(services: &Services, op: &str, reach: f64, seconds: u64) -> Case<'static, Servers> {
    let worker = format!("worker {:?}", services.same.pinning.client(0).unwrap_or(0));
    // Clients run on another core than the server.
    let load = Load { clients: CLIENTS, seconds, cpu: services.other.pinning.sidecores.first().copied() };
    let variant = |number: usize, name: &str, sidecores: &str| {
        let run = move |servers: &mut Servers, _: &Turn<'_>| run(&servers.0[number], &load);
        Variant::new(name, run).with(column::PINNED, format!("{worker}{sidecores}"))
    };
    let provided =
        |variant: Variant<'static, Servers>| variant.with(column::NOTIFY, "park").against(By::Rate, BASELINE);
    let on_last = format!(", sidecore {:?}", services.other.pinning.sidecores);
    let same = provided(variant(1, "key in sidecore, same core", ", a sidecore on each core"));
    Case::new("nginx")
        .with(column::OP, op)
        .with(column::CLIENTS, CLIENTS)
        .variant(variant(0, BASELINE, ""))
        .variant(same.with(column::AT_LEAST, reach))
        .variant(provided(variant(2, "key in sidecore, other core", &on_last)))
}
