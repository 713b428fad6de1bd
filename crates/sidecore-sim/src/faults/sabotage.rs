//! Deliberate defects: a check that never fails proves nothing.

use super::Invariant;
use sidecore_core::sidecore::Defect;
use strum::{Display, EnumString, VariantArray};

/// One deliberate defect of the simulated runtime. Command-line names have the form `drop-client-ring`.
#[derive(Clone, Copy, Debug, Display, EnumString, VariantArray, PartialEq, Eq)]
#[strum(serialize_all = "kebab-case")]
pub enum Sabotage {
    /// A client sometimes does not ring the service when it must.
    DropClientRing,
    /// The service sometimes does not ring a client when it must.
    DropServiceRing,
    /// All threads look before arming the doorbell, and not again after it.
    ArmAfterLook,
    /// A deferred announcement is forgotten.
    ForgetAnnouncement,
    /// A completion is sometimes written twice.
    DuplicateCompletion,
    /// A completion is sometimes not written.
    LoseCompletion,
    /// A client that finds the service dead does not report lost requests.
    ForgetLost,
    /// An answer counts for any request that has its place in the table now.
    ReuseTicket,
    /// A device sometimes returns the result of the previous request.
    MixUpResults,
    /// A request counts as completed when it is handed to its device.
    CompleteEarly,
    /// Requests are taken from clients whose credit is used up.
    IgnoreCredit,
    /// The first client's share is refilled before each of its requests.
    IgnoreShare,
    /// Devices report a larger depth than they have.
    Overcommit,
    /// The requests of a dead device are not reassigned.
    ForgetOrphans,
    /// A device that does not answer is never removed.
    NoTimeout,
    /// A failed request is blamed on another device.
    BlameOther,
    /// A client that breaks the protocol costs another one its lane.
    PunishNeighbour,
    /// All threads believe that they own their cores.
    SpinUnowned,
    /// A dormant lane that rings is not checked again.
    SleepThroughRing,
    /// A quiet lane becomes dormant without a second look.
    RestBlindly,
}

impl Sabotage {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The invariant that it breaks.
    pub fn breaks(self) -> Invariant {
        self.does().0
    }

    /// The defect to enable in core's own sidecore; `None` for defects of clients, devices and doorbells.
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
