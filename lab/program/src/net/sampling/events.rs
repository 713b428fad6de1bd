//! The kernel's samplers: those available on this machine, and their reach.

use crate::error::LabError;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, ReadFormat, SampleFlag, Sampler};
use std::io::{self, ErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Machine,
    /// The calling thread and its later children, also in the kernel.
    Own,
    /// The same outside the kernel.
    OwnOutside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// After a number of cycles of a CPU that is not idle.
    Cycles,
    Time,
}

pub(super) struct Events {
    pub(super) samplers: Vec<Sampler>,
    pub(super) reach: Reach,
    pub(super) clock: Clock,
    pub(super) left_out: Vec<String>,
}

/// Time between two samples of a CPU, ns: about 2155 a second. A kernel's tick of 1, 4 or 10 ms is not a multiple of
/// it, so samples fall before, into and after ticks alike.
pub(super) const PERIOD_NS: u64 = 464_143;
/// Cycles between two samples: about the same rate at 2 to 4 GHz.
const PERIOD_CYCLES: u64 = 1_300_021;
/// Buffer of each CPU, bytes: a second of deep stacks. The limit for users without privileges.
const BUFFER: usize = 512 << 10;

impl Events {
    pub(super) fn open_from(most: Reach, cpus: &[usize]) -> Result<Self, LabError> {
        let mut left_out = Vec::new();
        let mut refused = String::new();
        for reach in [Reach::Machine, Reach::Own, Reach::OwnOutside].into_iter().filter(|reach| *reach >= most) {
            for clock in [Clock::Cycles, Clock::Time] {
                match cpus.iter().map(|cpu| sampler(*cpu, reach, clock)).collect() {
                    Ok(samplers) => return Ok(Self { samplers, reach, clock, left_out }),
                    Err(error) => refused = in_words(&error),
                }
            }
            left_out.push(format!("{}: {refused}", reach.missing()));
        }
        Err(LabError::failed("nothing can be sampled here", refused))
    }
}

impl Reach {
    fn missing(self) -> &'static str {
        match self {
            Self::Machine => {
                "what other processes and interrupts do: run it as root or with CAP_PERFMON, or set sysctl \
                 kernel.perf_event_paranoid=0"
            }
            Self::Own => {
                "what the kernel does for this program: run it as root or with CAP_PERFMON, or set sysctl \
                 kernel.perf_event_paranoid=1"
            }
            Self::OwnOutside => "what this program does itself: set sysctl kernel.perf_event_paranoid=2",
        }
    }
}

fn sampler(cpu: usize, reach: Reach, clock: Clock) -> io::Result<Sampler> {
    let mut builder = match clock {
        Clock::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Clock::Time => Builder::new(Software::CPU_CLOCK),
    };
    builder.sample_period(if clock == Clock::Cycles { PERIOD_CYCLES } else { PERIOD_NS });
    // These events have no weight. It is requested because the parser does not read an empty chain at the end of a
    // record.
    builder.sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::CALLCHAIN | SampleFlag::WEIGHT);
    builder.exclude_callchain_user(true);
    builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    builder.task(true).comm(true).one_cpu(cpu).exclude_kernel(reach == Reach::OwnOutside);
    match reach {
        Reach::Machine => builder.any_pid(),
        Reach::Own | Reach::OwnOutside => builder.observe_self().inherit(true),
    };
    builder.build()?.sampled(BUFFER)
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!("{error} (perf_event_open)"),
        _ => format!("{error} (perf_event_open; a container may forbid it)"),
    }
}
