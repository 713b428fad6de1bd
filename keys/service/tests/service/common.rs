//! A service for one test, in a directory of its own.

use sidecore::client::{Admin, Client, Options};
use sidecore::config::Config;
use sidecore::service::Service;
use sidecore_testing::skipped;
use std::ops::Deref;
use tempfile::TempDir;

pub(crate) struct Running {
    service: Service,
    _directory: TempDir,
}

impl Deref for Running {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

pub(crate) fn start(config: Config) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(Config { socket: directory.path().join("socket"), ..config }).unwrap();
    Running { service, _directory: directory }
}

pub(crate) fn options(service: &Service) -> Options {
    Options { socket: service.socket().to_owned(), name: "test".to_owned(), ..Options::default() }
}

pub(crate) fn administer(service: &Service) -> Admin {
    Admin::connect(&options(service)).unwrap()
}

pub(crate) fn connect(service: &Service) -> Client {
    Client::connect(&options(service)).unwrap()
}

/// Whether this is root. If not, the part that needs root is reported as skipped.
pub(crate) fn root_or_skipped(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skipped(&format!("only root can: {what}"));
    }
    root
}
