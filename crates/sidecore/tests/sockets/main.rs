//! Programs and a service of sockets, over rings and TCP connections of this machine.

mod common;
mod limits;
mod path;
mod rows;
#[path = "../service/skipped.rs"]
mod skipped;
