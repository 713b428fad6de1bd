//! Functions that change the user of a process.

use super::processes::is_borrower;
use super::{errno, intercept, pass};
use libc::{c_int, uid_t};
use sidecore_sockets::program;

fn changed(call: impl FnOnce() -> c_int) -> c_int {
    let result = call();
    if result == 0 && !is_borrower() {
        errno::kept(program::user_changed);
    }
    result
}

intercept! {
    fn setuid(user: uid_t) -> c_int {
        changed(|| pass!(setuid(user)))
    }

    fn seteuid(user: uid_t) -> c_int {
        changed(|| pass!(seteuid(user)))
    }

    fn setreuid(real: uid_t, effective: uid_t) -> c_int {
        changed(|| pass!(setreuid(real, effective)))
    }

    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
        changed(|| pass!(setresuid(real, effective, saved)))
    }
}
