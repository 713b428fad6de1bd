//! The interface through which a sidecore acts.

use super::{Health, Reply};
use crate::dispatch::{Assignment, Dispatch, Done, Reassigned};
use crate::inflight::Ticket;
use crate::policy::balance::Measured;
use crate::policy::notify::{Audit, WakeDecision};
use crate::session::{Class, Refusal};
use crate::stage::Stamps;
use crate::time::Nanos;
use crate::wire::{Fault, Status, Submission};
use crate::work::{KeyLocation, Work};

/// How a request is to be done, computed once.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Algorithm and operation.
    pub class: Class,
    /// Bytes of input.
    pub size: u32,
    /// The place of its key.
    pub key_location: KeyLocation,
    /// The most bytes that it writes, or the reason of its refusal.
    pub room: Result<u32, Refusal>,
    /// The host's reference to the session.
    pub token: u32,
}

/// Counters of one turn of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnStats {
    /// Requests taken from the lane.
    pub taken: u32,
    /// Of them, done immediately.
    pub done: u32,
    /// Of them, refused.
    pub refused: u32,
    /// Input bytes of the requests done or tried immediately.
    pub bytes_in: u64,
    /// Output bytes of those requests.
    pub bytes_out: u64,
}

/// Gauges, published every `housekeeping` interval.
#[derive(Debug)]
pub struct Gauges<'s> {
    /// Rounds made.
    pub rounds: u64,
    /// Lanes that are open.
    pub lanes: usize,
    /// Of them, dormant.
    pub dormant: usize,
    /// Totals of its waits.
    pub audit: &'s Audit,
    /// Loads and states of its devices.
    pub dispatch: &'s Dispatch,
}

/// A deliberate defect, so that tests show a failing check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Deferred completions are never announced.
    ForgetAnnouncement,
    /// The sidecore looks before it arms, and not again after it.
    ArmAfterLook,
    /// A completion is not written.
    LoseCompletion,
    /// A completion is written twice.
    DuplicateCompletion,
    /// An answer is taken for the request that has its place in the table now.
    ReuseTicket,
    /// A request counts as completed when it is handed over.
    CompleteEarly,
    /// Requests are taken from clients whose credit is used up.
    IgnoreCredit,
    /// A share is refilled before each request of the first client.
    IgnoreShare,
    /// Requests of a dead device are not moved to others.
    ForgetOrphans,
    /// A device that does not answer is awaited forever.
    NoTimeout,
    /// A failed request is blamed on another device.
    BlameOther,
    /// A client that breaks the protocol costs another one its lane.
    PunishNeighbour,
    /// A dormant lane that rings is not looked at again.
    SleepThroughRing,
    /// A quiet lane goes dormant without a second look.
    RestBlindly,
}

/// Carries out the decisions of a [`Sidecore`](super::Sidecore): clock, lanes, engine, devices, counters.
///
/// A lane's memory holds the client's allegations: [`Host::receive`] reads each word once.
pub trait Host {
    /// One lane.
    type Lane;
    /// Everything needed to do a request, now or again.
    type Request;

    /// The time, ns.
    fn now(&mut self) -> Nanos;

    /// True if the simulator may run another actor between two steps. Always false in the service.
    #[inline]
    fn pauses(&mut self) -> bool {
        false
    }

    /// Whether this defect is active. Only tests have defects.
    #[inline]
    fn has(&mut self, _: Defect) -> bool {
        false
    }

    /// Whether commands wait. The caller obeys them on [`Action::Obey`](super::Action::Obey).
    fn has_commands(&self) -> bool;

    /// Whether a submission is in the ring.
    fn is_ready(&self, lane: &Self::Lane) -> bool;

    /// Takes the next submission to this place, if there is one. `ahead` is the number of submissions taken before it
    /// and not answered.
    ///
    /// # Errors
    /// The client broke the protocol.
    fn receive(&mut self, lane: &mut Self::Lane, place: &mut Submission, ahead: usize) -> Result<bool, Fault>;

    /// More submissions of this lane will be taken soon.
    #[inline]
    fn expect(&mut self, _: &Self::Lane) {}

    /// Writes the next completion from its words.
    fn write<const N: usize>(&mut self, lane: &mut Self::Lane, completion: &[u64; N]);

