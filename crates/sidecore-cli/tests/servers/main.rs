//! Servers and tools of Debian packages with their keys in the service: real, unmodified programs on free ports.

mod caddy;
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
mod sshd;
mod table;
mod tomcat;
mod units;
mod transfer;
