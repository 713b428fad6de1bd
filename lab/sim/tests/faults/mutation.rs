//! Deliberate defects: a check that never fails proves nothing.

use super::Invariant;
use strum::{Display, VariantArray};

/// One deliberate defect of the simulated runtime. Failures name it as `drop-client-ring`.
#[derive(Clone, Copy, Debug, Display, VariantArray, PartialEq, Eq)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Mutation {
    DropClientRing,
    DropServiceRing,
    /// Each thread looks before arming the doorbell, and not again after it.
    ArmAfterLook,
    ForgetAnnouncement,
    DuplicateCompletion,
    LoseCompletion,
    ForgetLost,
    /// An answer counts for the request that now has the place in the table.
    ReuseTicket,
    MixUpResults,
    CompleteEarly,
    IgnoreCredit,
    IgnoreShare,
    /// Each client has a share of its own, whoever its user is.
    ShareByClient,
    Overcommit,
    /// A dead device passes for alive: its requests are not given to others.
    ForgetOrphans,
    NoTimeout,
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

    pub(super) fn breaks(self) -> Invariant {
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
            Self::IgnoreShare | Self::ShareByClient => Invariant::Share,
            Self::Overcommit => Invariant::Capacity,
            Self::BlameOther => Invariant::Blame,
            Self::PunishNeighbour => Invariant::Bystander,
            Self::SpinUnowned => Invariant::Spin,
        }
    }
}
