//! Tests of programs and a service of sockets, over rings, TCP connections and UDP sockets of this machine.

mod common;
mod datagrams;
mod hostile;
mod idle;
mod limits;
mod path;
mod reports;
mod rows;
mod sandbox;
mod shares;
mod trust;
mod users;