    /// Arms the lane's doorbell: from now on its client rings.
    fn arm(&mut self, lane: &Self::Lane);

    /// Disarms the lane's doorbell: its client need not ring.
    fn disarm(&mut self, lane: &Self::Lane);

    /// Notifies the client of its completions if `ring` is [`WakeDecision::Now`] and it must be woken.
    fn announce(&mut self, lane: &mut Self::Lane, ring: WakeDecision);

    /// The plan for this request.
    ///
    /// # Errors
    /// The reason of its refusal.
    fn plan(&self, lane: &Self::Lane, submission: &Submission) -> Result<Plan, Refusal>;

    /// Does the request on this thread. Returns bytes written to its output extents.
    ///
    /// # Errors
    /// The reason of its refusal.
    fn run(&mut self, lane: &mut Self::Lane, submission: &Submission, plan: Plan) -> Result<u32, Refusal>;

    /// `count` requests like this one were done.
    fn ran(&mut self, lane: &Self::Lane, device: usize, work: &Work, count: u32);

    /// The request that was just done was sampled.
    fn sampled(&mut self, lane: &Self::Lane, device: usize, work: &Work, plan: Plan, stamps: &Stamps);

    /// The device's data for this request.
    fn request(&mut self, lane: &Self::Lane, submission: &Submission, plan: Plan) -> Self::Request;

    /// The request is in flight from now on.
    fn entered(&mut self, work: &Work, request: &Self::Request, given: Assignment);

    /// The request is refused before any device has it.
    fn refused(&mut self, lane: &Self::Lane, submission: &Submission, refusal: Refusal);

    /// Does the request of a dead device on this thread. Returns bytes written.
    ///
    /// # Errors
    /// The reason of its refusal.
    fn rerun_inline(&mut self, device: usize, request: &Self::Request) -> Result<u32, Refusal>;

    /// A request in flight was answered. `lane` is its lane and the lane's requests in flight, if it is still open.
    fn answered(
        &mut self,
        lane: Option<(&Self::Lane, u32)>,
        done: &Done,
        request: Option<Self::Request>,
        status: Status,
        stamps: Option<&Stamps>,
    );

    /// The lane's turn is over.
    fn turned(&mut self, lane: &Self::Lane, turn: &TurnStats, in_flight: u32);

    /// The client broke the protocol: its lane has ended.
    fn faulted(&mut self, lane: Self::Lane, fault: Fault);

    /// Gives a request to a device that answers later. It has room: dispatch counts.
    fn submit(&mut self, device: usize, ticket: Ticket, request: &Self::Request);

    /// The device's next answer, if it has arrived by that time, ns.
    fn poll(&mut self, device: usize, now: Nanos) -> Option<Reply>;

    /// Requests were given to the device: it is woken if it sleeps.
    fn ring_device(&mut self, device: usize);

    /// Arms the device's doorbell: from now on it rings.
    fn arm_device(&mut self, device: usize);

    /// Whether an answer of a device that rings has arrived.
    fn is_device_ready(&self, device: usize) -> bool;

    /// Disarms the device's doorbell.
    fn disarm_device(&mut self, device: usize);

    /// The time of the device's next answer, if known, ns.
    fn due(&self, device: usize) -> Option<Nanos>;

    /// The device's state.
    fn health(&mut self, device: usize) -> Health;

    /// Measured times of a batch device: each class once.
    fn measured(&mut self, _device: usize) -> Option<Measured> {
        None
    }

    /// Removes a device that does not answer: from now on it writes to no lane.
    fn revoke(&mut self, device: usize) -> Health;

    /// The device has no more work and ends.
    fn retire(&mut self, device: usize);

    /// Called once the dead device's requests have been reassigned.
    fn device_removed(&mut self, device: usize);

    /// A request of a dead device has a new place, or a new name while it waits for one.
    fn reassigned(&mut self, lost: usize, old: Ticket, reassigned: &Reassigned);

    /// A device answered; `None`: its ticket was void, and nothing changes.
    fn finished(&mut self, reply: &Reply, done: Option<&Done>);

    /// It is time to bring counters up to date.
    fn publish_gauges(&mut self, gauges: &Gauges);
}
