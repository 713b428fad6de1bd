//! [`sidecore_measure::experiment`] with the errors of the bench.

use super::error::BenchError;
pub(super) use sidecore_measure::experiment::{Better, By, Counted, Run, Turn, measure_all, with_caveats};

pub(super) type Case<'e, L> = sidecore_measure::experiment::Case<'e, L, BenchError>;
pub(super) type Variant<'e, L> = sidecore_measure::experiment::Variant<'e, L, BenchError>;
