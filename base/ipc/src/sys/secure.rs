//! Detects a program that has more rights than the user who started it.

/// Whether it runs with a set user or group, or with capabilities of its file. Its environment then comes from a user
/// with fewer rights.
pub fn is_privileged() -> bool {
    // SAFETY: reads a value that the kernel left for the process; 0 if it left none.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
