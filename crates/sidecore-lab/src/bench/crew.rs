//! The measuring process's side: a service of its own, client processes, and who runs on which core.

use super::BenchError;
use super::experiment::Run;
use super::task::{Answer, Measured, Task};
use sidecore::bare::{Bare, Exchange};
use sidecore::client::{Admin, Client, Options};
use sidecore::config::{Config, DeviceConfig, NotifyConfig, Sidecores, service_users};
use sidecore::core::policy::notify::Notify;
use sidecore::counters::{DeviceCounter, SidecoreCounter, Snapshot};
use sidecore::service::{ParkTimes, Service};
use sidecore::sys::{clock, cpu};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Slots of a client's lane, unless a scenario needs others.
const SLOTS: u32 = 256;
/// Time for idle lanes to go dormant.
const REST: Duration = Duration::from_millis(30);
/// Time for two clients to receive their orders before they start together, ns.
pub(super) const HEAD_START: u64 = 5_000_000;

/// Which cores are for sidecores, which for clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pinning {
    pub(crate) sidecores: Vec<usize>,
    pub(crate) clients: Vec<usize>,
    /// The service ran already, and nobody here knows on which cores.
    pub(crate) is_unknown: bool,
}

impl Pinning {
    /// The last `sidecores` of the cores that this process may use, and the others for clients. None for anybody where
    /// there are too few: nothing can be pinned apart then, and nothing spins.
    pub(crate) fn new(sidecores: usize) -> Self {
        let mut clients = cpu::allowed();
        match clients.len().checked_sub(sidecores).filter(|left| *left > 0) {
            Some(split) => Self { sidecores: clients.split_off(split), clients, is_unknown: false },
            None => Self::default(),
        }
    }

    /// How that many clients should wait: polling pays only on a core of one's own.
    pub(crate) fn client_policy(&self, clients: usize) -> Notify {
        if clients <= self.clients.len() { Notify::Spin } else { Notify::Park }
    }

    pub(super) fn client(&self, index: usize) -> Option<usize> {
        (!self.clients.is_empty()).then(|| self.clients[index % self.clients.len()])
    }

    /// In words, for rows.
    pub(crate) fn describe(&self, clients: usize) -> String {
        if self.is_unknown {
            return "nothing pinned, the service ran already".to_owned();
        }
        if self.clients.is_empty() {
            return "one core, nothing pinned".to_owned();
        }
        let used = &self.clients[..clients.clamp(1, self.clients.len())];
        format!("clients {used:?}, sidecores {:?}", self.sidecores)
    }
}

/// A service and its clients, which end before it.
pub(crate) struct Crew {
    pub(crate) pinning: Pinning,
    members: Vec<Member>,
    bare: Bare,
    service: Host,
    directory: TempDir,
}

/// Whose service clients use.
enum Host {
    /// This crew's.
    Own(Service),
    /// One that ran before at this socket: nothing of it is changed or read that its clients may not.
    Running(PathBuf),
}

/// What a crew's service is like.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) pinning: Pinning,
    /// On their cores of the pinning, or on others.
    pub(crate) sidecores: Sidecores,
    pub(crate) clients: usize,
    pub(crate) notify: NotifyConfig,
    pub(crate) devices: Vec<DeviceConfig>,
    pub(crate) sample_every: u32,
    pub(crate) slots: u32,
}

impl Plan {
    /// One sidecore that does the work itself, with that many clients.
    pub(crate) fn inline(clients: usize) -> Self {
        Self::on(1, clients)
    }

    /// So many sidecores that do the work themselves, with that many clients.
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

impl Crew {
    /// Starts the service in this process and the clients in theirs.
    pub(crate) fn start(plan: &Plan) -> Result<Self, BenchError> {
        let mut crew = Self::without_clients(plan)?;
        let (socket, bare) = (crew.socket().to_owned(), crew.bare.path());
        crew.add_clients(plan.clients, &Task::Attach { socket, slots: plan.slots, bare })?;
        Ok(crew)
    }

    /// Starts the service alone.
    pub(super) fn without_clients(plan: &Plan) -> Result<Self, BenchError> {
        let Plan { pinning, sidecores, notify, devices, sample_every, .. } = plan.clone();
        let directory = tempfile::Builder::new().prefix("sidecore-bench-").tempdir()?;
        let socket = directory.path().join("socket");
        let service = Service::start(Config { socket, sidecores, notify, devices, sample_every, ..Config::default() })?;
        Ok(Self { pinning, members: Vec::new(), bare: Bare::create()?, service: Host::Own(service), directory })
    }

    /// No service, but so many clients of the one that runs at that socket.
    pub(super) fn beside(socket: &Path, clients: usize) -> Result<Self, BenchError> {
        let mut crew = Self::beside_without_clients(socket)?;
        let (socket, bare) = (socket.to_owned(), crew.bare.path());
        crew.add_clients(clients, &Task::Attach { socket, slots: SLOTS, bare })?;
        Ok(crew)
    }

