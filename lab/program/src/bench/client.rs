//! One client process of a measurement: receives orders on standard input, answers on standard output.

use super::error::BenchError;
use super::task::{Answer, Mix, Task, Traffic};
use crate::baseline::{operation, private_key};
use crate::ffi::Token;
use hdrhistogram::Histogram;
use load::{Arrivals, Load};
use sending::Sender;
use sidecore::bare::{Bare, Exchange};
use sidecore::client::{Client, Options};
use sidecore::config::service_users;
use sidecore::core::session::Class;
use sidecore::core::stage::Stamps;
use sidecore::engine::crypto::Session;
use sidecore::engine::crypto::batch::SideBySide;
use sidecore::engine::crypto::sample::{Sample, sample};
use sidecore_daemon::sys::cpu;
use sidecore_ipc::sys::clock;
use sidecore_libcrypto::Context;
use sidecore_measure::experiment::{Counts, Measured};
use sidecore_measure::interrupt::leave_to_parent;
use sidecore_report::statistics::histogram;
use signing::Provided;
use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

mod agent;
mod datagrams;
mod load;
mod sending;
mod signing;
mod token;

/// The longest assumed delay of a sleep's end, ns.
const OVERSLEEP: u64 = 100_000;

pub(crate) fn run() -> io::Result<()> {
    // An interrupt of the keyboard reaches all processes of the group: the running measurement is to finish.
    leave_to_parent()?;
    let mut member = Member::default();
    for line in io::stdin().lock().lines() {
        let answer: Answer = match serde_json::from_str::<Task>(&line?) {
            Ok(task) => member.carry_out(&task).map_err(|error| error.to_string()),
            Err(error) => Err(format!("not an order: {error}")),
        };
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

#[derive(Default)]
struct Member {
    client: Option<Client>,
    bare: Option<Bare>,
    provided: Option<Provided>,
    token: Option<Token>,
    sender: Option<Sender>,
}

impl Member {
    fn carry_out(&mut self, task: &Task) -> Result<Measured, BenchError> {
        Ok(match task {
            Task::Attach { socket, slots, bare } => {
                let options = Options {
                    socket: socket.clone(),
                    service_users: service_users(),
                    slots: *slots,
                    arena_bytes: 16 << 20,
                    ..Options::default()
                };
                self.client = Some(Client::connect(&options)?);
                self.bare = bare.as_deref().map(Bare::open).transpose()?;
                Measured::default()
            }
            Task::Pin { cpu } => {
                cpu::pin(*cpu)?;
                Measured::default()
            }
            Task::PingPong { ns } => self.exchange(Exchange::PingPong, 1, *ns)?,
            Task::Echo { size, depth, ns } => self.exchange(Exchange::Echo { size: *size }, *depth, *ns)?,
            Task::Inline { op, size, ns } => inline(op, *size, *ns)?,
            Task::SideBySide { op, size, fill, ns } => side_by_side(op, *size, *fill, *ns)?,
            Task::OpenSsl { op, size, ns } => openssl(op, *size, *ns)?,
            Task::Closed { op, size, depth, start, ns } => {
                let load = Load::new(self.client()?, input(op, *size)?, *depth)?;
                wait_until(*start);
                load.closed(*ns)?
            }
            Task::Open { op, size, per_s, seed, start, ns } => {
                let (client, sample) = (self.client()?, input(op, *size)?);
                let slots = Load::most(client, &sample);
                let load = Load::new(client, sample, slots)?;
                wait_until(*start);
                load.open(&Arrivals { per_s: *per_s, burst: 0, seed: *seed }, *ns)?
            }
            Task::Mixed { op, mix: Mix { parts, per_s, burst }, seed, start, ns } => {
                let samples = parts.iter().map(|(part, size)| Ok((*part, input(op, *size)?)));
                let samples = samples.collect::<Result<Vec<_>, BenchError>>()?;
                let load = Load::mixed(self.client()?, samples)?;
                wait_until(*start);
                load.open(&Arrivals { per_s: *per_s, burst: *burst, seed: *seed }, *ns)?
            }
            Task::Provide { configuration } => {
                self.provided = None;
                self.provided = Some(Provided::load(configuration)?);
                Measured::default()
            }
            Task::Sign(signatures) => signing::sign(self.provided.as_mut(), signatures, &private_key(&signatures.op)?)?,
            Task::Token { module, pin, op, threads, start, ns } => {
                if self.token.is_none() {
                    self.token = Some(Token::open(module, pin)?);
                }
                let token = self.token.as_ref().ok_or(BenchError::State("no token"))?;
                token::sign(token, op, *threads, &private_key(op)?, (*start, *ns))?
            }
            Task::Agent { socket, op, ns } => agent::sign(socket, op, &private_key(op)?, *ns)?,
            Task::Send(sending) if sending.traffic == Traffic::Datagrams => datagrams::send(sending)?,
            Task::Send(sending) => self.sender.insert(Sender::connect(sending)?).run()?,
        })
    }

    fn client(&mut self) -> Result<&mut Client, BenchError> {
        self.client.as_mut().ok_or(BenchError::State("not attached"))
    }

    fn exchange(&self, exchange: Exchange, depth: u32, ns: u64) -> Result<Measured, BenchError> {
        let exchanged = self.bare.as_ref().ok_or(BenchError::State("no bare memory"))?.ask(exchange, depth, ns);
        Ok(Measured { ops: exchanged.count, ns: exchanged.took, ..Measured::default() })
    }
}

fn class(op: &str) -> Result<Class, BenchError> {
    Class::from_name(op).ok_or_else(|| BenchError::NoOperation(op.to_owned()))
}

fn input(op: &str, size: u32) -> Result<Sample, BenchError> {
    Ok(sample(class(op)?, size as usize, 1))
}

fn openssl(op: &str, size: u32, ns: u64) -> Result<Measured, BenchError> {
    let run = operation(&Context::system()?, class(op)?, size as usize)?;
    let mut run = run.ok_or(BenchError::State("OpenSSL does not have this"))?;
    repeat(ns, || Ok(run()?))
}

fn inline(op: &str, size: u32, ns: u64) -> Result<Measured, BenchError> {
    let Sample { spec, op, head_len, input, output_len } = input(op, size)?;
    let session = Session::open(&spec)?;
    let mut output = vec![0; output_len];
    repeat(ns, || match session.run(op, head_len, &input, &mut output) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(BenchError::State(refusal.message())),
    })
}

fn side_by_side(op: &str, size: u32, fill: usize, ns: u64) -> Result<Measured, BenchError> {
    let jobs = SideBySide::new(&input(op, size)?);
    let mut jobs = jobs.ok_or(BenchError::Machine("this machine does not do this side by side"))?;
    let measured = repeat(ns, || jobs.run(fill).then_some(()).ok_or(BenchError::State("a result came out wrong")))?;
    Ok(Measured { ops: measured.ops * fill as u64, ..measured })
}

/// Repeats `once` for `ns`. For short operations the clock is read once in several repeats.
fn repeat(ns: u64, mut once: impl FnMut() -> Result<(), BenchError>) -> Result<Measured, BenchError> {
    let (start, cpu) = (clock::now(), clock::thread_cpu());
    once()?;
    let probe = clock::now();
    once()?;
    let batch = (20_000 / (clock::now() - probe).max(1)).clamp(1, 256);
    let mut ops = 2;
    loop {
        for _ in 0..batch {
            once()?;
        }
        ops += batch;
        let took = clock::now() - start;
        if took >= ns {
            let cpu_ns = clock::thread_cpu() - cpu;
            return Ok(Measured { ops, ns: took, began: start, cpu_ns, ..Measured::default() });
        }
    }
}

fn wait_until(start: u64) {
    let left = start.saturating_sub(clock::now());
    thread::sleep(Duration::from_nanos(left.saturating_sub(OVERSLEEP)));
    while clock::now() < start {
        std::hint::spin_loop();
    }
}

/// Times of sampled requests: total, queue, device, delivery.
struct Stages([Histogram<u64>; 4]);

impl Stages {
    fn new() -> Self {
        Self(std::array::from_fn(|_| histogram()))
    }

    fn record(&mut self, stamps: &Stamps, received: u64) {
        let times = [stamps.total(received), stamps.queue(), stamps.device(), stamps.deliver(received)];
        self.0.iter_mut().zip(times).for_each(|(stage, time)| stage.saturating_record(time.max(1)));
    }

    fn add_to(self, measured: &mut Measured) {
        [measured.total, measured.queue, measured.device, measured.deliver] = self.0.map(|stage| counts(&stage));
    }
}

pub(in crate::bench) fn counts(histogram: &Histogram<u64>) -> Counts {
    histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
}
