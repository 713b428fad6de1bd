//! Crypto of several clients side by side in the wide units of one core.
//!
//! A core has wide multipliers which one operation of one client cannot fill. Several operations of the same kind can: each
//! takes lanes of its own, and each instruction works on all of them. Its units for AES begin with a block while others
//! are on their way through them, but for blocks of one chain. Keys may differ from lane to lane and from chain to chain.
//!
//! This crate computes and decides nothing: it knows no queue, no clock and no client. No branch and no address depends on a
//! secret.
//!
//! |Module|For|
//! |---|---|
//! |`rsa`, `p256`|private-key operations of several keys side by side|
//! |`cbc`|chains of blocks of several keys side by side|
//! |`lanes`, `number`|arithmetic on all lanes by one instruction; long numbers|
//! |`stack`, `sys`|stack that is wiped; instructions and registers|

pub mod cbc;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod number;
pub mod p256;
pub mod rsa;
mod stack;
mod sys;

/// Most operations that one call does side by side.
pub const MOST: usize = 8;
