//! Cost of a TLS handshake in `HAProxy`. One process continues with other handshakes while the service signs, so it
//! fills batches.

use super::programs::need;
use super::web::{Crowd, Program};
use super::{BenchError, Outcome, Settings};
use crate::progress::Progress;

/// Clients for two batches: during the signatures of one batch, the handshakes of the next begin.
const CROWD: Crowd = Crowd {
    scenario: "haproxy",
    program: Program::HaProxy,
    op: "rsa-2048-sign",
    clients: 16,
    reach: 1.25,
    note: "haproxy: full TLS 1.3 handshakes by 16 processes openssl s_time -new on the last core, which the device shares with them; \
           HAProxy, one process with one thread, and the sidecore are on the first. With its key in the service it has \
           ssl-mode-async. All hops park. The ratio is that of handshakes a second of CPU time of HAProxy and service together.",
};

pub(super) fn ops() -> Vec<&'static str> {
    vec![CROWD.op]
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    if let Err(why) = need(&["haproxy", "openssl"], "apt-get install haproxy openssl") {
        return Ok(Outcome::left_out(format!("haproxy: {why}")));
    }
    CROWD.measure(settings, progress)
}
