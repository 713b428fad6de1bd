//! The measuring process's side: its own service, client processes, and their cores.

use super::error::BenchError;
use super::experiment::Run;
use super::task::{Answer, Task};
use sidecore::bare::{Bare, Exchange};
use sidecore::client::{Admin, Client, Options};
use sidecore::config::{Config, DeviceConfig, NotifyConfig, Sidecores, service_users};
use sidecore::core::policy::notify::Notify;
use sidecore::service::Service;
use sidecore_counters::{DeviceCounter, SidecoreCounter, Snapshot};
use sidecore_daemon::sys::cpu;
use sidecore_daemon::sys::park::ParkTimes;
use sidecore_ipc::sys::clock;
use sidecore_measure::experiment::Measured;
use sidecore_measure::pinning::Pinning;
use sidecore_measure::programs::ProgramError;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const SLOTS: u32 = 256;
const REST: Duration = Duration::from_millis(30);
/// Time for two clients to receive their orders before the common start, ns.
pub(super) const HEAD_START: u64 = 5_000_000;

/// A service and its clients. The clients end first.
pub(crate) struct Testbed {
    pub(crate) pinning: Pinning,
    members: Vec<Member>,
    bare: Bare,
    service: Host,
    directory: TempDir,
}

enum Host {
    Own(Box<Service>),
    /// A service that was running at this socket. Only the things that its clients may read or change are touched.
    Running(PathBuf),
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) pinning: Pinning,
    pub(crate) sidecores: Sidecores,
    pub(crate) clients: usize,
    pub(crate) notify: NotifyConfig,
    pub(crate) devices: Vec<DeviceConfig>,
    pub(crate) sample_every: u32,
    pub(crate) slots: u32,
}

impl Plan {
    pub(crate) fn inline(clients: usize) -> Self {
        Self::on(1, clients)
    }

    pub(crate) fn on(sidecores: usize, clients: usize) -> Self {
        let pinning = Pinning::new(sidecores);
        Self {
            sidecores: Sidecores { cpus: pinning.sidecores.clone(), owned: !pinning.sidecores.is_empty() },
            pinning,
            clients,
            notify: NotifyConfig::all(Notify::BreakEven),
            devices: vec![DeviceConfig::inline("inline")],
            sample_every: 64,
            slots: SLOTS,
        }
    }
}

impl Testbed {
    pub(crate) fn start(plan: &Plan) -> Result<Self, BenchError> {
        let mut testbed = Self::without_clients(plan)?;
        let (socket, bare) = (testbed.socket().to_owned(), testbed.bare.path());
        testbed.add_clients(plan.clients, &Task::Attach { socket, slots: plan.slots, bare })?;
        Ok(testbed)
    }

    pub(super) fn without_clients(plan: &Plan) -> Result<Self, BenchError> {
        let Plan { pinning, sidecores, notify, devices, sample_every, .. } = plan.clone();
        let directory = tempfile::Builder::new().prefix("sidecore-bench-").tempdir()?;
        let socket = directory.path().join("socket");
        let service = Service::start(Config { socket, sidecores, notify, devices, sample_every, ..Config::default() })?;
        Ok(Self {
            pinning,
            members: Vec::new(),
            bare: Bare::create()?,
            service: Host::Own(Box::new(service)),
            directory,
        })
    }

    pub(super) fn beside(socket: &Path, clients: usize) -> Result<Self, BenchError> {
        let mut testbed = Self::beside_without_clients(socket)?;
        let (socket, bare) = (socket.to_owned(), testbed.bare.path());
        testbed.add_clients(clients, &Task::Attach { socket, slots: SLOTS, bare })?;
        Ok(testbed)
    }

    pub(super) fn beside_without_clients(socket: &Path) -> Result<Self, BenchError> {
        let directory = tempfile::Builder::new().prefix("sidecore-bench-").tempdir()?;
        let pinning = Pinning { is_unknown: true, ..Pinning::default() };
        let service = Host::Running(socket.to_owned());
        let testbed = Self { pinning, members: Vec::new(), bare: Bare::create()?, service, directory };
        // Any defect of the connection is reported here, once.
        if let Err(why) = testbed.admin() {
            return Err(BenchError::Service { socket: socket.to_owned(), why: Box::new(why) });
        }
        Ok(testbed)
    }

