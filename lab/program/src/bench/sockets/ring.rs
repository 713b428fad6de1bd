//! Requirements of a program for sending through rings: a socket service in this process, and the preloaded library.

use crate::bench::error::BenchError;
use sidecore::core::policy::notify::Notify;
use sidecore_daemon::config::Sidecores;
use sidecore_measure::programs::ProgramError;
use sidecore_sockets_service::{Config, NotifyConfig, Sockets, SocketsConfig};
use sidecore_streams::rule::PathReason;
use sidecore_terminal::programs;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// File names as cargo builds it, and as it is installed.
const LIBRARY: [&str; 2] = ["libsidecore_preload.so", "sidecore-preload.so"];
/// Folders to search. The first is cargo's folder for dependencies of this program: it has the newest build.
const PLACES: [&str; 2] = ["deps", "."];

pub(super) fn library() -> Option<PathBuf> {
    programs::find(&LIBRARY, &PLACES)
}

pub(super) fn missing() -> BenchError {
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let remedy = format!("build it with cargo build{profile} -p sidecore-preload");
    ProgramError::Missing { what: format!("no {} beside this program", LIBRARY[0]), remedy }.into()
}

/// Limits above any measurement's need: connections, and MiB of memory for their rings.
const MAX_SOCKETS: u32 = 20_000;
const MAX_MIB: u32 = 1024;

pub(super) struct Ring<'l> {
    service: Sockets,
    library: &'l Path,
    _directory: TempDir,
}

impl<'l> Ring<'l> {
    pub(super) fn start(library: &'l Path, cpu: Option<usize>, waits: Notify) -> Result<Self, BenchError> {
        let directory = tempfile::Builder::new().prefix("sidecore-bench-").tempdir()?;
        let config = Config {
            socket: directory.path().join("sockets"),
            sidecores: Sidecores { cpus: cpu.into_iter().collect(), owned: waits == Notify::Spin },
            notify: NotifyConfig { service: waits },
            sockets: SocketsConfig { max_sockets: MAX_SOCKETS, max_mib: MAX_MIB, ..SocketsConfig::default() },
            ..Config::default()
        };
        Ok(Self { service: Sockets::start(&config)?, library, _directory: directory })
    }

    pub(super) fn environment(&self) -> [(&'static str, &OsStr); 2] {
        [("LD_PRELOAD", self.library.as_os_str()), ("SIDECORE_SOCKETS", self.service.socket().as_os_str())]
    }

    pub(super) fn silent(&self) -> Result<usize, BenchError> {
        let rows = sidecore_sockets::ask::rows(self.service.socket())?;
        Ok(rows.iter().filter(|row| row.open && row.why == PathReason::Row as u8 && row.waiting == 0).count())
    }

    pub(super) fn counted(&self) -> Result<[u64; 2], BenchError> {
        let rows = sidecore_sockets::ask::rows(self.service.socket())?;
        Ok(rows
            .iter()
            .filter(|row| row.gone_ns.is_none())
            .fold([0, 0], |[messages, sends], row| [messages + row.messages, sends + row.transfers + row.drains]))
    }
}
