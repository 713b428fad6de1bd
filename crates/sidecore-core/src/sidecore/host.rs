//! What a sidecore needs done.

use super::{Health, Reply};
use crate::dispatch::{Dispatch, Done, Given, Replaced};
use crate::inflight::Ticket;
use crate::policy::balance::Measured;
use crate::policy::notify::{Audit, Ring};
use crate::policy::order::Schedule;
use crate::session::{Class, Refusal};
use crate::stage::Stamps;
use crate::time::Nanos;
use crate::wire::{Fault, Status, Submission};
use crate::work::{Reach, Work};

/// How a request is to be done, found once.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Algorithm and operation.
    pub class: Class,
    /// Bytes of input.
    pub size: u32,
    /// Where its key is.
    pub reach: Reach,
    /// The most bytes that it writes, or why it cannot be done.
    pub room: Result<u32, Refusal>,
    /// The host's way to the session.
    pub token: u32,
}

/// What a lane's turn came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Requests taken from the lane.
    pub taken: u32,
    /// Of them, done at once.
    pub done: u32,
    /// Of them, refused.
    pub refused: u32,
    /// Input bytes of what was done or tried at once.
    pub bytes_in: u64,
    /// Output bytes of it.
    pub bytes_out: u64,
}

/// What a sidecore tells of itself now and then.
#[derive(Debug)]
pub struct House<'s> {
    /// Rounds made.
    pub rounds: u64,
    /// Lanes that are open.
    pub lanes: usize,
    /// Of them, dormant.
    pub dormant: usize,
    /// What its waits came to.
    pub audit: &'s Audit,
    /// What it decides by: loads and states of devices.
    pub dispatch: &'s Dispatch,
}

/// A deliberate defect: a check that never fails proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Completions are announced to nobody where that was put off.
    ForgetAnnouncement,
    /// The sidecore looks before it arms, and not again after it.
    ArmAfterLook,
    /// A completion is not written.
    LoseCompletion,
    /// A completion is written twice.
    DuplicateCompletion,
    /// An answer is taken for whatever request has the place in the table now.
    ReuseTicket,
    /// A request counts as completed when it is handed over.
    CompleteEarly,
    /// Requests are taken from clients whose credit is used up.
    IgnoreCredit,
    /// A share is refilled before each request of the first client.
    IgnoreShare,
    /// What a dead device had is not given to others.
    ForgetOrphans,
    /// A device that does not answer is waited for without end.
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

/// Carries out what a [`Sidecore`](super::Sidecore) decides: clock, lanes, engine, devices, counters.
///
/// What a lane's memory says is the client's allegation: [`Host::receive`] reads each word once.
pub trait Host {
    /// One lane.
    type Lane;
    /// What is needed to do a request, now or again.
    type Request;

    /// The time, ns.
    fn now(&mut self) -> Nanos;

    /// Whether somebody else may act between the last step and the next. A thread never asks to pause.
    #[inline]
    fn pauses(&mut self) -> bool {
        false
    }

    /// Whether this defect is to be shown. There is none but in tests.
    #[inline]
    fn has(&mut self, _: Defect) -> bool {
        false
    }

    /// Whether commands wait. The caller obeys them on [`Next::Obey`](super::Next::Obey).
    fn has_mail(&self) -> bool;

    /// Whether a submission is in the ring.
    fn is_ready(&self, lane: &Self::Lane) -> bool;

    /// Takes the next submission to this place, if one is there; `ahead` others were taken before it and are not answered.
    ///
    /// # Errors
    /// The client broke the protocol.
    fn receive(&mut self, lane: &mut Self::Lane, place: &mut Submission, ahead: usize) -> Result<bool, Fault>;

    /// More submissions of this lane will be taken soon.
    #[inline]
    fn expect(&mut self, _: &Self::Lane) {}

    /// Writes the next completion, of which these are the words.
    fn write<const N: usize>(&mut self, lane: &mut Self::Lane, completion: &[u64; N]);

    /// Arms the lane's doorbell: from now on its client rings.
    fn arm(&mut self, lane: &Self::Lane);

