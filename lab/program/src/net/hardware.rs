//! Hardware counters of all processors, if programs may read them on this machine.

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter};
use std::io;

#[derive(Debug)]
pub(super) struct Counters([Vec<Counter>; 3]);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) instructions: Option<u64>,
    /// Read misses of the first data cache.
    pub(super) first_misses: Option<u64>,
    pub(super) misses: Option<u64>,
}

const NAMES: [&str; 3] = ["instructions", "misses of the first cache", "cache misses"];

impl Counters {
    /// Reasons for missing counters go to `left_out`.
    pub(super) fn open(processors: usize, left_out: &mut Vec<String>) -> Self {
        let first = Cache { which: CacheId::L1D, operation: CacheOp::READ, result: CacheResult::MISS };
        let all = [
            of_each(processors, &Hardware::INSTRUCTIONS),
            of_each(processors, &first),
            of_each(processors, &Hardware::CACHE_MISSES),
        ];
        let missing: Vec<_> =
            NAMES.iter().zip(&all).filter_map(|(name, of)| Some((*name, of.as_ref().err()?))).collect();
        if let Some((_, error)) = missing.first() {
            let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
            let why = match error.raw_os_error() {
                Some(libc::ENOENT | libc::EOPNOTSUPP) => "this machine shows no such hardware counters".to_owned(),
                _ => format!("{error}; run it as root or with CAP_PERFMON"),
            };
            left_out.push(format!("{}: {why}", names.join(", ")));
        }
        Self(all.map(Result::unwrap_or_default))
    }

    pub(super) fn reset(&mut self) {
        for counter in self.0.iter_mut().flatten() {
            // A failed reset would show in an implausible count.
            let _ = counter.reset();
        }
    }

    pub(super) fn read(&mut self) -> Found {
        let sum = |counters: &mut Vec<Counter>| {
            let counts = counters.iter_mut().map(Counter::read).collect::<Result<Vec<_>, _>>().ok()?;
            (!counts.is_empty()).then(|| counts.iter().sum())
        };
        let [instructions, first_misses, misses] = self.0.each_mut().map(sum);
        Found { instructions, first_misses, misses }
    }
}

fn of_each(processors: usize, event: &(impl Event + Clone)) -> io::Result<Vec<Counter>> {
    let one = |cpu| Builder::new(event.clone()).any_pid().one_cpu(cpu).include_kernel().enabled(true).build();
    (0..processors).map(one).collect()
}
