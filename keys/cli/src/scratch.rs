//! The directory of one command.

use nix::unistd::mkdtemp;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf, absolute};

/// A directory that only this user may enter. Dropping it removes it with all in it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        // Programs that are told of it may change their directory.
        let parent = absolute(env::temp_dir())?;
        Ok(Self(mkdtemp(&parent.join("sidecore-XXXXXX"))?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system, which cleans directories of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_directory_is_this_users_and_ends_with_its_value() {
        let (one, other) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        let file = one.path().join("file");
        fs::write(&file, "").unwrap();
        drop(one);
        assert!(!file.exists() && other.path().exists());
    }
}
