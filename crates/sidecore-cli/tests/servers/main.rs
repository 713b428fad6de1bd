//! Servers and tools as Debian packages them, with their keys in the service: real programs, unmodified, on free ports.

mod debian;
mod debian13;
mod guides;
mod handshake;
mod library;
mod luck;
mod manager;
mod material;
mod memory;
mod module;
mod programs;
mod readme;
mod relay;
mod remote;
mod renewal;
mod restarts;
mod secrets;
mod server;
mod service;
mod settings;
mod table;
