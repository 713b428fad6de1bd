//! Operations through the lane against the same library inline, OpenSSL inline, and inline plus moving the bytes.

use super::crew::{BenchError, Crew, Plan};
use super::series::{median, ratio, spread, total_per_s, with_stages};
use super::task::{Measured, Task};
use super::{Outcome, Settings};
use crate::baseline::openssl::OpenSsl;
use crate::progress::Progress;
use crate::report::Row;
use sidecore::bare::Exchange;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;

/// In flight for each client.
const DEPTH: u32 = 64;
const SIZES: [u32; 6] = [16, 64, 256, 1024, 4096, 16_384];
const QUICK_SIZES: [u32; 3] = [64, 1024, 16_384];
/// Whose time depends on the size.
const SIZED: [&str; 12] = [
    "aes-128-gcm",
    "aes-256-gcm",
    "aes-256-ctr",
    "aes-128-cbc",
    "aes-256-xts",
    "chacha20-poly1305",
    "3des-cbc",
    "sha-256",
    "sha-512",
    "hmac-sha-256",
    "aes-256-gcm-decrypt",
    "aes-256-cbc",
];
const QUICK_SIZED: [&str; 3] = ["aes-256-gcm", "chacha20-poly1305", "sha-256"];
const FIXED: [&str; 11] = [
    "rsa-2048-sign",
    "rsa-2048-verify",
    "rsa-2048-decrypt",
    "rsa-3072-sign",
    "rsa-4096-sign",
    "p-256-sign",
    "p-384-sign",
    "ed25519-sign",
    "x25519",
    "ml-kem-768-decaps",
    "ml-dsa-65-sign",
];
const QUICK_FIXED: [&str; 4] = ["rsa-2048-sign", "rsa-4096-sign", "p-256-sign", "ed25519-sign"];
/// Length of the message that is signed, bytes.
const MESSAGE: u32 = 32;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Case {
    op: String,
    size: u32,
    clients: usize,
    sized: bool,
}

/// Operations a second of each variant, repeat by repeat.
#[derive(Default)]
struct Rates {
    inline: Vec<f64>,
    openssl: Vec<f64>,
    moving: Vec<f64>,
    lane: Vec<f64>,
    measured: Vec<Measured>,
}

fn cases(settings: &Settings) -> Vec<Case> {
    let (bulk, asymmetric, all_sizes): (&[&str], &[&str], &[u32]) =
        if settings.quick { (&QUICK_SIZED, &QUICK_FIXED, &QUICK_SIZES) } else { (&SIZED, &FIXED, &SIZES) };
    let named: Vec<String> = if settings.ops.is_empty() {
        bulk.iter().chain(asymmetric).map(|op| (*op).to_owned()).collect()
    } else {
        settings.ops.clone()
    };
    let counts: &[usize] = if settings.quick { &[1] } else { &[1, 2, 4] };
    let mut cases = Vec::new();
    for op in named {
        let sized = !FIXED.contains(&op.as_str()) && !is_asymmetric(&op);
        let of_these = if sized { all_sizes } else { &[MESSAGE] };
        for (size, clients) in of_these.iter().flat_map(|size| counts.iter().map(|clients| (*size, *clients))) {
            cases.push(Case { op: op.clone(), size, clients, sized });
        }
    }
    cases
}

fn is_asymmetric(op: &str) -> bool {
    ["rsa-", "p-256", "p-384", "ed25519", "x25519", "ml-"].iter().any(|prefix| op.starts_with(prefix))
}

fn repeats(settings: &Settings) -> usize {
    if settings.quick { 3 } else { 5 }
}

fn duration(settings: &Settings, case: &Case) -> u64 {
    match (settings.quick, case.sized) {
        (true, true) => 20_000_000,
        (true, false) | (false, true) => 50_000_000,
        (false, false) => 150_000_000,
    }
}

