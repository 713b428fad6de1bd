//! The measuring process's side: a service of its own, client processes, and who runs on which core.

use super::error::BenchError;
use super::experiment::Run;
use super::task::{Answer, Measured, Task};
use sidecore::bare::{Bare, Exchange};
use sidecore::client::{Client, Options};
use sidecore::config::{Config, DeviceConfig, NotifyConfig, Sidecores};
use sidecore::core::policy::notify::Notify;
use sidecore::counters::Snapshot;
use sidecore::service::Service;
use sidecore::sys::{clock, cpu};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Time for idle lanes to go dormant.
const REST: Duration = Duration::from_millis(30);
/// Time for all clients to receive their orders before they start together, ns.
pub(super) const HEAD_START: u64 = 5_000_000;

/// Which cores are for sidecores, which for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pinning {
    pub(crate) sidecores: Vec<usize>,
    pub(crate) clients: Vec<usize>,
}

impl Pinning {
    /// The last `sidecores` of the cores that this process may use, and the others for clients. `None`: too few.
    pub(crate) fn new(sidecores: usize) -> Option<Self> {
        let mut clients = cpu::allowed();
        let split = clients.len().checked_sub(sidecores).filter(|left| *left > 0)?;
        let sidecores = clients.split_off(split);
        Some(Self { sidecores, clients })
    }

    /// For one core, where nothing can be pinned apart and nothing spins.
    pub(crate) fn none() -> Self {
        Self { sidecores: Vec::new(), clients: Vec::new() }
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
        if self.clients.is_empty() {
            return "one core, nothing pinned".to_owned();
        }
        let used = &self.clients[..clients.clamp(1, self.clients.len())];
        format!("clients {used:?}, sidecores {:?}", self.sidecores)
    }
}

/// A service and its clients.
pub(crate) struct Crew {
    pub(crate) pinning: Pinning,
    members: Vec<Member>,
    bare: Bare,
    /// Dropped last: clients end first.
    service: Service,
    directory: PathBuf,
}

/// What a crew's service is like.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) pinning: Pinning,
    pub(crate) clients: usize,
    pub(crate) notify: NotifyConfig,
    pub(crate) devices: Vec<DeviceConfig>,
    pub(crate) sample_every: u32,
    pub(crate) slots: u32,
}

impl Plan {
    /// One sidecore that does the work itself, with that many clients.
    pub(crate) fn inline(clients: usize) -> Self {
        Self {
            pinning: Pinning::new(1).unwrap_or_else(Pinning::none),
            clients,
            notify: NotifyConfig::all(Notify::BreakEven),
            devices: vec![DeviceConfig::inline("inline")],
            sample_every: 64,
            slots: 256,
        }
    }
}

impl Crew {
    /// Starts the service in this process and the clients in theirs.
    pub(crate) fn start(plan: &Plan) -> Result<Self, BenchError> {
        let Plan { pinning, clients, notify, devices, sample_every, slots } = plan.clone();
        let directory = std::env::temp_dir().join(format!("sidecore-bench-{}-{}", std::process::id(), clock::now()));
        fs::create_dir_all(&directory).map_err(BenchError::new)?;
        let config = Config {
            socket: directory.join("socket"),
            sidecores: Sidecores { cpus: pinning.sidecores.clone(), owned: !pinning.sidecores.is_empty() },
            notify,
            devices,
            sample_every,
            ..Config::default()
        };
        let service = Service::start(config).map_err(BenchError::new)?;
        let bare = Bare::create().map_err(BenchError::new)?;
        let mut crew = Self { pinning, members: Vec::new(), bare, service, directory };
        for index in 0..clients {
            crew.add_member(index, slots)?;
        }
        Ok(crew)
    }

    fn add_member(&mut self, index: usize, slots: u32) -> Result<(), BenchError> {
        let mut member = Member::start()?;
        let (socket, cpu) = (self.service.socket().to_owned(), self.pinning.client(index));
        member.measure(&Task::Attach { socket, cpu, slots })?;
        if let Some(path) = self.bare.path() {
            member.measure(&Task::OpenBare { path })?;
        }
        self.members.push(member);
        Ok(())
    }

