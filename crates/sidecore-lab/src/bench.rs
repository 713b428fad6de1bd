//! `sidecore bench`: measures here, against baselines in the same run, and shows rows as tables, pages and files.

mod balance;
mod calibrate;
pub(crate) mod client;
mod crew;
mod crypto;
mod experiment;
mod keys;
mod lane;
mod net;
mod nginx;
mod notify;
mod ocf;
mod programs;
mod scaling;
mod series;
mod sockets;
mod task;

pub(crate) use series::{histogram, median, ratio, spread};

use crate::args::{Bench, Files, Scenario};
use crate::progress::Progress;
use crate::report::Row;
use crate::{machine, output, report};
use sidecore_libcrypto::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Why a measurement could not be made.
pub(crate) type BenchError = Box<dyn std::error::Error>;

type Measure = fn(&Settings, &Progress) -> Result<Outcome, BenchError>;

/// What makes rows, in their order.
const SCENARIOS: [(Scenario, &str, Measure); 10] = [
    (Scenario::Lane, "lane", lane::measure),
    (Scenario::Crypto, "crypto", crypto::measure),
    (Scenario::Ocf, "ocf", ocf::measure),
    (Scenario::Notify, "notify", notify::measure),
    (Scenario::Balance, "balance", balance::measure),
    (Scenario::Scaling, "scaling", scaling::measure),
    (Scenario::Keys, "keys", keys::measure),
    (Scenario::Nginx, "nginx", nginx::measure),
    (Scenario::Sockets, "sockets", sockets::measure),
    (Scenario::Net, "net-tools", net::measure),
];

/// What a scenario is run with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    quick: bool,
    seed: u64,
    ops: Vec<String>,
    check: bool,
}

impl Settings {
    /// Whether this operation is to be measured: all are where none is named.
    fn wants(&self, op: &str) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|named| named == op)
    }

    /// What a short run takes, or a long one.
    fn pick<T>(&self, quick: T, long: T) -> T {
        if self.quick { quick } else { long }
    }
}

/// What a scenario yields.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    rows: Vec<Row>,
    notes: Vec<String>,
    left_out: Vec<String>,
}

impl Outcome {
    fn left_out(why: impl Into<String>) -> Self {
        Self { left_out: vec![why.into()], ..Self::default() }
    }

    /// With what must be known to read the rows.
    pub(crate) fn noted(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// With rows more.
    pub(crate) fn add_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    /// With something that could not be measured.
    pub(crate) fn lacks(&mut self, why: impl Into<String>) {
        self.left_out.push(why.into());
    }

    fn add(&mut self, part: Self) {
        self.rows.extend(part.rows);
        self.notes.extend(part.notes);
        self.left_out.extend(part.left_out);
    }
}

/// Runs the scenarios and writes what was asked for. The text goes to standard output in any case.
pub(crate) fn run(args: &Bench) -> Result<(), BenchError> {
    if args.scenarios.contains(&Scenario::Calibrate) {
        return match args.scenarios[..] {
            [_] => calibrate::run(&args.plan),
            _ => Err("calibrate makes a plan and no rows: run it alone".into()),
        };
    }
    let settings = Settings { quick: args.quick, seed: args.seed, ops: args.op.clone(), check: args.check };
    check_ops(&settings.ops)?;
    let is_asked_for = |scenario: &Scenario| match &args.scenarios[..] {
        [] => Scenario::ALL.contains(scenario),
        named => named.contains(scenario),
    };
    // Each scenario says how many steps it takes as it begins.
    let mut progress = Progress::new(0);
    let mut outcome = Outcome::default();
    for (_, name, measure) in SCENARIOS.into_iter().filter(|(scenario, ..)| is_asked_for(scenario)) {
        progress.scenario(name);
        outcome.add(measure(&settings, &progress)?);
    }
    drop(progress);
    export("sidecore bench", &args.files, outcome)
}

/// Prints what was found, and writes it to files.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn export(title: &str, files: &Files, outcome: Outcome) -> Result<(), BenchError> {
    let Outcome { rows, notes, left_out } = outcome;
    let report = report::Report {
        title: title.to_owned(),
        machine: machine::describe(),
        commit: machine::commit(),
        rows,
        notes,
        left_out,
    };
    // What took so long to measure is written wherever it can be.
    let printed = output::print(&report.to_text());
    write_file(files.json.as_deref(), |out| report.write_json(out))?;
    write_file(files.markdown.as_deref(), |out| out.write_all(report.to_markdown().as_bytes()))?;
    write_file(files.html.as_deref(), |out| out.write_all(report.to_html().as_bytes()))?;
    Ok(printed?)
}

fn write_file(
    path: Option<&Path>,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), BenchError> {
    let Some(path) = path else { return Ok(()) };
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        content(&mut out)?;
        out.flush()
    });
    Ok(written.map_err(|error| format!("cannot write {}: {error}", path.display()))?)
}

fn check_ops(ops: &[String]) -> Result<(), BenchError> {
    use sidecore::core::session::Class;
    match ops.iter().find(|op| Class::from_name(op).is_none() && !sockets::kinds().any(|kind| kind == *op)) {
        Some(op) => {
            let names: Vec<&str> = Class::all().map(Class::name).chain(sockets::kinds()).collect();
            Err(format!("no operation {op:?}; there are {}", names.join(", ")).into())
        }
        None => Ok(()),
    }
}

/// The baseline's library as it names itself, e.g. `openssl 3.0.19`.
fn openssl_library() -> Option<String> {
    Some(format!("openssl {}", Context::system().ok()?.version().split(' ').nth(1)?))
}
