//! A web server that terminates TLS, with its key in a file or in a service: cost of a full handshake.

mod crowd;
mod handshakes;

use super::error::BenchError;
use super::experiment::{Better, Counted, Run};
use super::keys::setup::pem;
use super::testbed::Testbed;
use crate::baseline::private_key;
pub(super) use crowd::Crowd;
pub(super) use handshakes::Load;
use sidecore_ipc::sys::clock;
use sidecore_measure::experiment::Measured;
use sidecore_measure::programs::{certify, service_cpu, write_pem};
use sidecore_measure::servers::{Identity, Program, WebServer};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const BASELINE: &str = "key in a file";

pub(super) fn identity(directory: &Path, op: &str) -> Result<(PathBuf, PathBuf), BenchError> {
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| directory.join(name));
    write_pem(&private_key(op)?, &key)?;
    certify(&key, &certificate)?;
    Ok((certificate, key))
}

pub(super) fn provided(
    testbed: &Testbed,
    program: Program,
    op: &str,
    certificate: &Path,
) -> Result<WebServer, BenchError> {
    let directory = testbed.directory();
    let (key, configuration) = (directory.join("stored.pem"), directory.join("openssl.cnf"));
    fs::write(&key, pem(op)?.ok_or_else(|| BenchError::NotStored(op.to_owned()))?)?;
    let identity = Identity { certificate, key: &key, openssl: Some(&configuration) };
    Ok(WebServer::start(program, &directory.join("provided"), &identity, testbed.pinning.client(0))?)
}

/// Idle services use no CPU time, so that of all services counts.
pub(super) fn run(server: &WebServer, load: &Load) -> Result<Run, BenchError> {
    counted(server, load, |service_ns| Ok(Counted::cpu(service_ns)))
}

/// The same; `count` converts the services' CPU time, ns.
fn counted(
    server: &WebServer,
    load: &Load,
    count: impl FnOnce(u64) -> Result<Counted, BenchError>,
) -> Result<Run, BenchError> {
    let (own, service, began) = (server.cpu()?, service_cpu()?, clock::now());
    let ops = load.handshakes(server.port)?;
    let ns = clock::now() - began;
    let cpu_ns = server.cpu()?.saturating_sub(own);
    let service_ns = service_cpu()?.saturating_sub(service);
    let per_cpu_s = ops as f64 * 1e9 / (cpu_ns + service_ns).max(1) as f64;
    let measured = Measured { ops, ns, began, cpu_ns, ..Measured::default() };
    let run = Run::of(vec![measured]).counted(count(service_ns)?);
    Ok(run.compared_by("handshakes_per_cpu_s", Better::More, per_cpu_s))
}