    /// The same with clients to come.
    pub(super) fn beside_without_clients(socket: &Path) -> Result<Self, BenchError> {
        let directory = tempfile::Builder::new().prefix("sidecore-bench-").tempdir()?;
        let pinning = Pinning { is_unknown: true, ..Pinning::default() };
        let service = Host::Running(socket.to_owned());
        let crew = Self { pinning, members: Vec::new(), bare: Bare::create()?, service, directory };
        // It says at once, and once, what is wrong.
        crew.admin().map_err(|why| format!("cannot use the service at {}: {why}", socket.display()))?;
        Ok(crew)
    }

    /// Starts client processes, tied to their cores, that carry out this order first.
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

    /// A directory that ends with this.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn socket(&self) -> &Path {
        match &self.service {
            Host::Own(service) => service.socket(),
            Host::Running(socket) => socket,
        }
    }

    /// Whether the service ran before, and others may use it as well.
    pub(super) fn is_beside(&self) -> bool {
        matches!(self.service, Host::Running(_))
    }

    /// What the service counted so far.
    pub(crate) fn counters(&self) -> Result<Snapshot, BenchError> {
        match &self.service {
            Host::Own(service) => Ok(Snapshot::read(service.counters())?),
            Host::Running(socket) => Err(format!("the counters of {} are not this bench's", socket.display()).into()),
        }
    }

    /// Batches of its devices, full ones, and requests in them, so far.
    pub(super) fn batches(&self) -> Result<[u64; 3], BenchError> {
        let devices = self.counters()?.devices;
        let counters = [DeviceCounter::Batches, DeviceCounter::FullBatches, DeviceCounter::Gathered];
        Ok(counters.map(|counter| devices.iter().map(|device| device.get(counter)).sum()))
    }

    /// What the service measured at its start of a sleep and its wake-up.
    pub(crate) fn park(&self) -> Result<ParkTimes, BenchError> {
        let counters = self.counters()?;
        let of = |counter| counters.sidecores.first().map_or(0, |sidecore| sidecore.get(counter));
        Ok(ParkTimes { cost: of(SidecoreCounter::ParkCostNs), wake: of(SidecoreCounter::WakeTimeNs) })
    }

    /// Lets the first `clients` of them run on the sidecores' cores too, or on their own only.
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

    /// That many lanes of this process on which nothing happens, once they have come to rest.
    pub(crate) fn idle_lanes(&self, count: usize) -> Result<Vec<Client>, BenchError> {
        let options = Options { slots: 2, arena_bytes: 4096, ..self.options() };
        let lanes = (0..count).map(|_| Client::connect(&options)).collect::<Result<_, _>>()?;
        thread::sleep(REST);
        Ok(lanes)
    }

    fn options(&self) -> Options {
        Options { socket: self.socket().to_owned(), service_users: service_users(), ..Options::default() }
    }

    /// For a few changes: an idle connection would count among those without a lane.
    pub(super) fn admin(&self) -> Result<Admin, BenchError> {
        Ok(Admin::connect(&self.options())?)
    }

    /// Changes the service, as `sidecore set` does.
    pub(crate) fn set(&self, setting: &str) -> Result<(), BenchError> {
        if self.is_beside() {
            return Err(format!("{} is not this bench's to change", self.socket().display()).into());
        }
        self.admin()?.set(setting)?;
        Ok(())
    }

    /// The same order to the first `clients` of them, started together. `task` gets the starting time.
    pub(crate) fn together(&mut self, clients: usize, task: impl Fn(u64) -> Task) -> Result<Vec<Measured>, BenchError> {
        let task = task(clock::now() + HEAD_START * clients.max(2) as u64 / 2);
        let members = &mut self.members[..clients];
        members.iter_mut().try_for_each(|member| member.send(&task))?;
        members.iter_mut().map(Member::receive).collect()
    }

    /// The first `clients` of them, each with always `depth` requests of that operation and size in flight.
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

    /// A bare exchange between the first client and a thread on the first sidecore's core, while the service sleeps.
    /// Afterwards it spins.
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
                    // The service could: so can this thread.
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
            peer.join().map_err(|_| "the thread of a bare exchange panicked")?;
            measured
        })?;
        self.set("notify.service=spin")?;
        Ok(Run::at(measured.per_s()))
    }
}

/// One client process.
pub(super) struct Member {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Member {
    /// With those environment variables.
    pub(super) fn start(variables: &[(&str, &OsStr)]) -> Result<Self, BenchError> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("bench-client")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a client process: {error}"))?;
        let answers = process.stdout.take().ok_or("a client process without output")?;
        Ok(Self { process, answers: BufReader::new(answers) })
    }

    /// The number of the process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    fn send(&mut self, task: &Task) -> Result<(), BenchError> {
        let orders = self.process.stdin.as_mut().ok_or("a client process without input")?;
        let line = serde_json::to_string(task)?;
        Ok(writeln!(orders, "{line}").map_err(|error| format!("a client process ended: {error}"))?)
    }

    fn receive(&mut self) -> Result<Measured, BenchError> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str::<Answer>(&line).map_err(|_| format!("a client process ended early: {line}"))??)
    }

    pub(super) fn measure(&mut self, task: &Task) -> Result<Measured, BenchError> {
        self.send(task)?;
        self.receive()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Its input ends first, and so does it.
        let _ = self.process.wait();
    }
}
