//! Rows and pages of the laboratory's scenarios, as they stand in its modules.

pub(crate) use sidecore_measure::figures::section;
pub(crate) use sidecore_measure::headline::most;
pub(crate) use sidecore_measure::{figures, plot};
pub(crate) use sidecore_report::column::{self, Column};
pub(crate) use sidecore_report::format::{bytes, count, counted, digits, micros, plain, ratio};
pub(crate) use sidecore_report::{Caveat, Grid, Group, Headline, Outcome, Reason, Row, Section, Times, grouped};
#[cfg(test)]
pub(crate) use sidecore_report::{Report, caveat};

#[cfg(test)]
mod tests;
