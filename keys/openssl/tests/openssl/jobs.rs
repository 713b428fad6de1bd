//! What programs find in the wait contexts of their asynchronous jobs, and threads that must not wait for themselves.

use crate::common::Site;
use crate::programs::{made, says};
use std::process::Command;

fn holds(site: &Site, cases: &[&str]) {
    let program = made(site, "jobs");
    for case in cases {
        let said = says(site, Command::new("timeout").args(["-k", "5", "100"]).arg(&program), &[case, "p256.pem"]);
        assert_eq!(said, "held", "{case}");
    }
}

#[test]
fn a_job_that_ends_without_a_pause_leaves_no_descriptor() {
    let mut site = Site::with(&["p256"]).with_one_lane();
    holds(&site, &["one-after-another", "may-not-pause", "has-no-files", "has-high-numbers", "has-a-connection"]);
    // The key is gone, and then the service.
    site.admin().keys(sidecore::keys::KeyCommand::Delete { name: "p256".to_owned() }).unwrap();
    holds(&site, &["fails"]);
    site.service = None;
    holds(&site, &["fails"]);
}

#[test]
fn a_thread_does_not_wait_for_lanes_that_its_own_paused_jobs_have() {
    let site = Site::with(&["p256"]).with_one_lane();
    holds(&site, &["second-may-not-pause", "second-has-no-files", "second-has-high-numbers", "second-is-no-job"]);
}

#[test]
fn abandoned_jobs_keep_no_lane_and_no_descriptor() {
    let site = Site::with(&["p256"]);
    holds(&site, &["abandons-at-once", "abandons-later"]);
    // Its answer has come, so the one lane is used again each time.
    holds(&site.with_one_lane(), &["abandons-later"]);
}

#[test]
fn jobs_block_their_thread_after_so_many_were_abandoned_that_their_memory_counts() {
    holds(&Site::with(&["p256"]), &["abandons-too-many"]);
}
