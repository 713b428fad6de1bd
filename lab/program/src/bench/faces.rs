//! Signatures by programs without OpenSSL: the faces of the service against what keeps keys for such programs today.

mod agents;
mod softhsm;

use super::error::BenchError;
use super::experiment::{By, Case, Counted, Run, Turn, Variant, measure_all};
use super::scenario::{SERVICES, Scenario, Settings};
use super::task::Task;
use super::testbed::{HEAD_START, Member, Plan, Testbed};
use crate::report::figures::{SMALL, Series, along, figure};
use crate::report::{Column, Group, Outcome, Row, column, counted, grouped, section};
use sidecore::config::{NotifyConfig, Sidecores};
use sidecore::core::policy::notify::Notify;
use sidecore_daemon::sys::cpu;
use sidecore_ipc::sys::clock;
use sidecore_measure::experiment::Measured;
use sidecore_measure::programs::{ProgramError, Server, family_cpu, service_cpu};
use sidecore_measure::progress::Progress;
use sidecore_measure::provider::built;
use sidecore_report::columns;
use sidecore_report::format::plain;
use softhsm::{PIN, SoftHsm};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

columns! {
    pub(super) COLUMNS after column::CLIENTS;

    /// Interface by which the program signs.
    FACE = Column::text("face", 3);
    /// Threads of each program, each with one request at a time.
    THREADS = Column::set("threads", 0, plain).headed("thr.");
    /// Programs that sign at once.
    PROCESSES = Column::set("processes", 0, plain).headed("proc.");
}

pub(super) static SCENARIO: Scenario = Scenario::new(
    "faces",
    "Signatures through PKCS#11 and ssh-agent's protocol; not among all",
    measure,
    &[section(
        "faces",
        "Faces: PKCS#11 and ssh-agent",
        "Signatures a second of programs without OpenSSL, with the key in the service, against SoftHSM 2 in the program and \
         behind p11-kit's remoting, and against OpenSSH's agent.",
    )
    .plots(|rows| vec![by_crowd(rows)])],
)
.ops(|| OPS.to_vec())
.alone(SERVICES);

const OPS: [&str; 2] = ["rsa-2048-sign", "p-256-sign"];
const SOFTHSM: &str = "softhsm2";
const REMOTE: &str = "softhsm2+p11-kit";
const SIDECORE: &str = "sidecore";
/// File names as cargo builds it, and as it is installed.
const MODULE: [&str; 2] = ["libsidecore_pkcs11.so", "sidecore-pkcs11.so"];

