//! Defects put in on purpose: a check that never fails proves nothing.

use super::Invariant;
use sidecore_core::sidecore::Defect;
use std::fmt;

/// One deliberate defect of the simulated runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A client that must ring the service sometimes does not.
    DropClientRing,
    /// The service does not always ring a client that it must wake.
    DropServiceRing,
    /// Everybody looks before arming the doorbell, and not again after it.
    ArmAfterLook,
    /// An announcement that was put off is forgotten.
    ForgetAnnouncement,
    /// A completion is sometimes written twice.
    DuplicateCompletion,
    /// A completion is sometimes not written.
    LoseCompletion,
    /// A client that finds the service dead is not told which requests were lost.
    ForgetLost,
    /// An answer is taken for whatever request has the place in the table now.
    ReuseTicket,
    /// A device sometimes returns the result of the request before.
    MixUpResults,
    /// A request counts as completed when it is handed over.
    CompleteEarly,
    /// Requests are taken from clients whose credit is used up.
    IgnoreCredit,
    /// The first client's share is refilled before each of its requests.
    IgnoreShare,
    /// Devices are said to be deeper than they are.
    Overcommit,
    /// What a dead device had is not given to others.
    ForgetOrphans,
    /// A device that does not answer is waited for without end.
    NoTimeout,
    /// A failed request is blamed on another device.
    BlameOther,
    /// A client that breaks the protocol costs another one its lane.
    PunishNeighbour,
    /// Everybody is told that its core is its own.
    SpinUnowned,
    /// A dormant lane that rings is not looked at again.
    SleepThroughRing,
    /// A quiet lane goes dormant without a second look.
    RestBlindly,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::DropClientRing,
        Self::DropServiceRing,
        Self::ArmAfterLook,
        Self::ForgetAnnouncement,
        Self::DuplicateCompletion,
        Self::LoseCompletion,
        Self::ForgetLost,
        Self::ReuseTicket,
        Self::MixUpResults,
        Self::CompleteEarly,
        Self::IgnoreCredit,
        Self::IgnoreShare,
        Self::Overcommit,
        Self::ForgetOrphans,
        Self::NoTimeout,
        Self::BlameOther,
        Self::PunishNeighbour,
        Self::SpinUnowned,
        Self::SleepThroughRing,
        Self::RestBlindly,
    ];

    /// The sabotage of that name, as `drop-client-ring`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sabotage| sabotage.name() == name)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::DropClientRing => "drop-client-ring",
            Self::DropServiceRing => "drop-service-ring",
            Self::ArmAfterLook => "arm-after-look",
            Self::ForgetAnnouncement => "forget-announcement",
            Self::DuplicateCompletion => "duplicate-completion",
            Self::LoseCompletion => "lose-completion",
            Self::ForgetLost => "forget-lost",
            Self::ReuseTicket => "reuse-ticket",
            Self::MixUpResults => "mix-up-results",
            Self::CompleteEarly => "complete-early",
            Self::IgnoreCredit => "ignore-credit",
            Self::IgnoreShare => "ignore-share",
            Self::Overcommit => "overcommit",
            Self::ForgetOrphans => "forget-orphans",
            Self::NoTimeout => "no-timeout",
            Self::BlameOther => "blame-other",
            Self::PunishNeighbour => "punish-neighbour",
            Self::SpinUnowned => "spin-unowned",
            Self::SleepThroughRing => "sleep-through-ring",
            Self::RestBlindly => "rest-blindly",
        }
    }

    /// What core's own sidecore does wrong under it; `None` for those of clients, devices and doorbells.
    pub(super) fn defect(self) -> Option<Defect> {
        Some(match self {
            Self::ArmAfterLook => Defect::ArmAfterLook,
            Self::ForgetAnnouncement => Defect::ForgetAnnouncement,
            Self::DuplicateCompletion => Defect::DuplicateCompletion,
            Self::LoseCompletion => Defect::LoseCompletion,
            Self::ReuseTicket => Defect::ReuseTicket,
            Self::CompleteEarly => Defect::CompleteEarly,
            Self::IgnoreCredit => Defect::IgnoreCredit,
            Self::IgnoreShare => Defect::IgnoreShare,
            Self::ForgetOrphans => Defect::ForgetOrphans,
            Self::NoTimeout => Defect::NoTimeout,
            Self::BlameOther => Defect::BlameOther,
            Self::PunishNeighbour => Defect::PunishNeighbour,
            Self::SleepThroughRing => Defect::SleepThroughRing,
            Self::RestBlindly => Defect::RestBlindly,
            Self::DropClientRing
            | Self::DropServiceRing
            | Self::ForgetLost
            | Self::MixUpResults
            | Self::Overcommit
            | Self::SpinUnowned => return None,
        })
    }

    /// The invariant that it breaks.
    pub fn breaks(self) -> Invariant {
        match self {
            Self::DropClientRing
            | Self::DropServiceRing
            | Self::ArmAfterLook
            | Self::ForgetAnnouncement
            | Self::RestBlindly => Invariant::Wakeup,
            Self::DuplicateCompletion | Self::ForgetLost => Invariant::Once,
            Self::LoseCompletion | Self::ForgetOrphans | Self::NoTimeout | Self::SleepThroughRing => Invariant::Stall,
            Self::ReuseTicket => Invariant::Void,
            Self::MixUpResults => Invariant::Answer,
            Self::CompleteEarly => Invariant::Accounting,
            Self::IgnoreCredit => Invariant::Credit,
            Self::IgnoreShare => Invariant::Share,
            Self::Overcommit => Invariant::Capacity,
            Self::BlameOther => Invariant::Blame,
            Self::PunishNeighbour => Invariant::Bystander,
            Self::SpinUnowned => Invariant::Spin,
        }
    }
}

impl fmt::Display for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
