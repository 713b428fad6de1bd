//! The module as programs load it, against a service in this process.

mod common;
mod ffi;
mod fork;
mod hostile;
mod java;
mod kinds;
mod life;
mod objects;
mod programs;
mod signing;
mod stored;
mod templates;
mod tree;
