//! Tests that no branch and no address depends on a secret.
#![cfg(target_arch = "x86_64")]

#[path = "../rsa/der.rs"]
mod der;
mod memcheck;
mod steps;
mod sys;
