//! Promised ratios of signing through the provider, all in one run.

use super::{BASELINE, case, own};
use crate::bench::crew::{Crew, Plan};
use crate::bench::experiment::{By, Case, Turn, Variant, measure_all};
use crate::bench::{BenchError, Outcome, Settings};
use crate::progress::Progress;
use crate::report::Key;

struct Point {
    op: &'static str,
    jobs: u32,
    /// Policy of all hops.
    notify: &'static str,
    /// Least ratio to OpenSSL's own code.
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
    let mut crew = Crew::with_keys(&Plan::inline(1), &ops)?;
    let (repeats, ns) = settings.pick((3, 100_000_000), (9, 300_000_000));
    let cases = points.into_iter().map(|point| point.case(&crew, ns)).collect();
    measure_all(&mut crew, cases, repeats, progress)
}

impl Point {
    fn case(&'static self, crew: &Crew, ns: u64) -> Case<'static, Crew> {
        let run = move |crew: &mut Crew, _: &Turn<'_>| {
            crew.set(&format!("notify={}", self.notify))?;
            crew.provided(self.op, 1, self.jobs, ns)
        };
        let sidecore = Variant::new("sidecore", run)
            .with(Key::Jobs, self.jobs)
            .with(Key::Notify, self.notify)
            .with(Key::AtLeast, self.reach)
            .against(By::Rate, BASELINE);
        case("keys-reach", crew, self.op, 1).variant(own(self.op, 1, ns)).variant(sidecore)
    }
}
