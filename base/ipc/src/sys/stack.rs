//! Stack space left for a thread.

use std::cell::Cell;

thread_local! {
    /// Bounds of this thread's stack; looked up once, because that reads a file.
    static BOUNDS: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Bytes below the caller's frame. `None`: the caller is not on the thread's own stack, but on one made by the program
/// or this library.
pub fn left() -> Option<usize> {
    let (lowest, highest) = BOUNDS.get().unwrap_or_else(|| {
        let found = bounds();
        BOUNDS.set(Some(found));
        found
    });
    let marker = 0_u8;
    let here = (&raw const marker).addr();
    (lowest..highest).contains(&here).then(|| here - lowest)
}

/// If the system gives no bounds, as without `/proc`, the stack counts as large.
fn bounds() -> (usize, usize) {
    // SAFETY: all zeros are attributes; they are filled in, queried and freed by the manual's rules.
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
