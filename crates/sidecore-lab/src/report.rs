//! Results of measurements and simulations. Rows, tables and pages are those of [`sidecore_report`]; here stand the plots
//! and headlines of the laboratory's sections.

pub(crate) mod about;
pub(crate) mod figures;
mod headline;
pub(crate) mod plot;

pub(crate) use headline::{most, typical_ratio};
pub(crate) use sidecore_report::caveat;
pub(crate) use sidecore_report::column::{self, Better, Column};
pub(crate) use sidecore_report::format::{bytes, clean, count, counted, digits, micros, plain, ratio};
pub(crate) use sidecore_report::{
    About, Caveat, Figure, Grid, Group, Headline, Outcome, Reason, Report, Row, Section, Times, grouped,
};

use figures::bare;

pub(crate) const fn section(name: &'static str, title: &'static str, reading: &'static str) -> Section {
    Section::new(name, title, reading).plots(|rows| vec![bare(rows)]).headline(typical_ratio)
}

#[cfg(test)]
mod tests;