    pub(super) fn add_clients(&mut self, clients: usize, first: &Task) -> Result<(), BenchError> {
        for index in 0..clients {
            let mut member = Member::start(&[])?;
            if let Some(cpu) = self.pinning.client(index) {
                member.measure(&Task::Pin { cpu })?;
            }
            member.measure(first)?;
            self.members.push(member);
        }
        Ok(())
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn socket(&self) -> &Path {
        match &self.service {
            Host::Own(service) => service.socket(),
            Host::Running(socket) => socket,
        }
    }

    pub(super) fn is_beside(&self) -> bool {
        matches!(self.service, Host::Running(_))
    }

    pub(crate) fn counters(&self) -> Result<Snapshot, BenchError> {
        match &self.service {
            Host::Own(service) => Ok(Snapshot::read(service.counters())?),
            Host::Running(socket) => Err(BenchError::ForeignCounters(socket.clone())),
        }
    }

    /// Batches of its devices, full ones, and requests in them, so far.
    pub(super) fn batches(&self) -> Result<[u64; 3], BenchError> {
        let devices = self.counters()?.devices;
        let counters = [DeviceCounter::Batches, DeviceCounter::FullBatches, DeviceCounter::Gathered];
        Ok(counters.map(|counter| devices.iter().map(|device| device.get(counter)).sum()))
    }

    pub(crate) fn park(&self) -> Result<ParkTimes, BenchError> {
        let counters = self.counters()?;
        let of = |counter| counters.sidecores.first().map_or(0, |sidecore| sidecore.get(counter));
        Ok(ParkTimes { cost: of(SidecoreCounter::ParkCostNs), wake: of(SidecoreCounter::WakeTimeNs) })
    }

    pub(crate) fn spread(&mut self, clients: usize, everywhere: bool) -> Result<(), BenchError> {
        let mut cpus = self.pinning.clients.clone();
        if everywhere {
            cpus.extend(&self.pinning.sidecores);
        }
        for (member, cpu) in self.members.iter_mut().take(clients).zip(cpus.iter().cycle()) {
            member.measure(&Task::Pin { cpu: *cpu })?;
        }
        Ok(())
    }

    pub(crate) fn idle_lanes(&self, count: usize) -> Result<Vec<Client>, BenchError> {
        let options = Options { slots: 2, arena_bytes: 4096, ..self.options() };
        let lanes = (0..count).map(|_| Client::connect(&options)).collect::<Result<_, _>>()?;
        thread::sleep(REST);
        Ok(lanes)
    }

    fn options(&self) -> Options {
        Options { socket: self.socket().to_owned(), service_users: service_users(), ..Options::default() }
    }

    /// Keep it for a few changes only: an idle connection would count among connections without a lane.
    pub(super) fn admin(&self) -> Result<Admin, BenchError> {
        Ok(Admin::connect(&self.options())?)
    }

    pub(crate) fn set(&self, setting: &str) -> Result<(), BenchError> {
        if self.is_beside() {
            return Err(BenchError::ForeignSetting(self.socket().to_owned()));
        }
        self.admin()?.set(setting)?;
        Ok(())
    }

    pub(crate) fn together(&mut self, clients: usize, task: impl Fn(u64) -> Task) -> Result<Vec<Measured>, BenchError> {
        let task = task(clock::now() + HEAD_START * clients.max(2) as u64 / 2);
        Member::together(&mut self.members[..clients], &task)
    }

    pub(crate) fn closed(
        &mut self,
        clients: usize,
        (op, size): (&str, u32),
        depth: u32,
        ns: u64,
    ) -> Result<Run, BenchError> {
        let task = |start| Task::Closed { op: op.to_owned(), size, depth, start, ns };
        Ok(Run::of(self.together(clients, task)?))
    }

    /// A bare exchange between the first client and a thread on the first sidecore's core. The service sleeps meanwhile
    /// and spins afterwards.
    pub(crate) fn beside_sleeping(&mut self, exchange: Exchange, depth: u32, ns: u64) -> Result<Run, BenchError> {
        self.set("notify.service=park")?;
        let task = match exchange {
            Exchange::PingPong => Task::PingPong { ns },
            Exchange::Echo { size } => Task::Echo { size, depth, ns },
        };
        let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
        let member = &mut self.members[0];
        let (bare, cpu) = (&self.bare, self.pinning.sidecores.first().copied());
        let measured = thread::scope(|scope| {
            let peer = scope.spawn(|| {
                if let Some(cpu) = cpu {
                    // The service could be pinned to this core, so this thread can.
                    let _ = cpu::pin(cpu);
                }
                bare.prepare();
                ready.store(true, Ordering::Release);
                bare.serve(exchange, &stop);
            });
            while !ready.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let measured = member.measure(&task);
            stop.store(true, Ordering::Release);
            peer.join().map_err(|_| BenchError::State("the thread of a bare exchange panicked"))?;
            measured
        })?;
        self.set("notify.service=spin")?;
        Ok(Run::at(measured.per_s()))
    }
}

pub(super) struct Member {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Member {
    pub(super) fn start(variables: &[(&str, &OsStr)]) -> Result<Self, BenchError> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("bench-client")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| ProgramError::Start { name: "a client process".to_owned(), error })?;
        let answers = process.stdout.take().ok_or(BenchError::State("a client process without output"))?;
        Ok(Self { process, answers: BufReader::new(answers) })
    }

    pub(super) fn together(members: &mut [Self], task: &Task) -> Result<Vec<Measured>, BenchError> {
        members.iter_mut().try_for_each(|member| member.send(task))?;
        members.iter_mut().map(Self::receive).collect()
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    fn send(&mut self, task: &Task) -> Result<(), BenchError> {
        let orders = self.process.stdin.as_mut().ok_or(BenchError::State("a client process without input"))?;
        let line = serde_json::to_string(task)?;
        writeln!(orders, "{line}").map_err(BenchError::on("a client process ended"))
    }

    fn receive(&mut self) -> Result<Measured, BenchError> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let Ok(answer) = serde_json::from_str::<Answer>(&line) else { return Err(BenchError::EndedEarly(line)) };
        answer.map_err(BenchError::Client)
    }

    pub(super) fn measure(&mut self, task: &Task) -> Result<Measured, BenchError> {
        self.send(task)?;
        self.receive()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Closing its input ends the process.
        let _ = self.process.wait();
    }
}
