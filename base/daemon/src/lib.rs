//! What every service of sidecore does, whatever it serves: it takes a place in the file system, listens there, learns who
//! its peers are, gives up what it does not need, reads a strict configuration, and tells what happens.
//!
//! The service of keys and the service of sockets are built on this crate. It knows neither keys nor sockets, so whoever
//! changes the sandbox or the way in changes both services, and neither links the other.
//!
//! |Module|For|
//! |---|---|
//! |`config`|reading a TOML file strictly, in an operator's words; the sections that services share|
//! |`runtime_dir`, `door`|the socket, its lock and its files, from one service to the next; accepting, and closing what is declined (`declined`)|
//! |`process`, `detach`, `log`|a service as a process: signals, its manager, a process of its own; its log|
//! |`start`|why a service does not start, and what is looked at before|
//! |`sandbox`|restrictions of the process by its duty: user, capabilities, directories, system calls|
//! |`tenants`|who counts as one user: a user with its subordinate users|
//! |`events`|events of any service, for subscribers of `tracing`|
//! |`sys`|system calls of a service: cores, peers, messages with their senders, epoll, eventfds, costs of a sleep (`park`)|

// The macros panic where standard output or error is closed, which must not end a service.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod config;
mod declined;
pub mod detach;
pub mod door;
pub mod events;
pub mod log;
pub mod process;
pub mod runtime_dir;
pub mod sandbox;
pub mod start;
pub mod sys;
pub mod tenants;