/// Threads, processes, and the ratios to reach against `SoftHSM` in the program and behind p11-kit.
type Point = (&'static str, (usize, usize), (Option<f64>, Option<f64>));

const POINTS: [Point; 6] = [
    (OPS[0], (1, 1), (Some(0.95), Some(2.5))),
    (OPS[0], (8, 1), (Some(1.5), Some(2.5))),
    (OPS[0], (1, 8), (Some(2.0), Some(2.5))),
    (OPS[1], (1, 1), (Some(0.9), None)),
    (OPS[1], (8, 1), (None, None)),
    (OPS[1], (1, 8), (None, None)),
];

/// One service for single requests, and one with a sidecore on each core.
struct Laboratory {
    alone: Testbed,
    crowd: Testbed,
}

/// Programs that load a module.
#[derive(Clone)]
struct Module {
    path: PathBuf,
    environment: (&'static str, OsString),
    /// Process that signs for it, outside of the programs and of our service.
    server: Option<u32>,
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let ops: Vec<&str> = OPS.into_iter().filter(|op| settings.wants(op)).collect();
    let module = built(&MODULE, "sidecore-pkcs11")?;
    let mut laboratory = Laboratory::start(&ops)?;
    let softhsm = match SoftHsm::prepare(laboratory.alone.directory(), &ops) {
        Ok(softhsm) => softhsm,
        Err(why @ BenchError::Program(ProgramError::Missing { .. })) => {
            return Ok(Outcome::left_out(format!("faces: {why}")));
        }
        Err(why) => return Err(why),
    };
    let (Server(server), address) = &softhsm.serve()?;
    let (name, value) = softhsm.environment();
    let packaged = Module { path: softhsm.module.clone(), environment: (name, value.into()), server: None };
    let environment = (address.0, OsString::from(&address.1));
    let remote = Module { path: softhsm.client.clone(), environment, server: Some(server.id()) };
    let (repeats, ns) = settings.pick((3, 150_000_000), (9, 400_000_000));
    let points = POINTS.into_iter().filter(|(op, ..)| ops.contains(op));
    let cases = points.flat_map(|(op, crowd, (own, behind))| {
        let compared = [(SOFTHSM, own, &packaged), (REMOTE, behind, &remote)];
        compared.map(|compared| case(&laboratory, (op, crowd), ns, compared, &module))
    });
    let cases = cases.collect();
    let mut outcome = measure_all(&mut laboratory, cases, repeats, progress)?;
    if !progress.is_stopped() {
        outcome.add(agents::measure(&mut laboratory, &ops, (repeats, ns), progress)?);
    }
    Ok(outcome.noted(format!(
        "faces: a thread signs again as soon as it has a signature, in two calls of PKCS#11 or one request to an agent; the last \
         signature is verified by OpenSSL. {SOFTHSM} and {REMOTE} may use all cores. With one thread, the program has a core \
         and the sidecore the other, and both spin; with more, each core has a sidecore, nothing of the programs is \
         pinned, and all sleep. CPU times of services are those of sidecore, of p11-kit's server and of agents."
    )))
}

impl Laboratory {
    fn start(ops: &[&str]) -> Result<Self, BenchError> {
        let plan = Plan { clients: 0, notify: NotifyConfig::all(Notify::Spin), ..Plan::inline(1) };
        // A sidecore on each core, as `SoftHSM` also has all cores.
        let sidecores = Sidecores { cpus: cpu::allowed(), owned: false };
        let crowd = Plan { sidecores, notify: NotifyConfig::all(Notify::Park), ..plan.clone() };
        Ok(Self { alone: Testbed::with_keys(&plan, ops)?, crowd: Testbed::with_keys(&crowd, ops)? })
    }

    /// The service that is not measured sleeps.
    fn counting(
        &mut self,
        is_crowd: bool,
        server: Option<u32>,
        run: impl FnOnce() -> Result<Vec<Measured>, BenchError>,
    ) -> Result<Run, BenchError> {
        self.alone.set(if is_crowd { "notify=park" } else { "notify=spin" })?;
        let cpu = service_cpu()?;
        let (measured, server_cpu) = beside(server, run)?;
        let service_cpu = service_cpu()?.saturating_sub(cpu) + server_cpu;
        Ok(Run::of(measured).counted(Counted::cpu(service_cpu)))
    }

    /// While a baseline runs, both services sleep.
    fn resting(&mut self) -> Result<(), BenchError> {
        self.alone.set("notify=park")
    }
}

/// A run, and the CPU time of that process and its children during it, ns.
fn beside<T>(server: Option<u32>, run: impl FnOnce() -> Result<T, BenchError>) -> Result<(T, u64), BenchError> {
    let cpu = || server.map_or(Ok(0), family_cpu);
    let before = cpu()?;
    let done = run()?;
    Ok((done, cpu()?.saturating_sub(before)))
}

fn spinning(testbed: &Testbed) -> String {
    format!("{}; both spin", testbed.pinning.describe(1))
}

/// A plot of ratios for each baseline, and each number of threads and processes.
fn by_crowd(rows: &[&Row]) -> Group {
    let compared: Vec<_> = rows.iter().copied().filter(|row| row.number(column::RATIO).is_some()).collect();
    let key = |row: &Row| {
        let baseline = row.text(column::BASELINE).unwrap_or_default().to_owned();
        (baseline, row.number(THREADS), row.number(PROCESSES))
    };
    let figures = grouped(&compared, key).into_iter().map(|((baseline, threads, processes), rows)| {
        let (threads, processes) = (threads.unwrap_or(1.0), processes.unwrap_or(1.0));
        let title = format!("{}, {}, against {baseline}", counted(processes, "program"), counted(threads, "thread"));
        figure(&title, Series::of(&rows, &[]).bar_plot(SMALL.0, &rows, along::RATIO, Some(1.0)))
    });
    Group { legend: Vec::new(), figures: figures.collect() }
}

fn case(
    laboratory: &Laboratory,
    (op, (threads, processes)): (&'static str, (usize, usize)),
    ns: u64,
    (name, reach, packaged): (&str, Option<f64>, &Module),
    module: &Path,
) -> Case<'static, Laboratory> {
    let is_crowd = threads * processes > 1;
    let testbed = if is_crowd { &laboratory.crowd } else { &laboratory.alone };
    let core = testbed.pinning.client(0).filter(|_| !is_crowd);
    let (mut theirs, server) = (Programs::new(packaged.clone(), processes, core), packaged.server);
    let baseline = move |laboratory: &mut Laboratory, _: &Turn<'_>| {
        laboratory.resting()?;
        let (measured, cpu) = beside(server, || theirs.sign(op, threads, ns))?;
        Ok(Run::of(measured).counted(Counted::cpu(cpu)))
    };
    let environment = ("SIDECORE_SOCKET", testbed.socket().into());
    let ours = Module { path: module.to_owned(), environment, server: None };
    let mut programs = Programs::new(ours, processes, core);
    let run = move |laboratory: &mut Laboratory, _: &Turn<'_>| {
        laboratory.counting(is_crowd, None, || programs.sign(op, threads, ns))
    };
    let sidecore = Variant::new(SIDECORE, run).against(By::Rate, name);
    let sidecore = if let Some(reach) = reach { sidecore.with(column::AT_LEAST, reach) } else { sidecore };
    let crowd = || "a sidecore on each core, programs nowhere; all park".to_owned();
    let pinned = if is_crowd { crowd() } else { spinning(testbed) };
    Case::new("faces")
        .with(column::OP, op)
        .with(FACE, "pkcs11")
        .with(THREADS, threads)
        .with(PROCESSES, processes)
        .with(column::PINNED, pinned)
        .variant(Variant::new(name, baseline))
        .variant(sidecore)
}

