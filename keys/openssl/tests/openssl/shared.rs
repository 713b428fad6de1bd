//! Programs whose processes share libcrypto's memory: one uses a key that another one loaded.

use crate::common::Site;
use crate::programs::{made, says};
use std::process::Command;

#[test]
fn a_key_that_another_process_loaded_signs_and_no_other_does() {
    let site = Site::with(&["p256", "rsa2048", "ed25519", "p384"]);
    let program = made(&site, "shared");
    for (own, others) in [("p256", "p384"), ("p384", "p256"), ("p256", "rsa2048"), ("rsa2048", "p256")] {
        for suffix in ["pem", "old.pem"] {
            let arguments = [own, others].map(|key| format!("{key}.{suffix}"));
            let public = format!("{others}.pub");
            let said = says(&site, &mut Command::new(&program), &[&arguments[0], &arguments[1], &public]);
            assert_eq!(said, "right\nown", "{arguments:?}");
        }
    }
}
