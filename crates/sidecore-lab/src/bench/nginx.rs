//! What a TLS handshake costs a web server: nginx with its key in a file, and with its key in the service.

mod crowd;
pub(super) mod server;

use super::crew::{Crew, Plan};
use super::experiment::{Better, By, Case, Counted, Run, Turn, Variant, measure_all};
use super::keys::setup::pem;
use super::programs::{certify, need, service_cpu, write_pem};
use super::task::Measured;
use super::{BenchError, Outcome, Settings};
use crate::baseline::private_key;
use crate::progress::Progress;
use crate::report::Key;
use server::{Nginx, handshakes};
use sidecore::config::Sidecores;
use sidecore::sys::{clock, cpu};
use std::fs;
use std::path::Path;

/// Keys, with what handshakes a second of CPU time are to reach.
const KEYS: [(&str, f64); 3] = [("rsa-2048-sign", 0.97), ("p-256-sign", 0.97), ("rsa-4096-sign", 1.5)];
const BASELINE: &str = "key in a file";
/// Processes that make handshakes.
const CLIENTS: usize = 2;

/// Names of the keys.
pub(super) fn ops() -> Vec<&'static str> {
    KEYS.iter().map(|(op, _)| *op).collect()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    if let Err(why) = need(&["nginx", "openssl"], "apt-get install nginx openssl") {
        return Ok(Outcome::left_out(format!("nginx: {why}")));
    }
    let keys: Vec<_> = KEYS.into_iter().filter(|(op, _)| settings.wants(op)).collect();
    let ops: Vec<&str> = keys.iter().map(|(op, _)| *op).collect();
    let everywhere = Sidecores { cpus: cpu::allowed(), owned: false };
    let services = Services {
        same: Crew::with_keys(&Plan { sidecores: everywhere, ..Plan::inline(0) }, &ops)?,
        other: Crew::with_keys(&Plan::inline(0), &ops)?,
    };
    // A service beside a web server has no core to itself.
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
    outcome.add(crowd::measure(settings, progress)?);
    Ok(outcome.noted(
        "nginx: full TLS 1.3 handshakes by two processes openssl s_time -new on the last core, with one worker on the first. Client \
         CPU is that of the worker, service CPU that of the service; the ratio is that of handshakes a second of both \
         together. All hops park. Same core: a service with a sidecore on each core, of which a lane gets the one on its \
         client's; nothing is woken on another core. Other core: its only sidecore is on the last core, which it shares with the load.",
    ))
}

/// The two services that nginx is tried with.
struct Services {
    same: Crew,
    other: Crew,
}

/// The same server three times: with its key in a file, and in each of the services.
struct Servers([Nginx; 3]);

impl Servers {
    fn start(services: &Services, op: &str) -> Result<Self, BenchError> {
        let directory = services.same.directory();
        let [file, certificate] = ["key.pem", "certificate.pem"].map(|name| directory.join(name));
        write_pem(&private_key(op)?, &file)?;
        certify(&file, &certificate)?;
        let cpu = services.same.pinning.client(0);
        Ok(Self([
            Nginx::start(&directory.join("own"), 1, (&certificate, &file), None, cpu)?,
            provided(&services.same, 1, op, &certificate)?,
            provided(&services.other, 1, op, &certificate)?,
        ]))
    }
}

fn case(services: &Services, op: &str, reach: f64, seconds: u64) -> Case<'static, Servers> {
    let worker = format!("worker {:?}", services.same.pinning.client(0).unwrap_or(0));
    // Away from the server, as clients are.
    let loaders = services.other.pinning.sidecores.first().copied();
    let variant = |number: usize, name: &str, sidecores: &str| {
        let run = move |servers: &mut Servers, _: &Turn<'_>| run(&servers.0[number], CLIENTS, seconds, loaders);
        Variant::new(name, run).with(Key::Pinned, format!("{worker}{sidecores}"))
    };
    let provided = |variant: Variant<'static, Servers>| variant.with(Key::Notify, "park").against(By::Rate, BASELINE);
    let on_last = format!(", sidecore {:?}", services.other.pinning.sidecores);
    let same = provided(variant(1, "key in sidecore, same core", ", a sidecore on each core"));
    Case::new("nginx")
        .with(Key::Op, op)
        .with(Key::Clients, CLIENTS)
        .variant(variant(0, BASELINE, ""))
        .variant(same.with(Key::AtLeast, reach))
        .variant(provided(variant(2, "key in sidecore, other core", &on_last)))
}

/// nginx with its key in that service.
fn provided(crew: &Crew, workers: usize, op: &str, certificate: &Path) -> Result<Nginx, BenchError> {
    let directory = crew.directory();
    let stored = directory.join("stored.pem");
    fs::write(&stored, pem(op)?.ok_or_else(|| format!("{op} is not stored"))?)?;
    let configuration = directory.join("openssl.cnf");
    let cpu = crew.pinning.client(0);
    Nginx::start(&directory.join("provided"), workers, (certificate, &stored), Some(&configuration), cpu)
}

/// Handshakes for so many seconds.
fn run(nginx: &Nginx, clients: usize, seconds: u64, loaders: Option<usize>) -> Result<Run, BenchError> {
    let (worker, service, began) = (nginx.cpu()?, service_cpu()?, clock::now());
    let ops = handshakes(nginx.port, clients, seconds, loaders)?;
    let ns = clock::now() - began;
    let cpu_ns = nginx.cpu()?.saturating_sub(worker);
    // Whom nobody asks anything uses none.
    let service_ns = service_cpu()?.saturating_sub(service);
    let per_cpu_s = ops as f64 * 1e9 / (cpu_ns + service_ns).max(1) as f64;
    let measured = Measured { ops, ns, began, cpu_ns, ..Measured::default() };
    Ok(Run::of(vec![measured]).counted(Counted::cpu(service_ns)).compared_by(
        "handshakes_per_cpu_s",
        Better::More,
        per_cpu_s,
    ))
}
