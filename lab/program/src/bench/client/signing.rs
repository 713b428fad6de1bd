//! Signatures by OpenSSL in a closed loop: with its own code, or through the provider as a server uses it.

use super::{counts, wait_until};
use crate::baseline::{Kind, MAX_OUTPUT_BYTES, signer, verify};
use crate::bench::error::BenchError;
use crate::bench::task::Signatures;
use hdrhistogram::Histogram;
use sidecore::core::session::{Class, Op};
use sidecore_ipc::sys::clock;
use sidecore_libcrypto::{Context, Failure, Half, Job, Key, Operation, Ready, Step};
use sidecore_measure::experiment::Measured;
use sidecore_report::statistics::histogram;
use std::collections::HashMap;
use std::path::Path;

const PROVIDER: &str = "sidecore";
/// Restricts an imported key to this provider, because others could sign with it as well.
const OURS: &str = "provider=sidecore";
/// Input of each signature: a digest, or for Ed25519 a message of the same length.
pub(super) const INPUT: [u8; 32] = [0x5c; 32];
/// Longest wait for a job, ms. A longer wait means a lost job.
const MAX_WAIT_MS: i32 = 10_000;

pub(super) struct Provided {
    library: Context,
    keys: HashMap<String, Key>,
}

impl Provided {
    pub(super) fn load(configuration: &Path) -> Result<Self, Failure> {
        Ok(Self { library: Context::load(configuration, PROVIDER)?, keys: HashMap::new() })
    }

    fn key(&mut self, task: &Signatures, pkcs8: &[u8], kind: Kind) -> Result<(&Context, &Key), Failure> {
        if !self.keys.contains_key(&task.op) {
            let key = match &task.pem {
                Some(pem) => Key::from_pem(&self.library, Half::Private, pem, "")?,
                None => kind.read(&self.library, pkcs8, "")?,
            };
            self.keys.insert(task.op.clone(), key);
        }
        Ok((&self.library, &self.keys[&task.op]))
    }
}

/// Signs for the time of the task, and checks the last signatures with OpenSSL's own code.
pub(super) fn sign(provided: Option<&mut Provided>, task: &Signatures, pkcs8: &[u8]) -> Result<Measured, BenchError> {
    let kind = kind(&task.op)?;
    let own = Context::system()?;
    let own_key = kind.read(&own, pkcs8, "")?;
    let (library, key) = if task.provided {
        provided.ok_or(BenchError::State("no provider is loaded"))?.key(task, pkcs8, kind)?
    } else {
        (&own, &own_key)
    };
    let properties = if task.provided && task.pem.is_none() { OURS } else { "" };
    let signing = || -> Result<Signing, BenchError> {
        let signer = signer(library, key, properties, kind.digest, false)?;
        match signer.provider() {
            // The requested provider.
            Some(name) if name == PROVIDER || !task.provided => {
                Ok(Signing { signer, output: [0; MAX_OUTPUT_BYTES], length: 0 })
            }
            other => Err(BenchError::Provider { found: other, wanted: PROVIDER }),
        }
    };
    let (measured, signed) = if task.jobs > 1 {
        let job = |_| Ok(Job::new(signing()?, Signing::sign)?);
        asynchronous((0..task.jobs).map(job).collect::<Result<Vec<_>, BenchError>>()?, task)?
    } else {
        let mut signing = signing()?;
        let measured = one_by_one((task.start, task.ns), || Ok(signing.sign()?))?;
        (measured, vec![signing.signature().to_vec()])
    };
    let mut verifier = signer(&own, &own_key, "", kind.digest, true)?;
    signed.iter().try_for_each(|signature| verify(&mut verifier, signature, &INPUT))?;
    Ok(measured)
}

struct Signing {
    signer: Operation,
    output: [u8; MAX_OUTPUT_BYTES],
    length: usize,
}

impl Signing {
    /// Runs also on the small stack of a job.
    fn sign(&mut self) -> Result<(), Failure> {
        self.length = self.signer.run(&INPUT, &mut self.output)?;
        Ok(())
    }

    fn signature(&self) -> &[u8] {
        &self.output[..self.length]
    }
}

pub(super) fn one_by_one(
    (start, ns): (u64, u64),
    mut once: impl FnMut() -> Result<(), BenchError>,
) -> Result<Measured, BenchError> {
    once()?;
    let mut timing = Timing::begin(start);
    let mut began = timing.began;
    while began - timing.began < ns {
        once()?;
        began = timing.took_since(began);
    }
    Ok(timing.end(began))
}

