//! Kinds of complaints: the log reports them at a bounded rate for each user.

use crate::control::RefusalCode;
use sidecore_core::policy::rate::RateLimit;
use sidecore_daemon::events::{PACE, Source};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    Refused(RefusalCode),
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
            Self::Refused(code) => code.name(),
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
