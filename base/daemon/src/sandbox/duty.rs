//! The work of a service, as far as its sandbox has to permit it.

use super::calls;
use crate::sys::directory::parent;
use landlock::{AccessFs, BitFlags};
use libc::{c_int, c_long, c_ulong};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Work of a service beyond answering at its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duty {
    /// It has secrets: its memory is locked, unless the configuration says otherwise.
    pub secrets: bool,
    /// It opens files of its directories. Otherwise it opens none once calls are filtered.
    pub files: bool,
    /// Numbers of further system calls, permitted with any arguments.
    pub calls: &'static [c_long],
    /// Options of sockets (`SOL_SOCKET`) that it sets.
    pub options: &'static [c_int],
    /// Requests of `ioctl` that it makes.
    pub requests: &'static [c_ulong],
}

impl Duty {
    /// Nothing more: a service that only answers.
    pub const NONE: Self = Self { secrets: false, files: false, calls: &[], options: &[], requests: &[] };

    /// Whether a service of this duty may make the call of this number, with some arguments at least.
    pub fn permits(&self, call: c_long) -> bool {
        calls::permits(*self, call)
    }
}

/// The directories that a service works in, and what it does there. All other files are out of its reach. A directory
/// that is missing is made when the sandbox is entered.
#[derive(Clone, Debug, Default)]
pub struct Directories {
    access: BTreeMap<PathBuf, BitFlags<AccessFs>>,
    /// Those that only the service's user may enter, if they are made.
    private: BTreeSet<PathBuf>,
}

impl Directories {
    /// That of its socket, which also has the file whose lock makes the socket this service's alone.
    pub fn of_socket(socket: &Path) -> Self {
        let lock = AccessFs::MakeReg | AccessFs::ReadFile;
        Self::default().with(parent(socket), lock | AccessFs::MakeSock | AccessFs::RemoveFile)
    }

    /// That of a file which it makes, reads, writes and removes.
    #[must_use]
    pub fn with_file(self, file: &Path) -> Self {
        self.with(parent(file), files())
    }

    /// The same, where the names of all files there are read as well.
    #[must_use]
    pub fn with_listed_file(self, file: &Path) -> Self {
        self.with(parent(file), files() | AccessFs::ReadDir)
    }

    /// A directory whose files it makes, lists, reads, writes and removes, and which nobody else may enter.
    #[must_use]
    pub fn with_private(mut self, directory: &Path) -> Self {
        self.private.insert(directory.to_owned());
        self.with(directory.to_owned(), files() | AccessFs::ReadDir)
    }

    fn with(mut self, directory: PathBuf, access: BitFlags<AccessFs>) -> Self {
        *self.access.entry(directory).or_default() |= access;
        self
    }

    pub(super) fn access(&self) -> &BTreeMap<PathBuf, BitFlags<AccessFs>> {
        &self.access
    }

    /// The mode of a directory that is made.
    pub(super) fn mode(&self, directory: &Path) -> u32 {
        if self.private.contains(directory) { 0o700 } else { 0o755 }
    }
}

fn files() -> BitFlags<AccessFs> {
    AccessFs::MakeReg | AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::RemoveFile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_gives_what_is_done_there() {
        let of_socket = Directories::of_socket(Path::new("/run/a/socket"));
        assert_eq!(of_socket.access.keys().collect::<Vec<_>>(), [Path::new("/run/a")]);
        let directories = of_socket
            .with_file(Path::new("/run/b/counters"))
            .with_file(Path::new("record"))
            .with_private(Path::new("/var/keys"))
            .with_listed_file(Path::new("/var/count/number"));
        let names: Vec<&Path> = directories.access.keys().map(PathBuf::as_path).collect();
        assert_eq!(names, ["/run/a", "/run/b", "/var/count", "/var/keys", "."].map(Path::new));
        let access = |directory: &str| directories.access[Path::new(directory)];
        assert!(!access("/run/a").contains(AccessFs::WriteFile));
        assert!(access("/run/a").contains(AccessFs::MakeReg | AccessFs::ReadFile), "the lock");
        assert!(!access("/run/b").intersects(AccessFs::MakeSock | AccessFs::Execute));
        assert_eq!(["/var/keys", "/var/count"].map(|name| directories.mode(Path::new(name))), [0o700, 0o755]);
    }
}