    /// The client need not ring any more.
    fn disarm(&mut self, lane: &Self::Lane);

    /// The client is told of its completions now, if it must be woken; on [`Ring::At`] and [`Ring::Nothing`] it is not.
    fn announce(&mut self, lane: &mut Self::Lane, ring: Ring);

    /// How this request is to be done.
    ///
    /// # Errors
    /// Why it is refused.
    fn plan(&self, lane: &Self::Lane, submission: &Submission) -> Result<Plan, Refusal>;

    /// Does the request here and now. Returns bytes written to its output extents.
    ///
    /// # Errors
    /// Why it is refused.
    fn run(&mut self, lane: &mut Self::Lane, submission: &Submission, plan: Plan) -> Result<u32, Refusal>;

    /// So many requests like this one were done.
    fn ran(&mut self, lane: &Self::Lane, device: usize, work: &Work, count: u32);

    /// The request that was just done was sampled.
    fn sampled(&mut self, lane: &Self::Lane, device: usize, work: &Work, plan: Plan, stamps: &Stamps);

    /// What a device needs for this request.
    fn request(&mut self, lane: &Self::Lane, submission: &Submission, plan: Plan) -> Self::Request;

    /// The request is in flight from now on.
    fn entered(&mut self, work: &Work, request: &Self::Request, given: Given);

    /// The request is refused before any device has it.
    fn refused(&mut self, lane: &Self::Lane, submission: &Submission, refusal: Refusal);

    /// Does the request of a dead device here and now. Returns bytes written.
    ///
    /// # Errors
    /// Why it is refused.
    fn redo(&mut self, device: usize, request: &Self::Request) -> Result<u32, Refusal>;

    /// A request in flight is answered so; `lane` is where it came from and what it has in flight, if it is open still.
    fn answered(
        &mut self,
        lane: Option<(&Self::Lane, u32)>,
        done: &Done,
        request: Option<Self::Request>,
        status: Status,
        stamps: Option<&Stamps>,
    );

    /// The lane's turn is over.
    fn turned(&mut self, lane: &Self::Lane, turn: &Turn, in_flight: u32);

    /// The client broke the protocol: its lane has ended.
    fn faulted(&mut self, lane: Self::Lane, fault: Fault);

    /// Gives a request to a device that answers later. It has room: dispatch counts.
    fn submit(&mut self, device: usize, ticket: Ticket, schedule: Schedule, request: &Self::Request);

    /// The device's next answer, if it is there at that time, ns.
    fn poll(&mut self, device: usize, now: Nanos) -> Option<Reply>;

    /// Requests were given to the device: it is woken if it sleeps.
    fn ring_device(&mut self, device: usize);

    /// Arms the device's doorbell: from now on it rings.
    fn arm_device(&mut self, device: usize);

    /// Whether an answer of a device that rings is there.
    fn is_device_ready(&self, device: usize) -> bool;

    /// The device need not ring any more.
    fn disarm_device(&mut self, device: usize);

    /// When the device's next answer will be there, if that is known, ns.
    fn due(&self, device: usize) -> Option<Nanos>;

    /// What has become of the device.
    fn health(&mut self, device: usize) -> Health;

    /// What a device has measured that does several requests side by side: each class once.
    fn measured(&mut self, _device: usize) -> Option<Measured> {
        None
    }

    /// Takes away a device that does not answer: from now on it writes to no lane.
    fn revoke(&mut self, device: usize) -> Health;

    /// The device has nothing to do any more and ends.
    fn retire(&mut self, device: usize);

    /// The device is dead; what it had is elsewhere.
    fn buried(&mut self, device: usize);

    /// A request of a dead device has a new place, or a new name while it waits for one.
    fn replaced(&mut self, lost: usize, old: Ticket, replaced: &Replaced);

    /// A device answered; `None`: its ticket was void, and nothing changes.
    fn finished(&mut self, reply: &Reply, done: Option<&Done>);

    /// It is time to bring counters up to date.
    fn keep_house(&mut self, house: &House);
}
