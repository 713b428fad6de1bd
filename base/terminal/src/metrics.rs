//! Metrics over HTTP, in either of Prometheus's formats.

mod format;
mod http;

pub use format::Format;
pub use http::{Answer, Server, Wanted};
