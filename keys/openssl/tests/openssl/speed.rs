//! `openssl speed` with its own keys, which it imports: synchronous, and with asynchronous jobs.

use crate::common::Site;
use sidecore_counters::{ClassCounter, Snapshot, counters_beside};
use std::fs;
use std::process::Command;

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

#[test]
fn jobs_go_on_under_every_policy_of_waiting() {
    let site = Site::with(&[]);
    let cnf = fs::read_to_string(site.path("preferred.cnf")).unwrap();
    let mut before = requests(&site);
    for policy in ["spin", "park", "timer(1ms)", "coalesce(4,100us)", "break-even", "learn"] {
        fs::write(site.path("preferred.cnf"), cnf.replace("#notify = park", &format!("notify = {policy}"))).unwrap();
        let said = site.preferred(&["speed", "-seconds", "1", "-elapsed", "-async_jobs", "4", "ed25519"]);
        assert!(!said.err.contains("error"), "{policy}: {}", said.err);
        let after = requests(&site);
        assert!(after > before + 100, "{policy}: {} requests", after - before);
        before = after;
    }
    fs::write(site.path("preferred.cnf"), cnf.replace("#notify = park", "notify = sometimes")).unwrap();
    let told = site.preferred(&["storeutl", "sidecore:name"]).err;
    assert!(told.contains("notify = sometimes"), "{told}");
}

#[test]
fn jobs_do_not_overflow_what_select_takes() {
    // `speed` waits for its jobs by `select`, so numbers matter.
    let site = Site::with(&[]);
    let before = requests(&site);
    let speed = "for ((i = 0; i < 1100; i++)); do exec {file}</dev/null; done; \
                 exec openssl speed -seconds 1 -elapsed -async_jobs 8 ed25519";
    let output = Command::new("timeout")
        .args(["-k", "5", "100", "bash", "-c", &format!("ulimit -S -n 4096 && {speed}")])
        .current_dir(site.path(""))
        .env("OPENSSL_CONF", "preferred.cnf")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !told.contains("error"), "{} {told}", output.status);
    assert!(requests(&site) > before + 100, "{told}");
}

fn requests(site: &Site) -> u64 {
    let snapshot = Snapshot::read(&counters_beside(&site.path("socket"))).unwrap();
    snapshot.classes.iter().map(|class| class.get(ClassCounter::Requests)).sum()
}
