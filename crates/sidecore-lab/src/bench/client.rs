//! One client process of a measurement: takes orders on standard input, answers on standard output.

use super::task::{Answer, Counts, Measured, Task};
use crate::baseline::openssl::OpenSsl;
use crate::ffi::pkcs11::Token;
use hdrhistogram::Histogram;
use load::Load;
use sidecore::bare::{Bare, Exchange};
use sidecore::client::{Admin, Client, Options};
use sidecore::core::session::Class;
use sidecore::core::stage::Stamps;
use sidecore::engine::crypto::Session;
use sidecore::engine::crypto::sample::{Sample, sample};
use sidecore::sys::{clock, cpu};
use signing::Signing;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

mod load;
mod signing;
mod token;

/// Longest time that is told apart, ns.
const LONGEST: u64 = 60_000_000_000;

/// A sleep may last so much longer than it was to, ns.
const OVERSLEEP: u64 = 100_000;

/// Serves orders until standard input ends.
pub(crate) fn run() -> io::Result<()> {
    let mut crew = Member::default();
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str::<Task>(&line?) {
            Ok(task) => crew.carry_out(&task).unwrap_or_else(Answer::Failed),
            Err(error) => Answer::Failed(format!("not an order: {error}")),
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
    /// How the client was connected.
    options: Option<Options>,
    bare: Option<Bare>,
    openssl: Option<OpenSsl>,
    signing: Option<Signing>,
    token: Option<Token>,
}

impl Member {
    fn carry_out(&mut self, task: &Task) -> Result<Answer, String> {
        let measured = match task {
            Task::Attach { socket, cpu, slots } => self.attach(socket, *cpu, *slots)?,
            Task::Pin { cpu } => {
                cpu::pin(*cpu).map_err(text)?;
                Measured::default()
            }
            Task::OpenBare { path } => {
                self.bare = Some(Bare::open(path).map_err(text)?);
                Measured::default()
            }
            Task::PingPong { ns } => self.exchange(Exchange::PingPong, 1, *ns)?,
            Task::Echo { size, depth, ns } => self.exchange(Exchange::Echo { size: *size }, *depth, *ns)?,
            Task::Inline { op, size, ns } => inline(op, *size, *ns)?,
            Task::OpenSsl { op, size, ns } => return self.openssl(op, *size, *ns),
            Task::Closed { op, size, depth, start, ns } => {
                let load = Load::new(self.client()?, &input(op, *size)?, *depth)?;
                wait_until(*start);
                load.closed(*ns)?
            }
            Task::Open { op, size, per_s, seed, start, ns } => {
                let (client, sample) = (self.client()?, input(op, *size)?);
                let slots = Load::most(client, &sample);
                let load = Load::new(client, &sample, slots)?;
                wait_until(*start);
                load.open(*per_s, *seed, *ns)?
            }
            Task::Provide { configuration, cpu } => {
                if let Some(cpu) = cpu {
                    cpu::pin(*cpu).map_err(text)?;
                }
                self.signing()?.provide(configuration)?;
                Measured::default()
            }
            Task::Sign(signatures) => {
                let key = private_key(&signatures.op).ok_or("no key for this operation")?;
                self.signing()?.run(signatures, &key)?
            }
            Task::Token { module, label, pin, op, start, ns } => {
                if self.token.is_none() {
                    self.token = Some(Token::open(module, pin).map_err(text)?);
                }
                let token = self.token.as_ref().ok_or("no token")?;
                let key = private_key(op).ok_or("no key for this operation")?;
                token::sign(token, label, op, &key, (*start, *ns))?
            }
            Task::Set { setting } => {
                self.admin()?.set(setting).map_err(text)?;
                Measured::default()
            }
        };
        Ok(Answer::Measured(Box::new(measured)))
    }

    fn attach(&mut self, socket: &Path, cpu: Option<usize>, slots: u32) -> Result<Measured, String> {
        if let Some(cpu) = cpu {
            cpu::pin(cpu).map_err(text)?;
        }
        let options = Options { socket: socket.to_owned(), slots, arena_bytes: 16 << 20, ..Options::default() };
        self.client = Some(Client::connect(&options).map_err(text)?);
        self.options = Some(options);
        Ok(Measured::default())
    }

    fn client(&mut self) -> Result<&mut Client, String> {
        self.client.as_mut().ok_or_else(|| "not attached".to_owned())
    }

    /// For one change: an idle connection would count among those without a lane.
    fn admin(&self) -> Result<Admin, String> {
        Admin::connect(self.options.as_ref().ok_or("not attached")?).map_err(text)
    }

    fn signing(&mut self) -> Result<&mut Signing, String> {
        if self.signing.is_none() {
            self.signing = Some(Signing::new()?);
        }
        self.signing.as_mut().ok_or_else(|| "no OpenSSL".to_owned())
    }

    fn exchange(&self, exchange: Exchange, depth: u32, ns: u64) -> Result<Measured, String> {
        let bare = self.bare.as_ref().ok_or("no bare memory")?;
        let exchanged = bare.ask(exchange, depth, ns);
        Ok(Measured { ops: exchanged.count, ns: exchanged.took, ..Measured::default() })
    }

    fn openssl(&mut self, op: &str, size: u32, ns: u64) -> Result<Answer, String> {
        if self.openssl.is_none() {
            match OpenSsl::load() {
                Ok(openssl) => self.openssl = Some(openssl),
                Err(error) => return Ok(Answer::Unavailable(error.to_string())),
            }
        }
        let openssl = self.openssl.as_ref().ok_or("no OpenSSL")?;
        let key = private_key(op);
        match openssl.operation(op, size as usize, key.as_deref()) {
            Ok(Some(mut operation)) => {
                let measured = repeat(ns, || operation().map_err(text))?;
                Ok(Answer::Measured(Box::new(measured)))
            }
            Ok(None) => Ok(Answer::Unavailable(format!("OpenSSL has no {op}"))),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A valid request of that class, by name.
fn input(op: &str, size: u32) -> Result<Sample, String> {
    let class = Class::from_name(op).ok_or_else(|| format!("no operation {op:?}"))?;
    Ok(sample(class, size as usize, 1))
}

/// The key of the sample, so that both libraries work with the same one.
pub(super) fn private_key(op: &str) -> Option<Vec<u8>> {
    use sidecore::engine::crypto::KeyMaterial;
    let class = Class::from_name(op)?;
    let signing = op.strip_suffix("-verify").map(|name| format!("{name}-sign"));
    let class = signing.and_then(|name| Class::from_name(&name)).unwrap_or(class);
    match sample(class, 64, 1).spec.key {
        KeyMaterial::Private(secret) => Some(secret.expose().to_vec()),
        _ => None,
    }
}

fn inline(op: &str, size: u32, ns: u64) -> Result<Measured, String> {
    let Sample { spec, op, head_len, input, .. } = input(op, size)?;
    let session = Session::open(&spec).map_err(text)?;
    let mut output = vec![0; session.output_len(op, head_len, input.len()).map_err(|r| r.message().to_owned())?];
    repeat(ns, || match session.run(op, head_len, &input, &mut output) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(refusal.message().to_owned()),
    })
}

/// Does something again and again for so long. The clock is read every few times only, where once is short.
fn repeat(ns: u64, mut once: impl FnMut() -> Result<(), String>) -> Result<Measured, String> {
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
            return Ok(Measured {
                ops,
                ns: took,
                began: start,
                cpu_ns: clock::thread_cpu() - cpu,
                ..Measured::default()
            });
        }
    }
}

/// Sleeps nearly to the time, then polls the clock.
fn wait_until(start: u64) {
    let left = start.saturating_sub(clock::now());
    thread::sleep(Duration::from_nanos(left.saturating_sub(OVERSLEEP)));
    while clock::now() < start {
        std::hint::spin_loop();
    }
}

/// Times of sampled requests by stage.
struct Stages {
    total: Histogram<u64>,
    queue: Histogram<u64>,
    device: Histogram<u64>,
    deliver: Histogram<u64>,
}

impl Stages {
    fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, 3).expect("constants that the library allows");
        Self { total: histogram(), queue: histogram(), device: histogram(), deliver: histogram() }
    }

    fn record(&mut self, stamps: &Stamps, received: u64) {
        self.total.saturating_record(stamps.total(received).max(1));
        self.queue.saturating_record(stamps.queue().max(1));
        self.device.saturating_record(stamps.device().max(1));
        self.deliver.saturating_record(stamps.deliver(received).max(1));
    }

    fn add_to(self, measured: &mut Measured) {
        measured.total = counts(&self.total);
        measured.queue = counts(&self.queue);
        measured.device = counts(&self.device);
        measured.deliver = counts(&self.deliver);
    }
}

fn counts(histogram: &Histogram<u64>) -> Counts {
    histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
