//! The work of a service, as far as its sandbox has to permit it.

use super::calls;
use libc::{c_int, c_long, c_ulong};

/// Work of a service beyond answering at its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duty {
    /// It has secrets: its memory is locked, unless the configuration says otherwise.
    pub secrets: bool,
    /// It opens the files of the configuration. Otherwise it opens none once calls are filtered.
    pub files: bool,
    /// Numbers of further system calls, permitted with any arguments.
    pub calls: &'static [c_long],
    /// Options of sockets (`SOL_SOCKET`) that it sets.
    pub options: &'static [c_int],
    /// Requests of `ioctl` that it makes.
    pub requests: &'static [c_ulong],
}

impl Duty {
    /// That of the service of keys.
    pub const KEYS: Self = Self { secrets: true, files: true, ..Self::NONE };

    /// Nothing more: a service that only answers.
    pub const NONE: Self = Self { secrets: false, files: false, calls: &[], options: &[], requests: &[] };

    /// Whether a service of this duty may make the call of this number, with some arguments at least.
    pub fn permits(&self, call: c_long) -> bool {
        calls::permits(*self, call)
    }
}
