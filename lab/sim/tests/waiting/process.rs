//! Random processes of gaps, a length for each wait.

use super::Machine;
use sidecore_core::time::Nanos;
use sidecore_sim::engine::Random;
use std::fmt::{self, Display, Formatter};

/// Where gaps come from. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Process {
    Poisson {
        mean: Nanos,
    },
    /// A Markov chain of two states, on and off, each with exponentially distributed gaps: the interrupted and
    /// generalised case of a Markov-modulated Poisson process. A state holds for `stay` gaps in the mean.
    Bursty {
        on: Nanos,
        off: Nanos,
        /// Gaps in a row of the same state, mean.
        stay: u32,
    },
    /// Completions of two sizes in random order, each with a time of its own and normally distributed noise.
    Predictable {
        /// Time of the smaller size; the larger takes twice as long.
        time: Nanos,
        /// Standard deviation in thousandths of the time.
        permille: u32,
    },
    /// Each gap ends just after the waiter went to sleep.
    Adversary,
}

impl Process {
    /// Poisson with mean gaps of an eighth to 32 costs of a park, bursts, completions with times known within 0.5 to 2 %,
    /// and the adversary.
    pub(super) fn all(machine: &Machine) -> Vec<Self> {
        let cost = machine.park_cost;
        let poisson = (0..9).map(|power| Self::Poisson { mean: (cost << power) / 8 });
        let bursty = [4, 64, 1_024].map(|stay| Self::Bursty { on: cost / 8, off: 32 * cost, stay });
        let predictable = [1, 2, 4, 10, 20]
            .into_iter()
            .flat_map(|times| [5, 10, 20].map(|permille| Self::Predictable { time: times * cost, permille }));
        poisson.chain(bursty).chain(predictable).chain([Self::Adversary]).collect()
    }
}

impl Display for Process {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let us = |ns: Nanos| ns as f64 / 1_000.0;
        match *self {
            Self::Poisson { mean } => write!(f, "poisson, mean {} us", us(mean)),
            Self::Bursty { on, off, stay } => write!(f, "bursts of {stay}, {} us and {} us", us(on), us(off)),
            Self::Predictable { time, permille } => {
                write!(f, "known, {} us and {} us within {} %", us(time), us(2 * time), f64::from(permille) / 10.0)
            }
            Self::Adversary => f.write_str("adversary"),
        }
    }
}

pub(super) struct Arrivals {
    process: Process,
    random: Random,
    on: bool,
}

impl Arrivals {
    pub(super) fn new(process: Process, seed: u64) -> Self {
        Self { process, random: Random::new(seed), on: true }
    }

    /// The next gap, ns. `None`: it ends just after the waiter went to sleep.
    pub(super) fn next(&mut self) -> Option<Nanos> {
        match self.process {
            Process::Poisson { mean } => Some(self.unknown(mean)),
            Process::Bursty { on, off, stay } => {
                self.on ^= self.random.below(u64::from(stay)) == 0;
                Some(self.unknown(if self.on { on } else { off }))
            }
            Process::Predictable { time, permille } => {
                let mean = (time << self.random.below(2)) as f64;
                Some(self.random.normal(mean, mean * f64::from(permille) / 1_000.0).max(0.0) as Nanos)
            }
            Process::Adversary => None,
        }
    }

    fn unknown(&mut self, mean: Nanos) -> Nanos {
        self.random.exponential(mean as f64) as Nanos
    }
}
