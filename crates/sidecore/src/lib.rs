//! runtime

pub mod engine;
mod ffi;
pub mod shm;
