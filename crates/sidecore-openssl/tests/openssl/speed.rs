//! `openssl speed` with its own keys, which it imports: synchronous, and with asynchronous jobs.

use crate::common::Site;
use sidecore::config::counters_beside;
use sidecore::counters::Snapshot;

#[test]
fn speed_runs_with_and_without_jobs() {
    let site = Site::with(&[]);
    let mut before = requests(&site);
    for algorithm in ["rsa1024", "rsa4096", "ecdsap256", "ecdsap384", "ed25519"] {
        for jobs in [&[][..], &["-async_jobs", "8"]] {
            let said = site.preferred(&[&["speed", "-seconds", "1", "-elapsed"][..], jobs, &[algorithm]].concat());
            assert!(!said.err.contains("error"), "{algorithm} {jobs:?}: {}", said.err);
            let after = requests(&site);
            assert!(after > before, "{algorithm} {jobs:?}: the service did nothing");
            before = after;
        }
    }
}

/// Requests that the service has done by now, as its counters say.
fn requests(site: &Site) -> u64 {
    let snapshot = Snapshot::read(&counters_beside(&site.path("socket"))).unwrap();
    snapshot.classes.iter().map(|class| class.requests).sum()
}
