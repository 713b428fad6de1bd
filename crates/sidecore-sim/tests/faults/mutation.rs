//! Deliberate defects: a check that never fails proves nothing.

use super::Invariant;
use sidecore_core::sidecore::Defect;
use strum::{Display, VariantArray};

/// One deliberate defect of the simulated runtime. Failures name it as `drop-client-ring`.
#[derive(Clone, Copy, Debug, Display, VariantArray, PartialEq, Eq)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Mutation {
    /// A client that must ring the service sometimes does not.
    DropClientRing,
    /// The service does not always ring a client that it must wake.
    DropServiceRing,
    /// Each thread looks before arming the doorbell, and not again after it.
    ArmAfterLook,
    /// An announcement that was put off is forgotten.
    ForgetAnnouncement,
    /// A completion is sometimes written twice.
    DuplicateCompletion,
    /// A completion is sometimes not written.
    LoseCompletion,
    /// A client of a dead service does not learn which requests were lost.
    ForgetLost,
    /// An answer counts for the request that now has the place in the table.
    ReuseTicket,
    /// A device sometimes returns the result of the request before.
    MixUpResults,
    /// A request counts as completed when it is handed over.
    CompleteEarly,
    /// Requests are taken from clients whose credit is used up.
    IgnoreCredit,
    /// The first client's share is refilled before each of its requests.
    IgnoreShare,
    /// Devices report more depth than they have.
    Overcommit,
    /// Requests of a dead device are not given to others.
    ForgetOrphans,
    /// The service waits forever for a silent device.
    NoTimeout,
    /// A failed request is blamed on another device.
    BlameOther,
    /// A client that breaks the protocol costs another one its lane.
    PunishNeighbour,
    /// Each thread believes that its core is its own.
    SpinUnowned,
    /// A dormant lane that rings is not looked at again.
    SleepThroughRing,
    /// A quiet lane goes dormant without a second look.
    RestBlindly,
}

impl Mutation {
    pub(super) const ALL: &'static [Self] = Self::VARIANTS;

    /// The invariant that it breaks.
    pub(super) fn breaks(self) -> Invariant {
        self.does().0
    }

    /// The switch of core's own sidecore; `None` for defects of clients, devices and doorbells.
    pub(super) fn defect(self) -> Option<Defect> {
        self.does().1
    }

    fn does(self) -> (Invariant, Option<Defect>) {
        match self {
            Self::DropClientRing | Self::DropServiceRing => (Invariant::Wakeup, None),
            Self::ArmAfterLook => (Invariant::Wakeup, Some(Defect::ArmAfterLook)),
            Self::ForgetAnnouncement => (Invariant::Wakeup, Some(Defect::ForgetAnnouncement)),
            Self::DuplicateCompletion => (Invariant::Once, Some(Defect::DuplicateCompletion)),
            Self::LoseCompletion => (Invariant::Stall, Some(Defect::LoseCompletion)),
            Self::ForgetLost => (Invariant::Once, None),
            Self::ReuseTicket => (Invariant::Void, Some(Defect::ReuseTicket)),
            Self::MixUpResults => (Invariant::Answer, None),
            Self::CompleteEarly => (Invariant::Accounting, Some(Defect::CompleteEarly)),
            Self::IgnoreCredit => (Invariant::Credit, Some(Defect::IgnoreCredit)),
            Self::IgnoreShare => (Invariant::Share, Some(Defect::IgnoreShare)),
            Self::Overcommit => (Invariant::Capacity, None),
            Self::ForgetOrphans => (Invariant::Stall, Some(Defect::ForgetOrphans)),
            Self::NoTimeout => (Invariant::Stall, Some(Defect::NoTimeout)),
            Self::BlameOther => (Invariant::Blame, Some(Defect::BlameOther)),
            Self::PunishNeighbour => (Invariant::Bystander, Some(Defect::PunishNeighbour)),
            Self::SpinUnowned => (Invariant::Spin, None),
            Self::SleepThroughRing => (Invariant::Stall, Some(Defect::SleepThroughRing)),
            Self::RestBlindly => (Invariant::Wakeup, Some(Defect::RestBlindly)),
        }
    }
}
