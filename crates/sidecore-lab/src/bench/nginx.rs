//! What a TLS handshake costs a web server: nginx with its key in a file, and with its key in the service.

mod server;

use super::client::private_key;
use super::crew::BenchError;
use super::keys::setup::Setup;
use super::programs::service_cpu;
use super::series::{median, ratio, spread};
use super::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::{CpuPerOp, Reach, Row};
use server::{Nginx, handshakes};
use sidecore::config::DeviceConfig;
use sidecore::sys::clock;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Keys, with what handshakes a second of CPU time are to reach.
const KEYS: [(&str, f64); 3] = [("rsa-2048-sign", 0.97), ("p-256-sign", 0.97), ("rsa-4096-sign", 1.5)];
const BASELINE: &str = "key in a file";
const INSTALL: &str = "apt-get install nginx openssl";

/// One server over all repeats.
#[derive(Default)]
struct Found {
    handshakes: u64,
    seconds: f64,
    server_ns: u64,
    service_ns: u64,
    /// Of each repeat: handshakes a second of CPU time, and of time.
    per_cpu_s: Vec<f64>,
    per_s: Vec<f64>,
}

/// How often, and for how many seconds.
fn effort(settings: &Settings) -> (usize, u64) {
    if settings.quick { (1, 1) } else { (7, 2) }
}

fn keys(settings: &Settings) -> Vec<(&'static str, f64)> {
    KEYS.into_iter().filter(|(op, _)| settings.wants(op)).collect()
}

pub(super) fn steps(settings: &Settings) -> usize {
    keys(settings).len()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let mut outcome = Outcome::default();
    for tool in ["nginx", "openssl"] {
        if Command::new(tool).arg("-v").output().is_err() {
            outcome.left_out.push(format!("nginx: {tool} is not installed: {INSTALL}"));
            return Ok(outcome);
        }
    }
    let keys = keys(settings);
    let ops: Vec<&str> = keys.iter().map(|(op, _)| *op).collect();
    let mut services = Services {
        same: Setup::start_beside(&ops)?,
        other: Setup::start(0, vec![DeviceConfig::inline("inline")], &ops)?,
    };
    // A service beside a web server has no core to itself.
    services.same.set("notify=park")?;
    services.other.set("notify=park")?;
    for (op, reach) in keys {
        progress.begin(&format!("nginx, {op}"));
        outcome.rows.extend(one(&services, op, reach, settings)?);
        progress.advance();
    }
    outcome.notes.push(
        "nginx: full TLS 1.3 handshakes by two processes openssl s_time -new on the last core, with one worker on the first. Client \
         CPU is that of the worker, service CPU that of the service; the ratio is that of handshakes a second of both \
         together. All hops park. Same core: a service with a sidecore on each core, of which a lane gets the one on its \
         client's; nothing is woken on another core. Other core: its only sidecore is on the last core, which it shares with the load."
            .to_owned(),
    );
    Ok(outcome)
}

/// The two services that nginx is tried with.
struct Services {
    same: Setup,
    other: Setup,
}

fn one(services: &Services, op: &str, reach: f64, settings: &Settings) -> Result<[Row; 3], BenchError> {
    let (repeats, seconds) = effort(settings);
    let directory = services.same.directory();
    let key = private_key(op).ok_or_else(|| BenchError::new(format!("no key for {op}")))?;
    let (der, file, certificate) =
        (directory.join("key.der"), directory.join("key.pem"), directory.join("certificate.pem"));
    fs::write(&der, key).map_err(BenchError::new)?;
    server::certify(&der, &file, &certificate)?;
    let pinning = &services.same.pinning;
    let own = Nginx::start(&directory.join("own"), (&certificate, &file), None, pinning.client(0))?;
    let same = provided(&services.same, op, &certificate)?;
    let other = provided(&services.other, op, &certificate)?;
    // Away from the server, as clients are.
    let loaders = services.other.pinning.sidecores.first().copied();
    let mut found: [Found; 3] = Default::default();
    for _ in 0..repeats {
        for (nginx, found) in [&own, &same, &other].into_iter().zip(&mut found) {
            run(nginx, seconds, loaders, found)?;
        }
    }
    let [file, same, other] = found;
    let row = |variant: &str, found: &Found, sidecores: &str| Row {
        op: Some(op.to_owned()),
        clients: Some(2),
        pinned: Some(format!("worker {:?}{sidecores}", pinning.client(0).unwrap_or(0))),
        ..found.row(variant)
    };
    let sidecore = |variant: &str, found: &Found, sidecores: &str| Row {
        notify: Some("park".to_owned()),
        ratio: ratio(&found.per_cpu_s, &file.per_cpu_s),
        baseline: Some(BASELINE.to_owned()),
        ..row(variant, found, sidecores)
    };
    let on_all = ", a sidecore on each core";
    let on_last = format!(", sidecore {:?}", services.other.pinning.sidecores);
    let reached = Row { reach: Some(Reach::at_least(reach)), ..sidecore("key in sidecore, same core", &same, on_all) };
    Ok([row(BASELINE, &file, ""), reached, sidecore("key in sidecore, other core", &other, &on_last)])
}

/// nginx with its key in that service.
fn provided(setup: &Setup, op: &str, certificate: &Path) -> Result<Nginx, BenchError> {
    let directory = setup.directory();
    let stored = directory.join("stored.pem");
    let pem = setup.pem(op).ok_or_else(|| BenchError::new(format!("{op} is not stored")))?;
    fs::write(&stored, pem).map_err(BenchError::new)?;
    let configuration = directory.join("openssl.cnf");
    let cpu = setup.pinning.client(0);
    Nginx::start(&directory.join("provided"), (certificate, &stored), Some(&configuration), cpu)
}

/// Handshakes for so many seconds.
fn run(nginx: &Nginx, seconds: u64, loaders: Option<usize>, found: &mut Found) -> Result<(), BenchError> {
    let (worker, service, began) = (nginx.cpu()?, service_cpu()?, clock::now());
    let count = handshakes(nginx.port(), seconds, loaders)?;
    let took = (clock::now() - began) as f64 / 1e9;
    let server_ns = nginx.cpu()?.saturating_sub(worker);
    // Whom nobody asks anything uses none.
    let service_ns = service_cpu()?.saturating_sub(service);
    found.handshakes += count;
    found.seconds += took;
    found.server_ns += server_ns;
    found.service_ns += service_ns;
    found.per_s.push(count as f64 / took);
    found.per_cpu_s.push(count as f64 * 1e9 / (server_ns + service_ns).max(1) as f64);
    Ok(())
}

impl Found {
    fn row(&self, variant: &str) -> Row {
        let us_each = |ns: u64| ns as f64 / 1000.0 / self.handshakes.max(1) as f64;
        Row {
            ops_per_s: Some(median(&self.per_s)),
            cpu_us_per_op: Some(CpuPerOp { client: us_each(self.server_ns), service: us_each(self.service_ns) }),
            repeats: Some(self.per_s.len() as u32),
            spread: Some(spread(&self.per_cpu_s)),
            metrics: Some(BTreeMap::from([("handshakes_per_cpu_s".to_owned(), median(&self.per_cpu_s))])),
            ..Row::new("nginx", variant)
        }
    }
}
