//! Shares of this process's descriptors.

use crate::control::Refused;
use rustix::process::{Resource, getrlimit};

/// One descriptor in this number is for declined connections, and this number at most: fewer than are reserved.
const DECLINED: u64 = 32;
const MAX_DECLINED: u64 = 32;
/// One descriptor in this number is reserved for root and the service's own user, and this number at most.
const RESERVED: u64 = 16;
const MAX_RESERVED: u64 = 64;

pub(super) fn reserved() -> i32 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(i32::MAX as u64);
    (limit - (limit / RESERVED).min(MAX_RESERVED)) as i32
}

pub(super) fn most_declined() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (limit / DECLINED).clamp(1, MAX_DECLINED) as usize
}

pub(super) fn no_descriptor() -> Refused {
    Refused::limit("the service has no file descriptor left: raise its limit (ulimit -n)")
}
