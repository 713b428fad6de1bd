//! Signatures by OpenSSL in a closed loop: with its own code, or through the provider as a server would ask for them.

use super::{LONGEST, counts, text, wait_until};
use crate::bench::task::{Measured, Signatures};
use crate::ffi::openssl::jobs_are_possible;
use crate::ffi::openssl::{Api, Context, Failure, Job, Jobs, Key, KeyKind, MessageVerifier, Signer, Step, Verifier};
use hdrhistogram::Histogram;
use sidecore::sys::clock;
use std::collections::HashMap;
use std::ffi::CStr;
use std::path::Path;

/// Name of the provider.
const PROVIDER: &CStr = c"sidecore";
/// For an imported key, with which more than one provider could sign.
const OURS: &CStr = c"provider=sidecore";
/// What is signed: a digest, or for Ed25519 a message of the same length.
pub(super) const INPUT: [u8; 32] = [0x5c; 32];
/// Longest wait for a job, ms: then it is taken for lost.
const PATIENCE: i32 = 10_000;

/// OpenSSL as this process uses it, for as long as it runs.
pub(super) struct Signing {
    api: &'static Api,
    /// Keys of the provider's context, by operation. Dropped before it.
    keys: HashMap<String, Key<'static>>,
    library: Option<Context<'static>>,
}

impl Signing {
    pub(super) fn new() -> Result<Self, String> {
        // The process has one OpenSSL and ends with it.
        let api: &'static Api = Box::leak(Box::new(Api::load().map_err(text)?));
        Ok(Self { api, keys: HashMap::new(), library: None })
    }

    /// Loads the provider as that configuration file says.
    pub(super) fn provide(&mut self, configuration: &Path) -> Result<(), String> {
        self.keys.clear();
        self.library = None;
        self.library = Some(Context::configured(self.api, configuration, PROVIDER).map_err(text)?);
        Ok(())
    }

    /// Signs for as long as was asked, and checks the last signatures with OpenSSL's own code.
    pub(super) fn run(&mut self, task: &Signatures, pkcs8: &[u8]) -> Result<Measured, String> {
        let (kind, digest) = kind(&task.op).ok_or_else(|| format!("no signing operation {:?}", task.op))?;
        let own = Key::from_pkcs8(self.api, pkcs8, kind).map_err(text)?;
        if task.provided && !self.keys.contains_key(&task.op) {
            let key = self.provided_key(task, pkcs8, kind)?;
            self.keys.insert(task.op.clone(), key);
        }
        let key = if task.provided { &self.keys[&task.op] } else { &own };
        let (library, properties) =
            if task.provided { (self.library.as_ref(), task.pem.is_none().then_some(OURS)) } else { (None, None) };
        let signer = || {
            let signer = Signer::new(key, library, properties, digest, &INPUT).map_err(text)?;
            if task.provided { by_the_provider(&signer).map(|()| signer) } else { Ok(signer) }
        };
        let (measured, signatures) = if task.jobs > 1 {
            if !jobs_are_possible(self.api) {
                return Err("this OpenSSL has no asynchronous jobs".to_owned());
            }
            let jobs = (0..task.jobs).map(|_| Job::new(signer()?).map_err(text)).collect::<Result<Vec<_>, _>>()?;
            asynchronous(Jobs::new(jobs), task)?
        } else {
            synchronous(signer()?, task)?
        };
        signatures.iter().try_for_each(|signature| verify(&own, digest, signature)).map_err(text)?;
        Ok(measured)
    }

    fn provided_key(&self, task: &Signatures, pkcs8: &[u8], kind: KeyKind) -> Result<Key<'static>, String> {
        let library = self.library.as_ref().ok_or("no provider is loaded")?;
        let key = match &task.pem {
            Some(pem) => Key::from_pem_in(library, pem.as_bytes(), kind),
            None => Key::from_pkcs8_in(library, pkcs8, kind),
        };
        key.map_err(text)
    }
}

/// Fails if it is not the provider that signs, as was asked.
fn by_the_provider(signer: &Signer<'_>) -> Result<(), String> {
    match signer.provider().map_err(text)? {
        name if name.as_bytes() == PROVIDER.to_bytes() => Ok(()),
        name => Err(format!("the provider {name:?} would sign, not {PROVIDER:?}")),
    }
}

/// One signature after the other.
fn synchronous(mut signer: Signer<'_>, task: &Signatures) -> Result<(Measured, Vec<Vec<u8>>), String> {
    signer.sign().map_err(text)?;
    let mut timing = Timing::begin(task.start);
    let mut began = timing.began;
    while began - timing.began < task.ns {
        signer.sign().map_err(text)?;
        let now = clock::now();
        timing.latency.saturating_record((now - began).max(1));
        began = now;
    }
    Ok((timing.end(began), vec![signer.signature().to_vec()]))
}

