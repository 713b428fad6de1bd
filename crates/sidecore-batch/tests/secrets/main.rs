//! Nothing that the machine does depends on a secret: no branch, and no address.
#![cfg(target_arch = "x86_64")]

#[path = "../rsa/der.rs"]
mod der;
mod memcheck;
mod steps;
mod sys;