fn asynchronous(mut jobs: Vec<Job<Signing>>, task: &Signatures) -> Result<(Measured, Vec<Vec<u8>>), BenchError> {
    let (everyone, mut ready) = (0..jobs.len(), Ready::default());
    ready.indices.extend(everyone.clone());
    // The first signatures open lanes and sessions.
    run_down(&mut jobs, &mut ready)?;
    ready.indices = everyone.collect();
    let mut timing = Timing::begin(task.start);
    let mut started = vec![timing.began; jobs.len()];
    let (mut awake, mut now) = (Vec::new(), timing.began);
    while now - timing.began < task.ns {
        awake.clear();
        for &index in &ready.indices {
            // A finished job begins its next signature, which is then in flight during the wait for others.
            let mut steps = 0;
            while steps < 2 && jobs[index].step()? == Step::Finished {
                started[index] = timing.took_since(started[index]);
                steps += 1;
            }
            if steps == 2 {
                awake.push(index);
            }
        }
        let patience = if awake.is_empty() { MAX_WAIT_MS } else { 0 };
        ready.wait_for_any(&jobs, patience)?;
        ready.indices.extend(&awake);
        if ready.indices.is_empty() {
            return Err(lost());
        }
        now = clock::now();
    }
    let measured = timing.end(now);
    ready.wait_for_any(&jobs, 0)?;
    run_down(&mut jobs, &mut ready)?;
    let signed = jobs.iter().filter_map(Job::subject).map(|signing| signing.signature().to_vec());
    Ok((measured, signed.collect()))
}

fn run_down(jobs: &mut [Job<Signing>], ready: &mut Ready) -> Result<(), BenchError> {
    loop {
        for &index in &ready.indices {
            jobs[index].step()?;
        }
        if !jobs.iter().any(Job::is_paused) {
            return Ok(());
        }
        ready.wait_for_any(jobs, MAX_WAIT_MS)?;
        if ready.indices.is_empty() {
            return Err(lost());
        }
    }
}

fn lost() -> BenchError {
    BenchError::NoSignature { seconds: MAX_WAIT_MS / 1000 }
}

struct Timing {
    began: u64,
    cpu: u64,
    latency: Histogram<u64>,
}

impl Timing {
    fn begin(start: u64) -> Self {
        let latency = histogram();
        wait_until(start);
        Self { began: clock::now(), cpu: clock::process_cpu(), latency }
    }

    fn took_since(&mut self, began: u64) -> u64 {
        let now = clock::now();
        self.latency.saturating_record((now - began).max(1));
        now
    }

    fn end(self, now: u64) -> Measured {
        let cpu_ns = clock::process_cpu() - self.cpu;
        let (ops, ns, began) = (self.latency.len(), now - self.began, self.began);
        Measured { ops, ns, began, cpu_ns, whole: counts(&self.latency), ..Measured::default() }
    }
}

fn kind(op: &str) -> Result<Kind, BenchError> {
    let class = Class::from_name(op).filter(|class| class.op() == Op::Sign);
    let kind = class.and_then(|class| Kind::of(class.algorithm()));
    let fits = |kind: &Kind| kind.digest.is_none_or(|(_, bytes)| bytes == INPUT.len());
    kind.filter(fits).ok_or_else(|| BenchError::NoSigning(op.to_owned()))
}

pub(super) fn check(op: &str, pkcs8: &[u8], digest: &[u8], signature: &[u8]) -> Result<(), BenchError> {
    let (kind, openssl) = (kind(op)?, Context::system()?);
    let key = kind.read(&openssl, pkcs8, "")?;
    Ok(verify(&mut signer(&openssl, &key, "", kind.digest, true)?, signature, digest)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::private_key;

    #[test]
    fn openssl_s_own_signatures_verify_with_and_without_jobs() {
        for (op, jobs) in [("rsa-1024-sign", 1), ("p-256-sign", 1), ("ed25519-sign", 1), ("ed25519-sign", 4)] {
            let task = Signatures { op: op.to_owned(), provided: false, pem: None, jobs, start: 0, ns: 1_000_000 };
            let measured = sign(None, &task, &private_key(op).unwrap()).unwrap();
            assert!(measured.ops > 0 && measured.whole.iter().map(|(_, count)| count).sum::<u64>() == measured.ops);
        }
    }

    #[test]
    fn without_the_provider_nothing_is_signed_by_it() {
        let op = "p-256-sign".to_owned();
        let task = Signatures { op, provided: true, pem: None, jobs: 1, start: 0, ns: 1_000_000 };
        let error = sign(None, &task, &private_key("p-256-sign").unwrap()).unwrap_err().to_string();
        assert!(error.contains("no provider"), "{error}");
    }
}
