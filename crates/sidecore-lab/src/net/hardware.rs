//! Hardware counters of all processors, if programs may read them on this machine.

use crate::error::LabError;
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

#[derive(Debug)]
pub(super) struct Counters {
    instructions: Vec<Counter>,
    misses: Vec<Counter>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) instructions: u64,
    pub(super) misses: u64,
}

impl Counters {
    pub(super) fn open(processors: usize) -> Result<Self, LabError> {
        let open = |event| {
            let one = |cpu| Builder::new(event).any_pid().one_cpu(cpu).include_kernel().enabled(true).build();
            (0..processors).map(one).collect::<Result<Vec<_>, _>>()
        };
        let both = open(Hardware::INSTRUCTIONS).and_then(|counted| Ok((counted, open(Hardware::CACHE_MISSES)?)));
        let (instructions, misses) = both.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) => {
                LabError::broken("instructions and cache misses: this machine shows no hardware counters")
            }
            _ => LabError::missing("instructions and cache misses", error, "run it as root or with CAP_PERFMON"),
        })?;
        Ok(Self { instructions, misses })
    }

    pub(super) fn reset(&mut self) {
        for counter in self.instructions.iter_mut().chain(&mut self.misses) {
            // A failed reset would show in an implausible count.
            let _ = counter.reset();
        }
    }

    pub(super) fn read(&mut self) -> Option<Found> {
        let sum = |counters: &mut [Counter]| counters.iter_mut().map(Counter::read).sum::<Result<u64, _>>().ok();
        Some(Found { instructions: sum(&mut self.instructions)?, misses: sum(&mut self.misses)? })
    }
}
