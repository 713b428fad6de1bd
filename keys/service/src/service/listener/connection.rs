//! A connection, and its parts: a lane, a key, a gateway; and its rest after its end.

use super::transfer::Transfers;
use crate::config::DeviceConfig;
use crate::control::{Refused, Token};
use crate::device::Control;
use crate::service::command::ClientKey;
use crate::service::jobs::MadeKey;
use crate::service::reaper::ClosedConnection;
use crate::service::sessions::Sessions;
use crate::shm::LaneMemory;
use crate::spec::KeyToken;
use sidecore_core::layout::Layout;
use sidecore_core::time::Nanos;
use sidecore_counters::{LaneBlock, LaneCounter};
use sidecore_daemon::sys::peer::Credentials;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) client: ClientKey,
    /// The sender of its first message, and the only one permitted for all others.
    pub(super) speaker: Option<Credentials>,
    pub(super) polled: bool,
    /// An answer is due, and nothing more is read until it is sent.
    pub(super) busy: bool,
    pub(super) attached: Option<Attached>,
    /// The poller number of its watched process: the process number may be reused after its end.
    pub(super) process: Option<u64>,
    pub(super) own: Option<OwnKey>,
    pub(super) chain: Option<Chain>,
    pub(super) transfers: Option<Box<Transfers>>,
}

/// Certificates for a key, of which more follow.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) name: String,
    pub(super) certificates: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct OwnKey {
    /// `None`: it is being made.
    pub(super) token: Option<KeyToken>,
}

/// What a token of a made key stands for, until the connection that had it made ends.
#[derive(Debug)]
pub(super) enum MadeState {
    Live(MadeKey),
    /// Stored under this name. The token serves no more: what it could do is decided by the stored key's users and terms.
    Stored(String),
}

/// An ended connection, which still counts until its objects are closed.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) client: ClientKey,
    /// Present until its sidecore has dropped its lane, if it had one.
    pub(super) closed: Option<ClosedConnection>,
    pub(super) lane: Option<EndingLane>,
}

#[derive(Debug)]
pub(super) struct EndingLane {
    pub(super) session_bytes: u64,
    pub(super) layout: Layout,
    pub(super) sidecore: usize,
    pub(super) block: usize,
}

impl Ending {
    pub(super) fn has_lane(&self) -> bool {
        self.lane.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) device: DeviceConfig,
    pub(super) control: Arc<Control>,
    /// Names of the keys that it offers, with their public parts.
    pub(super) offers: BTreeMap<String, Vec<u8>>,
    /// An offer with another public part was reported already.
    pub(super) doubted: bool,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.control.kill();
    }
}

#[derive(Debug)]
pub(super) struct Attached {
    pub(super) sidecore: usize,
    pub(super) memory: Arc<LaneMemory>,
    pub(super) sessions: Sessions,
    pub(super) session_bytes: u64,
    pub(super) token: Token,
    pub(super) counters: LaneBlock,
    pub(super) block: usize,
    /// Number of requests at the last copy of the report.
    pub(super) published: u64,
    pub(super) claim: Claim,
}

impl Attached {
    pub(super) fn used_at(&mut self, now: Nanos) -> Nanos {
        let get = |counter| self.counters.get(counter);
        let requests = get(LaneCounter::Submitted);
        let answered = get(LaneCounter::Done) + get(LaneCounter::Refused) + get(LaneCounter::Failed);
        self.claim.look(requests, requests != answered, now)
    }
}

#[derive(Debug)]
pub(super) struct Claim {
    /// Another process of its user may take the lane over.
    pub(super) reclaimable: bool,
    /// Requests at the last look, and the time of the last increase.
    requests: u64,
    used_at: Nanos,
}

impl Claim {
    pub(super) fn new(reclaimable: bool, now: Nanos) -> Self {
        Self { reclaimable, requests: 0, used_at: now }
    }

    /// The last time of use: `now`, if there were requests since the last look, or some are in flight.
    fn look(&mut self, requests: u64, in_flight: bool, now: Nanos) -> Nanos {
        if requests != self.requests || in_flight {
            (self.requests, self.used_at) = (requests, now);
        }
        self.used_at
    }
}

/// The refusal of a request whose connection ended meanwhile.
pub(super) fn not_connected() -> Refused {
    Refused::other("not connected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_idle_since_it_was_last_seen_at_work() {
        let mut claim = Claim::new(true, 100);
        assert_eq!(claim.look(0, false, 200), 100, "since it was made");
        assert_eq!(claim.look(5, true, 300), 300);
        assert_eq!(claim.look(5, true, 400), 400, "one request takes long");
        assert_eq!(claim.look(5, false, 500), 400);
        assert_eq!(claim.look(6, false, 600), 600, "one came and went between two looks");
        assert_eq!(claim.look(6, false, 700), 600);
    }
}
