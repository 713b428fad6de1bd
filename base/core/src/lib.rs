//! Everything in sidecore that decides.
//!
//! This crate cannot read a clock, perform I/O or touch raw memory: it is `no_std`, forbids unsafe code and depends
//! on nothing. The runtime hands it events and the time; it answers with decisions. The same code runs in the service
//! and in the simulator.
//!
//! The life of a request crosses these modules in order: [`wire`] encodes it into the seven words of a [`ring`] slot,
//! [`doorbell`] wakes the [`sidecore`] if it sleeps, [`wire`] checks it against the arena, its [`session`] gives its
//! class, [`dispatch`] admits it, gives it to a device and keeps it [`inflight`], [`stage`] accounts its time, and a
//! notify [`policy`] decides when its client is woken.
//!
//! |Module|For|
//! |---|---|
//! |`time`, `sync`|nanoseconds and their spelling; atomics, of the language or of loom|
//! |`words`, `layout`|a cache line of shared words; the places in a lane's memory, from agreed numbers|
//! |`ring`, `doorbell`|queue of one producer and one consumer; wake-up of a peer only if it sleeps|
//! |`gate`, `flag`|a written-off worker writes no late result; whether a queue of commands has any|
//! |`generation`, `per_process`|counter blocks that change owners while read; state of each process, forked ones too|
//! |`wire`|meaning of the seven words of a slot; total parsing of hostile ones|
//! |`session`|the table of operations: algorithms, classes, refusals|
//! |`work`, `inflight`|a request as decisions see it; requests at devices, and their tickets|
//! |`stage`, `histogram`|stages of a request and their sampling; buckets of quarter octaves|
//! |`dispatch`|state machine from arrival to announcement; it drives the policies|
//! |`sidecore`|rounds, turns, waiting, death of devices; `sidecore/host` is its interface to the runtime|
//! |`policy`|families: `notify`, `balance`, `order`, `gather`, `admission`, `intake`, `rate`, `fair_queue`|
//! |`text`|untrusted text, made safe for terminals|
//! |`custody`|which copy of a key may be deleted once another service has it|
//! |`text`|which letters of what others wrote a terminal may get|
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(loom)]
extern crate std;

pub mod custody;
pub mod dispatch;
pub mod doorbell;
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
pub mod sync;
pub mod text;
pub mod time;
pub mod wire;
pub mod words;
pub mod work;