/// As many signatures at a time as there are jobs.
fn asynchronous(mut jobs: Jobs<'_>, task: &Signatures) -> Result<(Measured, Vec<Vec<u8>>), String> {
    let everyone: Vec<usize> = (0..jobs.len()).collect();
    let mut signatures = vec![Vec::new(); jobs.len()];
    // The first ones open lanes and sessions.
    let mut started = vec![0; jobs.len()];
    let mut warm = Timing::begin(0);
    run_down(&mut jobs, everyone.clone(), &mut started, &mut warm)?;
    let mut timing = Timing::begin(task.start);
    started.fill(timing.began);
    let (mut ready, mut awake, mut now) = (everyone, Vec::new(), timing.began);
    while now - timing.began < task.ns {
        awake.clear();
        for &index in &ready {
            // What is finished begins its next signature, so that it is under way while others are waited for.
            let mut steps = 0;
            while steps < 2 && jobs.step(index).map_err(text)? == Step::Finished {
                now = clock::now();
                timing.latency.saturating_record((now - started[index]).max(1));
                started[index] = now;
                steps += 1;
            }
            if steps == 2 {
                awake.push(index);
            }
        }
        let patience = if awake.is_empty() { PATIENCE } else { 0 };
        jobs.wait(patience, &mut ready).map_err(text)?;
        ready.extend(&awake);
        if ready.is_empty() {
            return Err(lost());
        }
        now = clock::now();
    }
    let measured = timing.end(now);
    let mut rest = Timing::begin(0);
    jobs.wait(0, &mut ready).map_err(text)?;
    run_down(&mut jobs, ready, &mut started, &mut rest)?;
    for (index, signature) in signatures.iter_mut().enumerate() {
        *signature = jobs.signer(index).map(|signer| signer.signature().to_vec()).unwrap_or_default();
    }
    Ok((measured, signatures))
}

/// Steps those jobs, and then all that are paused, until each has finished once.
fn run_down(jobs: &mut Jobs<'_>, first: Vec<usize>, started: &mut [u64], timing: &mut Timing) -> Result<(), String> {
    let mut ready = first;
    loop {
        for &index in &ready {
            if jobs.step(index).map_err(text)? == Step::Finished {
                timing.latency.saturating_record((clock::now() - started[index]).max(1));
            }
        }
        if jobs.paused() == 0 {
            return Ok(());
        }
        jobs.wait(PATIENCE, &mut ready).map_err(text)?;
        if ready.is_empty() {
            return Err(lost());
        }
    }
}

fn lost() -> String {
    format!("no signature came back within {} s", PATIENCE / 1000)
}

/// A measurement in progress.
pub(super) struct Timing {
    pub(super) began: u64,
    cpu: u64,
    pub(super) latency: Histogram<u64>,
}

impl Timing {
    pub(super) fn begin(start: u64) -> Self {
        let latency = Histogram::new_with_bounds(1, LONGEST, 3).expect("constants that the library allows");
        wait_until(start);
        Self { began: clock::now(), cpu: clock::process_cpu(), latency }
    }

    pub(super) fn end(self, now: u64) -> Measured {
        let cpu_ns = clock::process_cpu() - self.cpu;
        let (ops, ns, began) = (self.latency.len(), now - self.began, self.began);
        Measured { ops, ns, began, cpu_ns, whole: counts(&self.latency), ..Measured::default() }
    }
}

/// The kind of key of a signing operation, and the digest whose values it signs; none: messages.
fn kind(op: &str) -> Option<(KeyKind, Option<&'static CStr>)> {
    Some(match op {
        "rsa-1024-sign" => (KeyKind::Rsa(1024), Some(c"SHA256")),
        "rsa-2048-sign" => (KeyKind::Rsa(2048), Some(c"SHA256")),
        "rsa-3072-sign" => (KeyKind::Rsa(3072), Some(c"SHA256")),
        "rsa-4096-sign" => (KeyKind::Rsa(4096), Some(c"SHA256")),
        "p-256-sign" => (KeyKind::P256, Some(c"SHA256")),
        "ed25519-sign" => (KeyKind::Ed25519, None),
        _ => return None,
    })
}

/// Checks a signature of the input by the key of that operation, with OpenSSL's own code.
pub(super) fn check(op: &str, pkcs8: &[u8], signature: &[u8]) -> Result<(), String> {
    let (kind, digest) = kind(op).ok_or_else(|| format!("no signing operation {op:?}"))?;
    let api = Api::load().map_err(text)?;
    let key = Key::from_pkcs8(&api, pkcs8, kind).map_err(text)?;
    verify(&key, digest, signature).map_err(text)
}

fn verify(key: &Key<'_>, digest: Option<&CStr>, signature: &[u8]) -> Result<(), Failure> {
    match digest {
        Some(digest) => Verifier::new(key, digest)?.verify(signature, &INPUT),
        None => MessageVerifier::new(key)?.verify(signature, &INPUT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::client::private_key;

    #[test]
    fn openssl_s_own_signatures_verify_with_and_without_jobs() {
        let mut signing = Signing::new().unwrap();
        for (op, jobs) in [("rsa-1024-sign", 1), ("p-256-sign", 1), ("ed25519-sign", 1), ("ed25519-sign", 4)] {
            let task = Signatures { op: op.to_owned(), provided: false, pem: None, jobs, start: 0, ns: 1_000_000 };
            let measured = signing.run(&task, &private_key(op).unwrap()).unwrap();
            assert!(measured.ops > 0 && measured.whole.iter().map(|(_, count)| count).sum::<u64>() == measured.ops);
        }
    }

    #[test]
    fn without_the_provider_nothing_is_signed_by_it() {
        let mut signing = Signing::new().unwrap();
        let op = "p-256-sign".to_owned();
        let task = Signatures { op, provided: true, pem: None, jobs: 1, start: 0, ns: 1_000_000 };
        let error = signing.run(&task, &private_key("p-256-sign").unwrap()).unwrap_err();
        assert!(error.contains("no provider"), "{error}");
    }
}
