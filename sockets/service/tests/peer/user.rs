//! The user that this process plays.

use rustix::process::{Gid, Uid, getuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Permanently, before there are threads.
pub(crate) fn become_user(uid: u32) {
    if uid == getuid().as_raw() {
        return;
    }
    let (gid, uid) = (Gid::from_raw(uid), Uid::from_raw(uid));
    set_thread_groups(&[]).expect("root may");
    set_thread_res_gid(gid, gid, gid).expect("root may");
    set_thread_res_uid(uid, uid, uid).expect("root may");
}
