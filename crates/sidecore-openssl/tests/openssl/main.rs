//! The provider in the system's `openssl` command, against a service in this process.

mod common;
mod decrypt;
mod files;
mod life;
mod programs;
mod shared;
mod sign;
mod speed;
mod tls;
mod tree;