pub(super) fn steps(settings: &Settings) -> usize {
    cases(settings).len()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let cases = cases(settings);
    let most = cases.iter().map(|case| case.clients).max().unwrap_or(1);
    // Waking a client for each completion would be charged to the sidecore: a client with a core of its own polls.
    let plan = Plan { notify: NotifyConfig::all(Notify::Spin), ..Plan::inline(most) };
    let mut crew = Crew::start(&plan)?;
    let mut outcome = Outcome::default();
    for case in cases {
        progress.begin(&format!("{} {} B, {} clients", case.op, case.size, case.clients));
        let mut rates = Rates::default();
        for _ in 0..repeats(settings) {
            one_repeat(&mut crew, &case, duration(settings, &case), &mut rates, &mut outcome.left_out)?;
        }
        outcome.rows.extend(rows(&crew, &case, &rates));
        progress.advance();
    }
    outcome.left_out.sort();
    outcome.left_out.dedup();
    outcome.notes.push(
        "crypto: each client keeps 64 requests in flight, copies its payload into the arena and the result out of it; \
         inline works on its own memory. inline+move is 1 / (inline time + time to copy the bytes out of and into \
         shared memory on the sidecore's core), all measured in the run."
            .to_owned(),
    );
    Ok(outcome)
}

fn one_repeat(
    crew: &mut Crew,
    case: &Case,
    ns: u64,
    rates: &mut Rates,
    left_out: &mut Vec<String>,
) -> Result<(), BenchError> {
    let Case { op, size, clients, sized } = case.clone();
    if clients == 1 {
        let inline = crew.first(&Task::Inline { op: op.clone(), size, ns })?.map_err(BenchError::new)?;
        rates.inline.push(inline.per_s());
        match crew.first(&Task::OpenSsl { op: op.clone(), size, ns })? {
            Ok(measured) => rates.openssl.push(measured.per_s()),
            Err(why) => left_out.push(format!("crypto: {why}")),
        }
        if sized && !crew.pinning.sidecores.is_empty() {
            crew.set("notify.service=park")?;
            rates.moving.push(crew.exchange(Exchange::Echo { size }, DEPTH, ns)?.per_s());
            crew.set("notify.service=spin")?;
        }
    } else {
        let inline = crew.together(clients, |_, _| Task::Inline { op: op.clone(), size, ns })?;
        rates.inline.push(total_per_s(&inline) / clients as f64);
    }
    let measured = crew.together(clients, |_, start| Task::Closed { op: op.clone(), size, depth: DEPTH, start, ns })?;
    rates.lane.push(total_per_s(&measured));
    rates.measured.extend(measured);
    Ok(())
}

/// The library as it names itself, e.g. `openssl 3.0.19`.
fn openssl_library() -> Option<String> {
    let version = OpenSsl::load().ok()?.version();
    Some(format!("openssl {}", version.split(' ').nth(1)?))
}

fn rows(crew: &Crew, case: &Case, rates: &Rates) -> Vec<Row> {
    let pinned = crew.pinning.describe(case.clients);
    let row = |variant: &str, rates: &[f64]| Row {
        op: Some(case.op.clone()),
        size: Some(u64::from(case.size)),
        clients: Some(case.clients as u32),
        ops_per_s: Some(median(rates)),
        mbit_per_s: case.sized.then(|| median(rates) * f64::from(case.size) * 8.0 / 1e6),
        pinned: Some(pinned.clone()),
        repeats: Some(rates.len() as u32),
        spread: Some(spread(rates)),
        ..Row::new("crypto", variant)
    };
    let mut rows = vec![Row { library: Some("aws-lc".to_owned()), ..row("inline", &rates.inline) }];
    if !rates.openssl.is_empty() {
        rows.push(Row { library: openssl_library(), ..row("openssl", &rates.openssl) });
    }
    let moved: Vec<f64> = rates.inline.iter().zip(&rates.moving).map(|(i, m)| 1.0 / (1.0 / i + 1.0 / m)).collect();
    if !moved.is_empty() {
        rows.push(row("inline+move", &moved));
    }
    let lane = Row {
        library: Some("aws-lc".to_owned()),
        notify: Some("spin".to_owned()),
        ..with_stages(row("sidecore", &rates.lane), &rates.measured)
    };
    for (baseline, values) in [("inline", &rates.inline), ("openssl", &rates.openssl), ("inline+move", &moved)] {
        if !values.is_empty() {
            let ratio = ratio(&rates.lane, values);
            rows.push(Row { ratio, baseline: Some(baseline.to_owned()), ..lane.clone() });
        }
    }
    rows
}
