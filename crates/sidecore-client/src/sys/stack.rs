//! How much of its stack a thread has left.

use std::cell::Cell;

thread_local! {
    /// Where the stack of this thread begins and ends; looked up once, for that takes reading a file.
    static BOUNDS: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Bytes below the caller's frame. `None`: it is on no stack that the system gave the thread, but on one that the program or this library made.
pub(crate) fn left() -> Option<usize> {
    let (lowest, highest) = BOUNDS.get().unwrap_or_else(|| {
        let found = bounds();
        BOUNDS.set(Some(found));
        found
    });
    let marker = 0_u8;
    let here = (&raw const marker).addr();
    (lowest..highest).contains(&here).then(|| here - lowest)
}

/// Where the system does not say it, as without `/proc`, any stack is taken for a large one.
fn bounds() -> (usize, usize) {
    // SAFETY: all zeros are attributes; they are filled in, asked and freed as the manual says.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return (0, usize::MAX);
        }
        let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
        let known = libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size) == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        if known { (lowest.addr(), lowest.addr() + size) } else { (0, usize::MAX) }
    }
}
