//! The two versions: this one, and one that another tree has built.

use crate::library;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory with programs and libraries of the old version.
const OLD: &str = "SIDECORE_UPGRADE_OLD";
/// The lane layout of the old version, if it is one that this version refuses.
const PLANTED: &str = "SIDECORE_UPGRADE_PLANTED";
const LIBRARIES: [&str; 3] = ["sidecore-openssl", "sidecore-pkcs11", "sidecore-c"];

pub(super) struct Version {
    pub(super) name: &'static str,
    directory: PathBuf,
}

impl Version {
    pub(super) fn has(&self, name: &str) -> bool {
        self.directory.join(name).is_file()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        let file = self.directory.join(name);
        assert!(file.is_file(), "{} is missing: start this test by cargo xtask upgrade", file.display());
        file
    }
}

pub(super) fn is_upgrade() -> bool {
    std::env::var_os(OLD).is_some()
}

pub(super) fn planted() -> Option<u32> {
    std::env::var(PLANTED).ok().map(|number| number.parse().unwrap())
}

/// The old one first.
pub(super) fn versions() -> [Version; 2] {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        for package in LIBRARIES {
            library::built(package);
        }
        library::file("sidecore-agent", "sidecore-agent");
    });
    let new = Path::new(env!("CARGO_BIN_EXE_sidecore")).parent().unwrap().to_owned();
    let old = std::env::var_os(OLD).map_or_else(|| new.clone(), PathBuf::from);
    [Version { name: "old", directory: old }, Version { name: "new", directory: new }]
}
