//! Kinds of complaints: the log reports them at a bounded rate for each user.

use crate::control::Ground;
use sidecore_core::policy::rate::RateLimit;
use sidecore_daemon::events::{PACE, Source};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    Refused(Ground),
    /// Of a request in a lane.
    Request,
    Fault,
    Gateway,
    WrongAnswer,
    WrongResult,
}

impl Complaint {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Refused(Ground::NoKey) => "no-key",
            Self::Refused(Ground::NotAllowed) => "not-allowed",
            Self::Refused(Ground::Limit) => "limit",
            Self::Refused(Ground::NoChannel) => "no-channel",
            Self::Refused(Ground::Other) => "other",
            Self::Request => "request",
            Self::Fault => "protocol",
            Self::Gateway => "gateway",
            Self::WrongAnswer => "wrong-answer",
            Self::WrongResult => "wrong-result",
        }
    }
}

pub(super) type Complaints = RateLimit<Source<Complaint>>;

pub(super) fn complaints() -> Complaints {
    RateLimit::new(PACE)
}
