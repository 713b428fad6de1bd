//! Decisions about a program's calls.

pub(crate) mod edges;
pub(crate) mod forks;
mod kept;
pub(crate) mod kinds;
pub(crate) mod namespaces;
pub(crate) mod permit;
pub(crate) mod preloaded;
pub(crate) mod promote;
mod report;
mod room;
pub(crate) mod send;
pub(crate) mod settle;
pub(crate) mod wait;
