//! The provider as a module that OpenSSL loads.

use crate::library;
use std::path::PathBuf;
use std::sync::OnceLock;

pub(crate) fn path() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| library::built("sidecore-openssl")).clone()
}
