//! The lock between measurements that disturb each other.
//!
//! The calibration holds it alone, for one class at a time. Batch devices share it, so they wait for one class at most.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MEASURING: RwLock<()> = RwLock::new(());

pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    MEASURING.write().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn shared() -> RwLockReadGuard<'static, ()> {
    MEASURING.read().unwrap_or_else(PoisonError::into_inner)
}
