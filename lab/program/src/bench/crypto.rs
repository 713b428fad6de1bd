//! Operations through the lane, compared with the same library inline, OpenSSL inline, and inline plus moving the
//! bytes.

use super::error::BenchError;
use super::experiment::{By, Case, Run, Turn, Variant, measure_all};
use super::scenario::{Scenario, Settings};
use super::task::Task;
use super::testbed::{Plan, Testbed};
use crate::baseline::{openssl_library, operation};
use crate::report::figures::by_operation;
use crate::report::{Outcome, column, section};
use sidecore::bare::Exchange;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::Class;
use sidecore_libcrypto::Context;
use sidecore_measure::experiment::total_per_s;
use sidecore_measure::progress::Progress;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "crypto",
    "Operations and sizes against the same library inline and OpenSSL inline",
    measure,
    &[section(
        "crypto",
        "Crypto: operations through a lane",
        "Operations a second, against the same library called in the client's own process. \
     Up is better; a dashed line is a baseline.",
    )
    .plots(|rows| vec![by_operation(rows)])],
)
.by_default()
.ops(ops);

const DEPTH: u32 = 64;
const SIZES: [u32; 6] = [16, 64, 256, 1024, 4096, 16_384];
const QUICK_SIZES: [u32; 3] = [64, 1024, 16_384];
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
const FIXED: [&str; 12] = [
    "rsa-2048-sign",
    "rsa-2048-verify",
    "rsa-2048-decrypt",
    "rsa-3072-sign",
    "rsa-4096-sign",
    "p-256-sign",
    "p-384-sign",
    "ed25519-sign",
    "x25519",
    "p-256-derive",
    "ml-kem-768-decaps",
    "ml-dsa-65-sign",
];
const QUICK_FIXED: [&str; 4] = ["rsa-2048-sign", "rsa-4096-sign", "p-256-sign", "ed25519-sign"];
/// Length of the message to sign, bytes.
const MESSAGE: u32 = 32;

struct Point {
    op: String,
    size: u32,
    clients: usize,
    sized: bool,
}

fn points(settings: &Settings) -> Vec<Point> {
    let (bulk, asymmetric, all_sizes): (&[&str], &[&str], &[u32]) =
        if settings.quick { (&QUICK_SIZED, &QUICK_FIXED, &QUICK_SIZES) } else { (&SIZED, &FIXED, &SIZES) };
    let named: Vec<String> = if settings.ops.is_empty() {
        bulk.iter().chain(asymmetric).map(|op| (*op).to_owned()).collect()
    } else {
        settings.ops.clone()
    };
    let counts: &[usize] = if settings.quick { &[1] } else { &[1, 2, 4] };
    let mut points = Vec::new();
    for op in named {
        let sized = !is_asymmetric(&op);
        let of_these = if sized { all_sizes } else { &[MESSAGE] };
        for (size, clients) in of_these.iter().flat_map(|size| counts.iter().map(|clients| (*size, *clients))) {
            points.push(Point { op: op.clone(), size, clients, sized });
        }
    }
    points
}

fn ops() -> Vec<&'static str> {
    Class::all().map(Class::name).collect()
}

fn is_asymmetric(op: &str) -> bool {
    ["rsa-", "p-256", "p-384", "p-521", "ed25519", "x25519", "ml-"].iter().any(|prefix| op.starts_with(prefix))
}

fn not_in_openssl(op: &str, size: u32) -> Option<String> {
    let openssl = match Context::system() {
        Ok(openssl) => openssl,
        Err(error) => return Some(error.to_string()),
    };
    let run = Class::from_name(op).map(|class| operation(&openssl, class, size as usize));
    matches!(run, None | Some(Ok(None))).then(|| format!("OpenSSL has no {op}"))
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let points = points(settings);
    let most = points.iter().map(|point| point.clients).max().unwrap_or(1);
    // The wake-up call for each completion would be charged to the sidecore: a client with its own core polls.
    let plan = Plan { notify: NotifyConfig::all(Notify::Spin), ..Plan::inline(most) };
    let mut testbed = match &settings.socket {
        Some(socket) => Testbed::beside(socket, most)?,
        None => Testbed::start(&plan)?,
    };
    let cases = points.into_iter().map(|point| point.case(settings, &testbed)).collect();
    let outcome = measure_all(&mut testbed, cases, settings.pick(3, 5), progress)?;
    if testbed.is_beside() {
        return Ok(outcome.noted(
            "crypto: the service ran already and waits as it is set; each client keeps 64 requests in flight, copies its payload \
             into the arena and the result out of it. Copying alone would take its core, so there is no inline+move.",
        ));
    }
    Ok(outcome.noted(
        "crypto: each client keeps 64 requests in flight, copies its payload into the arena and the result out of it; \
         inline works on its own memory. inline+move is 1 / (inline time + time to copy the bytes out of and into \
         shared memory on the sidecore's core), all measured in the run.",
    ))
}

impl Point {
    fn case(self, settings: &Settings, testbed: &Testbed) -> Case<'static, Testbed> {
        let Self { op, size, clients, sized } = self;
        let ns = if sized { settings.pick(20_000_000, 50_000_000) } else { settings.pick(50_000_000, 150_000_000) };
        let mut case = Case::new("crypto")
            .with(column::OP, op.as_str())
            .with(column::SIZE, size)
            .with(column::CLIENTS, clients)
            .pinned(&testbed.pinning, clients)
            .payload(sized);
        let task = Task::Inline { op: op.clone(), size, ns };
        let inline = move |testbed: &mut Testbed, _: &Turn<'_>| {
            let alone = total_per_s(&testbed.together(clients, |_| task.clone())?);
            Ok(Run::at(alone / clients as f64))
        };
        case = case.variant(Variant::new("inline", inline).with(column::LIBRARY, "aws-lc"));
        if clients == 1 {
            let task = Task::OpenSsl { op: op.clone(), size, ns };
            let missing = not_in_openssl(&op, size);
            let openssl = move |testbed: &mut Testbed, _: &Turn<'_>| match &missing {
                Some(why) => Ok(Run::missing(why)),
                None => Ok(Run::of(testbed.together(1, |_| task.clone())?)),
            };
            case = case.variant(Variant::new("openssl", openssl).with(column::LIBRARY, openssl_library()));
        }
        if clients == 1 && sized && !testbed.pinning.sidecores.is_empty() {
            let moving = move |testbed: &mut Testbed, turn: &Turn<'_>| {
                let moved = testbed.beside_sleeping(Exchange::Echo { size }, DEPTH, ns)?.rate();
                let inline = turn.rate("inline").unwrap_or_default();
                Ok(Run::at(1.0 / (1.0 / inline + 1.0 / moved)))
            };
            case = case.variant(Variant::new("inline+move", moving));
        }
        let lane = move |testbed: &mut Testbed, _: &Turn<'_>| testbed.closed(clients, (&op, size), DEPTH, ns);
        let lane = Variant::new("sidecore", lane).with(column::LIBRARY, "aws-lc");
        let lane = if testbed.is_beside() { lane } else { lane.with(column::NOTIFY, "spin") };
        case.variant(["inline", "openssl", "inline+move"].iter().fold(lane, |lane, name| lane.against(By::Rate, name)))
    }
}
