//! The provider in the system's `openssl` command, against a service in this process.

mod agree;
mod alike;
mod cases;
mod common;
mod decrypt;
mod files;
mod jobs;
mod kamailio;
mod languages;
mod life;
mod newer;
mod old;
mod programs;
mod settings;
mod shared;
mod sight;
mod sign;
mod speed;
mod tls;
mod tree;
