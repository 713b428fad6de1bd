//! Metrics over HTTP, in either of Prometheus's formats.
//!
//! An [`Exporter`] makes [`Family`] after family, with sums of owners that come and go in [`Accounts`]; [`encode`] writes
//! them, and [`export`] answers scrapers.

mod account;
mod exporter;
mod family;
mod format;
mod http;
#[cfg(test)]
mod tests;

pub use account::{Account, Accounts, OTHERS};
pub use exporter::{Exporter, answer, export};
pub use family::{Family, Kind, Labels, Value, encode};
pub use format::Format;
pub use http::{Answer, Server, Wanted};
