//! The interface through which a sidecore acts: clock, lanes, engine, devices, and an observer.

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
    /// Its key has a limit: see [`Engine::admit`].
    pub is_limited: bool,
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

/// Something that a sidecore did, for counters and records. `L` and `R` as in [`Sidecore`](super::Sidecore).
#[derive(Debug)]
pub enum Event<'e, L, R> {
    /// Requests that differ in their tags only were done on this thread.
    Ran {
        /// Their lane.
        lane: &'e L,
        /// The immediate device.
        device: usize,
        /// The first of them.
        work: &'e Work,
        /// Their number.
        count: u32,
    },
    /// The request that was just done was sampled.
    Sampled {
        /// Its lane.
        lane: &'e L,
        /// The immediate device.
        device: usize,
        /// The request.
        work: &'e Work,
        /// Its plan.
        plan: &'e Plan,
        /// Its stage times.
        stamps: &'e Stamps,
    },
    /// A request was refused before any device had it.
    Refused {
        /// Its lane.
        lane: &'e L,
        /// The request.
        submission: &'e Submission,
        /// The reason.
        refusal: Refusal,
    },
    /// A request is in flight from now on.
    Submitted {
        /// The request.
        work: &'e Work,
        /// The device's data for it.
        request: &'e R,
        /// Its device and name.
        given: Assignment,
    },
    /// A device answered.
    Finished {
        /// Its answer.
        reply: &'e Reply,
        /// The request. `None`: the ticket was void, and nothing changes.
        done: Option<&'e Done>,
    },
    /// A request in flight was answered.
    Answered {
        /// Its lane and the lane's requests in flight, if it is still open.
        lane: Option<(&'e L, u32)>,
        /// The request.
        done: &'e Done,
        /// The device's data for it.
        request: Option<&'e R>,
        /// The result.
        status: Status,
        /// Its stage times, if it is sampled.
        stamps: Option<&'e Stamps>,
    },
    /// A request of a dead device has a new place, or a new name while it waits for one.
    Reassigned {
        /// The dead device.
        lost: usize,
        /// The former name, void from now on.
        ticket: Ticket,
        /// The new place.
        reassigned: &'e Reassigned,
    },
    /// A lane's turn is over.
    TurnEnded {
        /// The lane.
        lane: &'e L,
        /// Counters of the turn.
        turn: &'e TurnStats,
        /// The lane's requests in flight.
        in_flight: u32,
    },
    /// It is time to bring counters up to date.
    Gauges(&'e Gauges<'e>),
}

/// The time.
pub trait Clock {
    /// The time, ns.
    fn now(&mut self) -> Nanos;
}

/// The memory that clients share with the sidecore, and the commands about it.
///
/// A lane's memory holds the client's allegations: [`Lanes::receive`] reads each word once.
pub trait Lanes {
    /// One lane.
    type Lane;

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

    /// Ends the lane of a client that broke the protocol.
    fn faulted(&mut self, lane: Self::Lane, fault: Fault);
}

/// The operations, done on this thread.
pub trait Engine: Lanes {
    /// Everything needed to do a request, now or again.
    type Request;

    /// The plan for this request.
    ///
    /// # Errors
    /// The reason of its refusal.
    fn plan(&self, lane: &Self::Lane, submission: &Submission) -> Result<Plan, Refusal>;

    /// Counts a request with [`Plan::is_limited`] against the limit, once before it is done or given to a device.
    ///
    /// # Errors
    /// The limit is reached.
    fn admit(&mut self, _lane: &Self::Lane, _plan: Plan) -> Result<(), Refusal> {
        Ok(())
    }

    /// Does the request on this thread. Returns bytes written to its output extents.
    ///
    /// # Errors
    /// The reason of its refusal.
    fn run(&mut self, lane: &mut Self::Lane, submission: &Submission, plan: Plan) -> Result<u32, Refusal>;

    /// The device's data for this request.
    fn request(&mut self, lane: &Self::Lane, submission: &Submission, plan: Plan) -> Self::Request;

    /// Does the request of a dead device on this thread. Returns bytes written.
    ///
    /// # Errors
    /// The reason of its refusal.
    fn rerun_inline(&mut self, device: usize, request: &Self::Request) -> Result<u32, Refusal>;
}

/// Devices by their numbers in dispatch. Except for submissions an immediate device has nothing to do here.
pub trait Devices: Engine {
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

    /// The device is gone, and polled for the last time. Its requests are reassigned next.
    fn device_removed(&mut self, device: usize);
}

/// Counts and records. A sidecore does not depend on it.
pub trait Observer: Engine {
    /// The sidecore did this.
    #[inline]
    fn on(&mut self, _: Event<'_, Self::Lane, Self::Request>) {}
}

/// Carries out the decisions of a [`Sidecore`](super::Sidecore).
pub trait Host: Clock + Devices + Observer {}

impl<T: Clock + Devices + Observer> Host for T {}
