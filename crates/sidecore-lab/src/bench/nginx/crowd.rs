//! nginx with many workers, whose private operations a batch device does side by side.

use super::super::crew::{Crew, Plan};
use super::super::experiment::{By, Case, Turn, Variant, measure_all};
use super::super::keys::setup::pem;
use super::super::programs::{certify, write_pem};
use super::super::{BenchError, Outcome, Settings};
use super::server::Nginx;
use super::{BASELINE, provided, run};
use crate::baseline::private_key;
use crate::progress::Progress;
use crate::report::Key;
use sidecore::config::{DeviceConfig, Sidecores};

/// The key, with what handshakes a second of CPU time are to reach by batches.
const KEY: (&str, f64) = ("rsa-2048-sign", 1.2);
const WORKERS: usize = 8;
/// Processes that make handshakes: more than workers, so that each has something to do.
const CLIENTS: usize = 16;

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let (op, reach) = KEY;
    if progress.is_stopped() || !settings.wants(op) || pem(op)?.is_none() {
        return Ok(Outcome::default());
    }
    let [worker, batch] = [DeviceConfig::worker, DeviceConfig::batch].map(|device| service(op, device));
    let crews = [worker?, batch?];
    let directory = crews[0].directory();
    let [file, certificate] = ["key.pem", "certificate.pem"].map(|name| directory.join(name));
    write_pem(&private_key(op)?, &file)?;
    certify(&file, &certificate)?;
    let cpu = crews[0].pinning.client(0);
    let mut servers = [
        Nginx::start(&directory.join("own"), WORKERS, (&certificate, &file), None, cpu)?,
        provided(&crews[0], WORKERS, op, &certificate)?,
        provided(&crews[1], WORKERS, op, &certificate)?,
    ];
    let (repeats, seconds) = settings.pick((1, 1), (7, 2));
    let case = case(&crews[0], op, reach, seconds);
    let outcome = measure_all(&mut servers, vec![case], repeats, progress)?;
    Ok(outcome.noted(
        "nginx-crowd: as nginx, with eight workers on the first core and 16 processes openssl s_time on the last, which the device \
         shares with them; all hops park.",
    ))
}

/// A service whose one device is on the last core, with the sidecore on the first.
fn service(op: &str, device: fn(&str, Option<usize>, bool) -> DeviceConfig) -> Result<Crew, BenchError> {
    let plan = Plan::inline(0);
    let sidecores = Sidecores { cpus: plan.pinning.clients.first().copied().into_iter().collect(), owned: false };
    let devices = vec![device("device", plan.pinning.sidecores.first().copied(), false)];
    let crew = Crew::with_keys(&Plan { sidecores, devices, ..plan }, &[op])?;
    crew.set("notify=park")?;
    Ok(crew)
}

fn case(crew: &Crew, op: &str, reach: f64, seconds: u64) -> Case<'static, [Nginx; 3]> {
    let last = crew.pinning.sidecores.first().copied();
    let pinned = match (crew.pinning.client(0), last) {
        (Some(first), Some(last)) => format!("workers and sidecore [{first}], device and load [{last}]"),
        _ => crew.pinning.describe(0),
    };
    let variant = |number: usize, name: &str| {
        let run = move |servers: &mut [Nginx; 3], _: &Turn<'_>| run(&servers[number], CLIENTS, seconds, last);
        Variant::new(name, run)
    };
    let provided =
        |number: usize, name: &str| variant(number, name).with(Key::Notify, "park").against(By::Rate, BASELINE);
    Case::new("nginx-crowd")
        .with(Key::Op, op)
        .with(Key::Clients, CLIENTS)
        .with(Key::Pinned, pinned)
        .variant(variant(0, BASELINE))
        .variant(provided(1, "key in sidecore, worker"))
        .variant(provided(2, "key in sidecore, batch").with(Key::AtLeast, reach))
}