/// Client processes with the same module, started by the first run.
struct Programs {
    module: Module,
    count: usize,
    core: Option<usize>,
    members: Vec<Member>,
}

impl Programs {
    fn new(module: Module, count: usize, core: Option<usize>) -> Self {
        Self { module, count, core, members: Vec::new() }
    }

    fn sign(&mut self, op: &str, threads: usize, ns: u64) -> Result<Vec<Measured>, BenchError> {
        while self.members.len() < self.count {
            let member = self.start(op)?;
            self.members.push(member);
        }
        let start = clock::now() + HEAD_START * self.count as u64;
        let task = self.task(op, threads, (start, ns));
        Member::together(&mut self.members, &task)
    }

    /// One after another: `SoftHSM` refuses some of several logins at once.
    fn start(&self, op: &str) -> Result<Member, BenchError> {
        let (name, value) = &self.module.environment;
        let mut member = Member::start(&[(name, value)])?;
        if let Some(cpu) = self.core {
            member.measure(&Task::Pin { cpu })?;
        }
        member.measure(&self.task(op, 1, (0, 1)))?;
        Ok(member)
    }

    fn task(&self, op: &str, threads: usize, (start, ns): (u64, u64)) -> Task {
        Task::Token { module: self.module.path.clone(), pin: PIN.to_owned(), op: op.to_owned(), threads, start, ns }
    }
}
