//! Whether connections may be promoted into rings.

use std::sync::atomic::{AtomicBool, Ordering};

/// The process sends in ways that the library does not see.
static NEVER: AtomicBool = AtomicBool::new(false);
/// A promotion is in progress: signal handlers must not begin another, and other threads can try later.
static BUSY: AtomicBool = AtomicBool::new(false);

pub(crate) fn never() {
    NEVER.store(true, Ordering::SeqCst);
}

pub(crate) fn is_never() -> bool {
    NEVER.load(Ordering::Relaxed)
}

/// Blocks promotions until [`resume`]. `false`: one is in progress.
pub(crate) fn pause() -> bool {
    !BUSY.swap(true, Ordering::Acquire)
}

pub(crate) fn resume() {
    BUSY.store(false, Ordering::Release);
}

/// In a forked child, which lacks a thread that may have been promoting.
pub(crate) fn after_fork_in_child() {
    BUSY.store(false, Ordering::SeqCst);
}
