//! A server with many simultaneous handshakes. A batch device computes their private operations side by side.

use super::{BASELINE, Identity, Load, Program, WebServer, counted, identity, provided};
use crate::bench::error::BenchError;
use crate::bench::experiment::{By, Case, Counted, Run, Turn, Variant, measure_all};
use crate::bench::keys::setup::pem;
use crate::bench::scenario::Settings;
use crate::bench::testbed::{Plan, Testbed};
use crate::report::{Outcome, column};
use sidecore::config::{DeviceConfig, Sidecores};
use sidecore_measure::progress::Progress;

#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Crowd {
    pub(in crate::bench) scenario: &'static str,
    pub(in crate::bench) program: Program,
    pub(in crate::bench) op: &'static str,
    pub(in crate::bench) clients: usize,
    /// Promised ratio of handshakes a second of CPU time with batches.
    pub(in crate::bench) reach: f64,
    pub(in crate::bench) note: &'static str,
}

/// The servers end before the services that they use.
struct Laboratory {
    servers: [WebServer; 3],
    services: [Testbed; 2],
}

impl Crowd {
    pub(in crate::bench) fn measure(&self, settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
        if progress.is_stopped() || !settings.wants(self.op) || pem(self.op)?.is_none() {
            return Ok(Outcome::default());
        }
        let mut laboratory = self.start()?;
        laboratory.wait()?;
        let (repeats, seconds) = settings.pick((1, 1), (7, 2));
        let case = self.case(&laboratory.services[0], seconds);
        Ok(measure_all(&mut laboratory, vec![case], repeats, progress)?.noted(self.note))
    }

    fn start(&self) -> Result<Laboratory, BenchError> {
        let [worker, batch] = [DeviceConfig::worker, DeviceConfig::batch].map(|device| service(self.op, device));
        let services = [worker?, batch?];
        let directory = services[0].directory();
        let (certificate, key) = identity(directory, self.op)?;
        let own = Identity { certificate: &certificate, key: &key, openssl: None };
        let cpu = services[0].pinning.client(0);
        let servers = [
            WebServer::start(self.program, &directory.join("own"), &own, cpu)?,
            provided(&services[0], self.program, self.op, &certificate)?,
            provided(&services[1], self.program, self.op, &certificate)?,
        ];
        Ok(Laboratory { servers, services })
    }

    fn case(&self, testbed: &Testbed, seconds: u64) -> Case<'static, Laboratory> {
        let last = testbed.pinning.sidecores.first().copied();
        let pinned = match (testbed.pinning.client(0), last) {
            (Some(first), Some(last)) => format!("server and sidecore [{first}], device and load [{last}]"),
            _ => testbed.pinning.describe(0),
        };
        let load = Load { clients: self.clients, seconds, cpu: last };
        let variant = |number: usize, name: &str| {
            Variant::new(name, move |laboratory: &mut Laboratory, _: &Turn<'_>| laboratory.run(number, &load))
        };
        let provided =
            |number: usize, name: &str| variant(number, name).with(column::NOTIFY, "park").against(By::Rate, BASELINE);
        Case::new(self.scenario)
            .with(column::OP, self.op)
            .with(column::CLIENTS, self.clients)
            .with(column::PINNED, pinned)
            .variant(variant(0, BASELINE))
            .variant(provided(1, "key in sidecore, worker"))
            .variant(provided(2, "key in sidecore, batch").with(column::AT_LEAST, self.reach))
    }
}

impl Laboratory {
    /// Waits for a first handshake with each server: a device measures itself at its start, and that is not part of a
    /// handshake's cost.
    fn wait(&self) -> Result<(), BenchError> {
        self.servers
            .iter()
            .try_for_each(|server| Load { clients: 1, seconds: 1, cpu: None }.handshakes(server.port).map(drop))
    }

    fn run(&self, number: usize, load: &Load) -> Result<Run, BenchError> {
        let before = self.batches()?;
        counted(&self.servers[number], load, |service_ns| {
            let after = self.batches()?;
            Ok(Counted::cpu(service_ns).batches(std::array::from_fn(|at| after[at] - before[at])))
        })
    }

    fn batches(&self) -> Result<[u64; 3], BenchError> {
        self.services[1].batches()
    }
}

fn service(op: &str, device: fn(&str, Option<usize>, bool) -> DeviceConfig) -> Result<Testbed, BenchError> {
    let plan = Plan::inline(0);
    let sidecores = Sidecores { cpus: plan.pinning.clients.first().copied().into_iter().collect(), owned: false };
    let devices = vec![device("device", plan.pinning.sidecores.first().copied(), false)];
    let testbed = Testbed::with_keys(&Plan { sidecores, devices, ..plan }, &[op])?;
    testbed.set("notify=park")?;
    Ok(testbed)
}
