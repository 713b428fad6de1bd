//! Promised ratios of signing through the provider, all in one run.

use super::{BASELINE, case, own};
use crate::bench::error::BenchError;
use crate::bench::experiment::{By, Case, Turn, Variant, measure_all};
use crate::bench::scenario::Settings;
use crate::bench::testbed::{Plan, Testbed};
use crate::report::figures::ratios;
use crate::report::{Outcome, Section, column, section};
use sidecore_measure::progress::Progress;

pub(super) const SECTION: Section = section(
    "keys-reach",
    "Keys: what signing through the provider is to reach",
    "Signatures a second of one process with its key in the service, divided by those of OpenSSL's \
     own code in the process, beside what the ratio is to be.",
)
.plots(|rows| vec![ratios(rows)]);

struct Point {
    op: &'static str,
    jobs: u32,
    notify: &'static str,
    reach: f64,
}

const POINTS: [Point; 6] = [
    Point { op: "rsa-4096-sign", jobs: 8, notify: "break-even", reach: 1.9 },
    Point { op: "rsa-3072-sign", jobs: 8, notify: "break-even", reach: 1.8 },
    Point { op: "rsa-2048-sign", jobs: 8, notify: "break-even", reach: 0.97 },
    Point { op: "p-256-sign", jobs: 1, notify: "spin", reach: 1.2 },
    Point { op: "p-256-sign", jobs: 1, notify: "park", reach: 0.75 },
    Point { op: "ed25519-sign", jobs: 8, notify: "break-even", reach: 2.0 },
];

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let points: Vec<&Point> = POINTS.iter().filter(|point| settings.wants(point.op)).collect();
    let mut ops: Vec<&str> = points.iter().map(|point| point.op).collect();
    ops.dedup();
    if ops.is_empty() {
        return Ok(Outcome::default());
    }
    let mut testbed = Testbed::with_keys(&Plan::inline(1), &ops)?;
    let (repeats, ns) = settings.pick((3, 100_000_000), (9, 300_000_000));
    let cases = points.into_iter().map(|point| point.case(&testbed, ns)).collect();
    measure_all(&mut testbed, cases, repeats, progress)
}

impl Point {
    fn case(&'static self, testbed: &Testbed, ns: u64) -> Case<'static, Testbed> {
        let run = move |testbed: &mut Testbed, _: &Turn<'_>| {
            testbed.set(&format!("notify={}", self.notify))?;
            testbed.provided(self.op, 1, self.jobs, ns)
        };
        let sidecore = Variant::new("sidecore", run)
            .with(column::JOBS, self.jobs)
            .with(column::NOTIFY, self.notify)
            .with(column::AT_LEAST, self.reach)
            .against(By::Rate, BASELINE);
        case("keys-reach", testbed, self.op, 1).variant(own(self.op, 1, ns)).variant(sidecore)
    }
}
