//! Everything in sidecore that decides.
//!
//! This crate cannot read a clock, perform I/O or touch raw memory: it is `no_std`, forbids unsafe code and depends
//! on nothing. The runtime hands it events and the time; it answers with decisions. The same code runs in the service
//! and in the simulator.
//!
//! The life of a request crosses these modules in order: [`wire`] encodes it into the seven words of a [`ring`] slot,
//! [`doorbell`] wakes the sidecore if it sleeps, [`wire`] parses it against the limits of its [`session`], [`dispatch`]
//! admits it, gives it to a device and keeps it [`inflight`], [`stage`] accounts its time, and a notify [`policy`]
//! decides when its client is woken.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(loom)]
extern crate std;

pub mod dispatch;
pub mod doorbell;
pub mod farm;
pub mod flag;
pub mod gate;
pub mod generation;
pub mod histogram;
pub mod inflight;
pub mod layout;
pub mod per_process;
pub mod policy;
pub mod ring;
pub mod session;
pub mod sidecore;
pub mod stage;
pub mod streams;
pub mod sync;
pub mod time;
pub mod wire;
pub mod words;
pub mod work;
