//! A service with stored keys, OpenSSL's configuration for the provider, and client processes that sign.

use crate::baseline::private_key;
use crate::bench::error::BenchError;
use crate::bench::experiment::{Counted, Run};
use crate::bench::task::{Signatures, Task};
use crate::bench::testbed::{Plan, Testbed};
use sidecore::engine::crypto::Secret;
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand};
use sidecore_measure::experiment::Measured;
use sidecore_measure::programs::service_cpu;
use sidecore_measure::provider::{module, openssl_configuration};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Time until the service has copied the clients' reports to the counter file.
const REPORTED: Duration = Duration::from_millis(270);

/// The file that names the stored key of an operation. `None`: the store does not accept this kind of key.
pub(in crate::bench) fn pem(op: &str) -> Result<Option<String>, BenchError> {
    Ok(if op.starts_with("rsa-1024") { None } else { Some(Uri::new(op)?.to_pem()) })
}

impl Testbed {
    /// Without keys of kinds that the store refuses.
    pub(in crate::bench) fn with_keys(plan: &Plan, ops: &[&str]) -> Result<Self, BenchError> {
        let module = module()?;
        let mut testbed = Self::without_clients(plan)?;
        let mut admin = testbed.admin()?;
        for op in ops {
            if pem(op)?.is_some() {
                let pkcs8 = Secret::new(private_key(op)?);
                admin.keys(KeyCommand::Import { name: (*op).to_owned(), pkcs8, acl: Acl::default() })?;
            }
        }
        let configuration = testbed.directory().join("openssl.cnf");
        fs::write(&configuration, openssl_configuration(&module, testbed.socket()))?;
        testbed.add_clients(plan.clients, &Task::Provide { configuration })?;
        Ok(testbed)
    }

    pub(in crate::bench) fn that_imports(socket: &Path, clients: usize) -> Result<Self, BenchError> {
        let module = module()?;
        let mut testbed = Self::beside_without_clients(socket)?;
        let configuration = testbed.directory().join("openssl.cnf");
        fs::write(&configuration, openssl_configuration(&module, &socket.canonicalize()?))?;
        testbed.add_clients(clients, &Task::Provide { configuration })?;
        Ok(testbed)
    }

    pub(in crate::bench) fn provided(
        &mut self,
        op: &str,
        clients: usize,
        jobs: u32,
        ns: u64,
    ) -> Result<Run, BenchError> {
        if self.is_beside() {
            return Ok(Run::of(self.sign(op, clients, jobs, true, ns)?));
        }
        self.spread(clients, false)?;
        let before = self.counters()?;
        let cpu = service_cpu()?;
        let measured = self.sign(op, clients, jobs, true, ns)?;
        let service_cpu = service_cpu()?.saturating_sub(cpu);
        let counted = self.counters()?.since(&before);
        thread::sleep(REPORTED);
        let reported = self.counters()?.since(&before);
        Ok(Run::of(measured).counted(Counted::with_reports(&counted, &reported, service_cpu)))
    }

    /// The processes may also use the sidecore's core, which is available to them in any case.
    pub(in crate::bench) fn own(&mut self, op: &str, clients: usize, ns: u64) -> Result<Run, BenchError> {
        self.spread(clients, true)?;
        Ok(Run::of(self.sign(op, clients, 1, false, ns)?))
    }

    fn sign(
        &mut self,
        op: &str,
        clients: usize,
        jobs: u32,
        provided: bool,
        ns: u64,
    ) -> Result<Vec<Measured>, BenchError> {
        let (op, pem) = (op.to_owned(), if self.is_beside() { None } else { pem(op)? });
        self.together(clients, |start| {
            Task::Sign(Signatures { op: op.clone(), provided, pem: pem.clone(), jobs, start, ns })
        })
    }
}
