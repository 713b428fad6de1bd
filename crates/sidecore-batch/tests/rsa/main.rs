//! Private operations of RSA side by side: right results, and nothing of a key in what they do.

#[cfg(target_arch = "x86_64")]
mod constant_time;
mod der;
mod signatures;
#[cfg(target_arch = "x86_64")]
mod sys;
