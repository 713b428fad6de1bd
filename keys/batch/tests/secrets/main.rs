//! Tests that no branch and no address depends on a secret.
#![cfg(target_arch = "x86_64")]

mod memcheck;
mod steps;
mod sys;
