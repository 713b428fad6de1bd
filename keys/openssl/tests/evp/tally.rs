//! Results of vectors, counted.

use sidecore_client::keyops::failure::Reason;
use sidecore_libcrypto::Failure;
use std::collections::BTreeMap;

pub(crate) enum VectorError {
    Failure(Failure),
    NotOffered(&'static str),
    Wrong(String),
}

impl From<Failure> for VectorError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Beginnings of errors for operations that are not offered: the provider's, the store's, and OpenSSL's own.
const CLEAN: [&str; 6] = [
    "not supported by the sidecore service",
    "keys of this kind are not supported",
    "unsupported",
    "operation not supported for this keytype",
    "command not supported",
    "provider signature not supported",
];

#[derive(Default)]
pub(crate) struct Tally {
    rows: BTreeMap<String, Row>,
    wrong: Vec<String>,
}

#[derive(Default)]
struct Row {
    right: usize,
    failed: usize,
    declined: BTreeMap<String, usize>,
}

impl Tally {
    pub(crate) fn count(&mut self, set: &str, vector: &str, failure: Option<&str>, outcome: Result<(), VectorError>) {
        let row = self.rows.entry(set.to_owned()).or_default();
        match (outcome, failure.is_some()) {
            (Err(VectorError::Wrong(_)), true) if failure == Some("SIGNATURE_MISMATCH") => row.failed += 1,
            (Ok(()), false) => row.right += 1,
            (Err(VectorError::Failure(failure)), true) if !is_broken(&failure) => row.failed += 1,
            (Err(VectorError::NotOffered(_)), true) => row.failed += 1,
            (Ok(()), true) => self.wrong.push(format!("{set} {vector}: succeeded, and should not")),
            (Err(VectorError::Failure(failure)), false) if is_clean(&failure) => {
                let reason = failure.reasons.into_iter().next().unwrap_or_default();
                *row.declined.entry(reason).or_default() += 1;
            }
            (Err(VectorError::NotOffered(what)), false) => {
                *row.declined.entry(format!("not offered: {what}")).or_default() += 1;
            }
            (Err(VectorError::Failure(failure)), _) => self.wrong.push(format!("{set} {vector}: {failure}")),
            (Err(VectorError::Wrong(what)), _) => self.wrong.push(format!("{set} {vector}: {what:.300}")),
        }
    }

    /// Fails on a wrong result, or if fewer vectors were right than required.
    pub(crate) fn is_complete(&self, least: &[(&str, usize)]) {
        for (set, row) in &self.rows {
            let declined: usize = row.declined.values().sum();
            println!("{set}: {} right, {} failed as they should, {declined} declined", row.right, row.failed);
            for (reason, number) in &row.declined {
                println!("    {number:4} {reason:.200}");
            }
        }
        let wrong = &self.wrong;
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        for (set, least) in least {
            let right = self.rows.get(*set).map_or(0, |row| row.right);
            assert!(right >= *least, "{set}: {right} right, at least {least} expected");
        }
    }
}

pub(crate) fn is_clean(failure: &Failure) -> bool {
    let clean = |text: &String| CLEAN.iter().any(|clean| text.starts_with(clean));
    failure.reasons.iter().any(clean)
}

fn is_broken(failure: &Failure) -> bool {
    let broken =
        [Reason::Service, Reason::Absent, Reason::Limit, Reason::Late].map(|reason| reason.text().to_string_lossy());
    failure.reasons.iter().any(|text| broken.iter().any(|broken| text.starts_with(broken.as_ref())))
}
