//! Programs and a service of sockets, over rings and TCP connections of this machine.

mod common;
mod hostile;
mod idle;
mod limits;
mod path;
mod rows;
mod shares;
#[path = "../service/skipped.rs"]
mod skipped;
mod users;
mod weights;
