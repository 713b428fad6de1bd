//! Cost of a TLS handshake in `HAProxy`. One process continues with other handshakes while the service signs, so it
//! fills batches.

use super::error::BenchError;
use super::scenario::{SERVICES, Scenario, Settings};
use super::web::Crowd;
use crate::report::{Outcome, section};
use sidecore_measure::programs::need;
use sidecore_measure::progress::Progress;
use sidecore_measure::servers::Program;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "haproxy",
    "TLS handshakes of `HAProxy` with its key in a file and in the service; not among all",
    measure,
    &[section(
    "haproxy",
    "HAProxy: many handshakes in one process",
    "Full TLS 1.3 handshakes a second of CPU time of HAProxy and service together, against the same HAProxy with its key in \
     a file. With the key in the service it goes on with other handshakes while one is signed for.",
)],
).ops(ops).alone(SERVICES);

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

fn ops() -> Vec<&'static str> {
    vec![CROWD.op]
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    if let Err(why) = need(&["haproxy", "openssl"], "apt-get install haproxy openssl") {
        return Ok(Outcome::left_out(format!("haproxy: {why}")));
    }
    CROWD.measure(settings, progress)
}
