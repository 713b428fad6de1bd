//! Whether this program has more rights than whoever started it.

/// Whether it runs with a set user or group, or with capabilities of its file: its environment is then that of somebody
/// with fewer rights.
pub fn is_privileged() -> bool {
    // SAFETY: reads what the kernel left for the process; 0 where it left nothing.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
