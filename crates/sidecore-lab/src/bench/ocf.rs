//! The table of the OpenBSD Cryptographic Framework's paper on this machine: 3DES, threads × message sizes.

use super::crew::{BenchError, Crew, Plan};
use super::series::{median, ratio, spread, total_per_s, with_stages};
use super::task::{Measured, Task};
use super::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::Row;

const OP: &str = "3des-cbc";
/// Those of the paper.
const CLIENTS: [usize; 7] = [1, 2, 3, 4, 8, 16, 32];
const SIZES: [u32; 6] = [16, 64, 256, 1024, 8192, 16_384];
const QUICK_CLIENTS: [usize; 3] = [1, 2, 4];
const QUICK_SIZES: [u32; 3] = [64, 1024, 16_384];

/// Operations a second of both variants, repeat by repeat.
#[derive(Default)]
struct Rates {
    inline: Vec<f64>,
    lane: Vec<f64>,
    measured: Vec<Measured>,
}

fn cases(settings: &Settings) -> Vec<(usize, u32)> {
    let (clients, sizes): (&[usize], &[u32]) =
        if settings.quick { (&QUICK_CLIENTS, &QUICK_SIZES) } else { (&CLIENTS, &SIZES) };
    clients.iter().flat_map(|clients| sizes.iter().map(|size| (*clients, *size))).collect()
}

fn repeats(settings: &Settings) -> usize {
    if settings.quick { 2 } else { 3 }
}

/// Many clients share few cores: each must have had its turns.
fn duration(settings: &Settings, clients: usize) -> u64 {
    if settings.quick { 50_000_000 } else { 80_000_000 + 5_000_000 * clients as u64 }
}

pub(super) fn steps(settings: &Settings) -> usize {
    cases(settings).len()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let cases = cases(settings);
    let most = cases.iter().map(|(clients, _)| *clients).max().unwrap_or(1);
    let mut crew = Crew::start(&Plan { slots: 8, ..Plan::inline(most) })?;
    let mut outcome = Outcome::default();
    for (clients, size) in cases {
        progress.begin(&format!("{clients} clients, {size} B"));
        let mut rates = Rates::default();
        for _ in 0..repeats(settings) {
            one_repeat(&mut crew, clients, size, duration(settings, clients), &mut rates)?;
        }
        outcome.rows.extend(rows(&crew, clients, size, &rates));
        progress.advance();
    }
    outcome.notes.push(
        "ocf: each client has one request in flight, as in the paper; inline is the same number of processes on all \
         cores of this machine, the sidecore's too. The sidecore spins; clients spin if each has a core, else they park."
            .to_owned(),
    );
    Ok(outcome)
}

fn one_repeat(crew: &mut Crew, clients: usize, size: u32, ns: u64, rates: &mut Rates) -> Result<(), BenchError> {
    crew.set("notify=park")?;
    crew.spread(clients, true)?;
    let inline = crew.together(clients, |_, _| Task::Inline { op: OP.to_owned(), size, ns })?;
    rates.inline.push(total_per_s(&inline));
    crew.spread(clients, false)?;
    crew.set("notify.service=spin")?;
    crew.set(&format!("notify.client={}", crew.pinning.client_policy(clients)))?;
    let closed = crew.together(clients, |_, start| Task::Closed { op: OP.to_owned(), size, depth: 1, start, ns })?;
    rates.lane.push(total_per_s(&closed));
    rates.measured.extend(closed);
    Ok(())
}

fn rows(crew: &Crew, clients: usize, size: u32, rates: &Rates) -> [Row; 2] {
    let row = |variant: &str, rates: &[f64]| Row {
        op: Some(OP.to_owned()),
        size: Some(u64::from(size)),
        clients: Some(clients as u32),
        ops_per_s: Some(median(rates)),
        mbit_per_s: Some(median(rates) * f64::from(size) * 8.0 / 1e6),
        repeats: Some(rates.len() as u32),
        spread: Some(spread(rates)),
        ..Row::new("ocf", variant)
    };
    let lane = Row {
        notify: Some(crew.pinning.client_policy(clients).to_string()),
        pinned: Some(crew.pinning.describe(clients)),
        ratio: ratio(&rates.lane, &rates.inline),
        baseline: Some("inline".to_owned()),
        ..with_stages(row("sidecore", &rates.lane), &rates.measured)
    };
    [lane, row("inline", &rates.inline)]
}
