//! Functions that enter other namespaces.

use super::leaving::by_the_kernel_alone;
use super::processes::is_borrower;
use super::{errno, intercept, pass};
use crate::calls::namespaces::{after, before};
use libc::c_int;

fn entered(call: impl FnOnce() -> c_int) -> c_int {
    if is_borrower() {
        return call();
    }
    let is_paused = errno::kept(before);
    let result = call();
    after(is_paused, result == 0);
    result
}

intercept! {
    fn unshare(flags: c_int) -> c_int {
        let result = entered(|| pass!(unshare(flags)));
        if result == 0 && flags & libc::CLONE_FILES != 0 && !is_borrower() {
            // Other threads have other files at the same numbers.
            by_the_kernel_alone();
        }
        result
    }

    fn setns(fd: c_int, kind: c_int) -> c_int {
        entered(|| pass!(setns(fd, kind)))
    }
}