    /// What the service counted so far.
    pub(crate) fn counters(&self) -> Result<Snapshot, BenchError> {
        Snapshot::read(self.service.counters()).map_err(BenchError::new)
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

    /// One order to the first client. `None`: not available here, for the reason that was noted.
    pub(crate) fn first(&mut self, task: &Task) -> Result<Result<Measured, String>, BenchError> {
        self.members[0].ask(task)
    }

    /// That many lanes of this process on which nothing happens, once they have come to rest.
    pub(crate) fn idle_lanes(&self, count: usize) -> Result<Vec<Client>, BenchError> {
        let options =
            Options { socket: self.service.socket().to_owned(), slots: 2, arena_bytes: 4096, ..Options::default() };
        let lanes = (0..count).map(|_| Client::connect(&options)).collect::<Result<_, _>>().map_err(BenchError::new)?;
        thread::sleep(REST);
        Ok(lanes)
    }

    /// Changes the service.
    pub(crate) fn set(&mut self, setting: &str) -> Result<(), BenchError> {
        self.members[0].measure(&Task::Set { setting: setting.to_owned() }).map(|_| ())
    }

    /// The same order to the first `clients` of them, started together. `task` gets the number and the starting time.
    pub(crate) fn together(
        &mut self,
        clients: usize,
        task: impl Fn(usize, u64) -> Task,
    ) -> Result<Vec<Measured>, BenchError> {
        let start = clock::now() + HEAD_START;
        for (index, member) in self.members.iter_mut().take(clients).enumerate() {
            member.send(&task(index, start))?;
        }
        self.members.iter_mut().take(clients).map(Member::receive_measured).collect()
    }

    /// The first `clients` of them, each with always `depth` requests of that operation and size in flight.
    pub(crate) fn closed(
        &mut self,
        clients: usize,
        (op, size): (&str, u32),
        depth: u32,
        ns: u64,
    ) -> Result<Run, BenchError> {
        let task = |_, start| Task::Closed { op: op.to_owned(), size, depth, start, ns };
        Ok(Run::of(self.together(clients, task)?))
    }

    /// A bare exchange while the service sleeps, whose core it needs; afterwards the service spins.
    pub(crate) fn beside_sleeping(&mut self, exchange: Exchange, depth: u32, ns: u64) -> Result<Run, BenchError> {
        self.set("notify.service=park")?;
        let rate = self.exchange(exchange, depth, ns)?.per_s();
        self.set("notify.service=spin")?;
        Ok(Run::at(rate))
    }

    /// A bare exchange between the first client and a thread on the first sidecore's core.
    fn exchange(&mut self, exchange: Exchange, depth: u32, ns: u64) -> Result<Measured, BenchError> {
        let task = match exchange {
            Exchange::PingPong => Task::PingPong { ns },
            Exchange::Echo { size } => Task::Echo { size, depth, ns },
        };
        let stop = Arc::new(AtomicBool::new(false));
        let ready = Arc::new(AtomicBool::new(false));
        let member = &mut self.members[0];
        let (bare, cpu) = (&self.bare, self.pinning.sidecores.first().copied());
        thread::scope(|scope| {
            let (stopped, started) = (stop.clone(), ready.clone());
            let peer = scope.spawn(move || {
                if let Some(cpu) = cpu {
                    // The service could: so can this thread.
                    let _ = cpu::pin(cpu);
                }
                bare.prepare();
                started.store(true, Ordering::Release);
                bare.serve(exchange, &stopped);
            });
            while !ready.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let measured = member.measure(&task);
            stop.store(true, Ordering::Release);
            joined(peer.join())?;
            measured
        })
    }
}

fn joined(result: thread::Result<()>) -> Result<(), BenchError> {
    result.map_err(|_| BenchError::new("the thread of a bare exchange panicked"))
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.members.clear();
        // The service removes its own files when it is dropped, after this; an empty directory may stay behind then.
        let _ = fs::remove_file(self.service.socket());
        let _ = fs::remove_file(self.service.counters());
        let _ = fs::remove_dir(&self.directory);
    }
}

/// One client process.
pub(super) struct Member {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Member {
    pub(super) fn start() -> Result<Self, BenchError> {
        Self::start_with(&[])
    }

    /// With those environment variables.
    pub(super) fn start_with(variables: &[(&str, &OsStr)]) -> Result<Self, BenchError> {
        let program = std::env::current_exe().map_err(BenchError::new)?;
        let mut process = Command::new(program)
            .arg("bench-client")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| BenchError::new(format!("cannot start a client process: {error}")))?;
        let orders = process.stdin.take();
        let answers = process.stdout.take().ok_or_else(|| BenchError::new("a client process without output"))?;
        Ok(Self { process, orders, answers: BufReader::new(answers) })
    }

    pub(super) fn send(&mut self, task: &Task) -> Result<(), BenchError> {
        let orders = self.orders.as_mut().ok_or_else(|| BenchError::new("a client process without input"))?;
        let line = serde_json::to_string(task).map_err(BenchError::new)?;
        writeln!(orders, "{line}").map_err(|error| BenchError::new(format!("a client process ended: {error}")))
    }

    fn receive(&mut self) -> Result<Answer, BenchError> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(BenchError::new)?;
        serde_json::from_str(&line).map_err(|_| BenchError::new(format!("a client process ended early: {line}")))
    }

    pub(super) fn receive_measured(&mut self) -> Result<Measured, BenchError> {
        match self.receive()? {
            Answer::Measured(measured) => Ok(*measured),
            Answer::Unavailable(why) | Answer::Failed(why) => Err(BenchError::new(why)),
        }
    }

    pub(super) fn measure(&mut self, task: &Task) -> Result<Measured, BenchError> {
        self.send(task)?;
        self.receive_measured()
    }

    fn ask(&mut self, task: &Task) -> Result<Result<Measured, String>, BenchError> {
        self.send(task)?;
        match self.receive()? {
            Answer::Measured(measured) => Ok(Ok(*measured)),
            Answer::Unavailable(why) => Ok(Err(why)),
            Answer::Failed(why) => Err(BenchError::new(why)),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Its input ends, and so does it.
        self.orders = None;
        let _ = self.process.wait();
    }
}
