//! A record of dispatch's calls and decisions, for replays of a run.
//!
//! [`Recorded`] is a [`Dispatch`] with an optional [`Tape`]: each [`Call`] that changes or decides something is
//! recorded with its arguments, its time and the decision. Without a tape a call costs one more branch, on a pointer
//! in the same cache line each time. A tape reserves its memory at the start. When the tape is full, the record ends
//! and the service continues. Dispatch depends on nothing but its calls, so [`apply`] makes the same decisions from
//! them.

mod call;
mod tape;

pub use call::Call;
pub use tape::{END, MAGIC, Start, Tape, VERSION, hash};

use super::{
    Assignment, ClientId, DeviceState, Dispatch, Done, KeyLocation, Lack, LaneId, Limits, Placement, Reassigned, Work,
};
use crate::inflight::{RequestState, Ticket};
use crate::policy::balance::Balance;
use crate::policy::notify::WakeDecision;
use crate::session::Class;
use crate::time::Nanos;
use alloc::boxed::Box;
use core::ops::Deref;

/// Words of a decision. Those at the end that are 0 are not written.
pub type Decision = [u64; 3];

/// A dispatch whose calls may be recorded. Read-only methods pass through to [`Dispatch`].
#[derive(Debug)]
pub struct Recorded {
    dispatch: Dispatch,
    tape: Option<Box<Tape>>,
}

impl Deref for Recorded {
    type Target = Dispatch;

    #[inline]
    fn deref(&self) -> &Dispatch {
        &self.dispatch
    }
}

/// Each frequent call of [`Dispatch`] that changes or decides something, recorded. [`Recorded::make`] serves the rare
/// ones.
impl Recorded {
    /// As [`Dispatch::new`], recorded from the first call on if `tape` gives a tape's length in words.
    pub fn new(limits: Limits, balance: Balance, tape: Option<usize>) -> Self {
        let tape = tape.map(|words| Box::new(Tape::new(Start { limits, balance }, words)));
        Self { dispatch: Dispatch::new(limits, balance), tape }
    }

    /// Ends the record, if there is one.
    pub fn end_record(&mut self) -> Option<Box<Tape>> {
        self.tape.take()
    }

    /// Makes any call. Returns the number that it gives out, if it gives out one.
    pub fn make(&mut self, call: &Call) -> Option<u32> {
        let decision = apply(&mut self.dispatch, call).unwrap_or(NOTHING);
        if let Some(tape) = &mut self.tape {
            tape.write(call, decision);
        }
        decision[0].checked_sub(1).map(|number| number as u32)
    }

    #[inline]
    fn note(&mut self, call: impl FnOnce() -> Call, decision: impl FnOnce(&Dispatch) -> Decision) {
        if let Some(tape) = &mut self.tape {
            tape.write(&call(), decision(&self.dispatch));
        }
    }

    /// See [`Dispatch::reprice`].
    #[inline]
    pub fn reprice(&mut self, now: Nanos) {
        // Called often; mostly nothing is due, and nothing is recorded then.
        if self.dispatch.reprice(now) {
            self.note(|| Call::Reprice(now), |_| NOTHING);
        }
    }

    /// See [`Dispatch::release`].
    #[inline]
    pub fn release(&mut self, now: Nanos, device: usize) -> Option<Ticket> {
        let ticket = self.dispatch.release(now, device);
        if ticket.is_some() {
            self.note(|| Call::Release(now, device), |_| of_ticket(ticket));
        }
        ticket
    }

    /// See [`Dispatch::begin_turn`].
    #[inline]
    pub fn begin_turn(&mut self, client: ClientId, round: u64) {
        // Called for each turn; mostly no round has passed, and nothing is recorded then.
        if self.dispatch.begin_turn(client, round) {
            self.note(|| Call::BeginTurn(client, round), |_| NOTHING);
        }
    }

    /// See [`Dispatch::lack`].
    pub fn lack(&mut self, client: ClientId) -> Lack {
        let lack = self.dispatch.lack(client);
        self.note(|| Call::Lack(client), |_| of_lack(lack));
        lack
    }

    /// See [`Dispatch::next_turns`].
    #[inline]
    pub fn next_turns(&mut self) -> bool {
        if !self.dispatch.is_turn_wanted() {
            return false;
        }
        let any = self.dispatch.next_turns();
        self.note(|| Call::NextTurns, |_| [u64::from(any), 0, 0]);
        any
    }

    /// See [`Dispatch::may_take`].
    #[inline]
    pub fn may_take(&mut self, client: ClientId) -> bool {
        let may = self.dispatch.may_take(client);
        self.note(|| Call::MayTake(client), |_| [u64::from(may), 0, 0]);
        may
    }

    /// See [`Dispatch::place_run`]. Where there is a record, each request is placed and recorded by itself.
    #[inline]
    pub fn place_run(&mut self, now: Nanos, work: Work, run: u32, budget: Nanos) -> (Placement, u32) {
        let run = if self.tape.is_some() { 1 } else { run };
        let placed = self.dispatch.place_run(now, work, run, budget);
        self.note(|| Call::Place(now, work), |dispatch| of_placement(dispatch, placed.0));
        placed
    }

    /// See [`Dispatch::observe`].
    #[inline]
    pub fn observe(&mut self, device: usize, class: Class, size: u32, took: Nanos) {
        self.dispatch.observe(device, class, size, took);
        self.note(|| Call::Observe { device, class, size, took }, |_| NOTHING);
    }

    /// See [`Dispatch::complete`].
    #[inline]
    pub fn complete(&mut self, ticket: Ticket, took: Option<Nanos>) -> Option<Done> {
        let done = self.dispatch.complete(ticket, took);
        self.note(|| Call::Complete(ticket, took), |_| of_done(done.as_ref()));
        done
    }

    /// See [`Dispatch::announce`].
    #[inline]
    pub fn announce(&mut self, now: Nanos, lane: LaneId) -> WakeDecision {
        let ring = self.dispatch.announce(now, lane);
        self.note(|| Call::Announce(now, lane), |_| of_wake(ring));
        ring
    }

    /// See [`Dispatch::due`].
    pub fn due(&mut self, now: Nanos, lane: LaneId) -> WakeDecision {
        let ring = self.dispatch.due(now, lane);
        self.note(|| Call::Due(now, lane), |_| of_wake(ring));
        ring
    }

    /// See [`Dispatch::reassign`].
    pub fn reassign(&mut self, now: Nanos, ticket: Ticket) -> Option<Reassigned> {
        let reassigned = self.dispatch.reassign(now, ticket);
        self.note(|| Call::Reassign(now, ticket), |dispatch| of_reassigned(dispatch, reassigned.as_ref()));
        reassigned
    }

    /// See [`Dispatch::pass_on`].
    pub fn pass_on(&mut self, now: Nanos, ticket: Ticket) -> Option<Reassigned> {
        let reassigned = self.dispatch.pass_on(now, ticket);
        self.note(|| Call::PassOn(now, ticket), |dispatch| of_reassigned(dispatch, reassigned.as_ref()));
        reassigned
    }
}

/// Whether the call can be made: its clients, lanes, devices and requests exist, in a state that permits the call. A
/// reader of a foreign record checks this before each call.
pub fn is_possible(dispatch: &Dispatch, call: &Call) -> bool {
    let Dispatch { clients, inflight, devices, .. } = dispatch;
    match call {
        Call::AddLane(client, _)
        | Call::BeginTurn(client, _)
        | Call::Lack(client)
        | Call::Idle(client)
        | Call::MayTake(client) => clients.has_client(*client),
        Call::RemoveClient(client) => clients.has_client(*client) && !clients.has_lanes(*client),
        Call::CloseLane(lane)
        | Call::SetNotify(lane, _)
        | Call::Refuse { lane, .. }
        | Call::Announce(_, lane)
        | Call::Due(_, lane)
        | Call::Place(_, Work { lane, .. }) => clients.is_open(*lane),
        Call::Observe { device, .. }
        | Call::Measured(device, _)
        | Call::EstimateDevice { device, .. }
        | Call::Drain(device)
        | Call::Activate(device)
        | Call::Lose(device)
        | Call::Release(_, device) => *device < devices.len(),
        Call::Complete(ticket, _) => inflight.get(*ticket).is_none_or(|entry| entry.state.is_on_device()),
        // Only requests of a lost device are given to others.
        Call::Reassign(_, ticket) => inflight.get(*ticket).is_none_or(|entry| {
            entry.state == RequestState::Orphan || devices[usize::from(entry.device)].state == DeviceState::Gone
        }),
        Call::PassOn(_, ticket) => inflight.get(*ticket).is_none_or(|entry| entry.state.is_on_device()),
        Call::Hold { device, key, .. } => *device < devices.len() && *key < KeyLocation::PLACES,
        Call::AddClientOf { .. } | Call::AddDevice(_) | Call::SetBalance(_) | Call::Reprice(_) | Call::NextTurns => {
            true
        }
    }
}

/// Makes a call. The decision has as many words as in the record. `None`: this kind of call decides nothing.
///
/// # Panics
/// If it [is not possible](is_possible).
pub fn apply(dispatch: &mut Dispatch, call: &Call) -> Option<Decision> {
    Some(match *call {
        Call::AddClientOf { user, weight, credit } => {
            number(dispatch.add_client_of(user, weight, credit).map(|id| id.0))
        }
        Call::AddLane(client, notify) => number(dispatch.add_lane(client, notify).map(|id| id.0)),
        Call::AddDevice(ref capability) => number(dispatch.add_device(capability.clone()).map(|device| device as u32)),
        Call::MayTake(client) => [u64::from(dispatch.may_take(client)), 0, 0],
        Call::Lack(client) => of_lack(dispatch.lack(client)),
        Call::NextTurns => [u64::from(dispatch.next_turns()), 0, 0],
        Call::Place(now, work) => {
            let placed = dispatch.place(now, work);
            of_placement(dispatch, placed)
        }
        Call::Release(now, device) => of_ticket(dispatch.release(now, device)),
        Call::Complete(ticket, took) => of_done(dispatch.complete(ticket, took).as_ref()),
        Call::Announce(now, lane) => of_wake(dispatch.announce(now, lane)),
        Call::Due(now, lane) => of_wake(dispatch.due(now, lane)),
        Call::Reassign(now, ticket) => {
            let reassigned = dispatch.reassign(now, ticket);
            of_reassigned(dispatch, reassigned.as_ref())
        }
        Call::PassOn(now, ticket) => {
            let reassigned = dispatch.pass_on(now, ticket);
            of_reassigned(dispatch, reassigned.as_ref())
        }
        _ => {
            tell(dispatch, call);
            return None;
        }
    })
}

fn tell(dispatch: &mut Dispatch, call: &Call) {
    match *call {
        Call::RemoveClient(client) => dispatch.remove_client(client),
        Call::CloseLane(lane) => dispatch.close_lane(lane),
        Call::SetNotify(lane, notify) => dispatch.set_notify(lane, notify),
        Call::SetBalance(balance) => dispatch.set_balance(balance),
        Call::Reprice(now) => {
            dispatch.reprice(now);
        }
        Call::BeginTurn(client, round) => {
            dispatch.begin_turn(client, round);
        }
        Call::Idle(client) => dispatch.idle(client),
        Call::Refuse { lane, urgent } => dispatch.refuse(lane, urgent),
        Call::Observe { device, class, size, took } => dispatch.observe(device, class, size, took),
        Call::Drain(device) => dispatch.drain(device),
        Call::Activate(device) => dispatch.activate(device),
        Call::Lose(device) => dispatch.lose(device),
        Call::Hold { device, key, holds } => dispatch.hold(device, key, holds),
        Call::Measured(device, ref measured) => dispatch.measured(device, measured),
        Call::EstimateDevice { device, weight, ref rates } => dispatch.estimate_device(device, weight, rates),
        // These decide, and were made before.
        Call::AddClientOf { .. }
        | Call::AddLane(..)
        | Call::AddDevice(_)
        | Call::MayTake(_)
        | Call::Lack(_)
        | Call::NextTurns
        | Call::Place(..)
        | Call::Release(..)
        | Call::Complete(..)
        | Call::Announce(..)
        | Call::Due(..)
        | Call::Reassign(..)
        | Call::PassOn(..) => {}
    }
}

const NOTHING: Decision = [0; 3];

fn number(id: Option<u32>) -> Decision {
    [id.map_or(0, |id| u64::from(id) + 1), 0, 0]
}

fn head(kind: u64, device: usize, rest: u32) -> u64 {
    kind | (device as u64) << 8 | u64::from(rest) << 32
}

fn of_ticket(ticket: Option<Ticket>) -> Decision {
    ticket.map_or(NOTHING, |ticket| [1, ticket.to_word(), 0])
}

fn of_assignment(dispatch: &Dispatch, Assignment { device, ticket, begins, .. }: Assignment) -> Decision {
    let kind = if begins { 1 } else { 5 };
    [head(kind, device, 0), ticket.to_word(), dispatch.device_load(device).backlog]
}

fn of_placement(dispatch: &Dispatch, placed: Placement) -> Decision {
    match placed {
        Placement::Assigned(given) => of_assignment(dispatch, given),
        Placement::Now { device, cost } => [head(2, device, 0), cost, 0],
        Placement::Full => [3, 0, 0],
        Placement::NoDevice => [4, 0, 0],
    }
}

fn of_done(done: Option<&Done>) -> Decision {
    let Some(Done { work, device, handed, lane_open }) = done else { return NOTHING };
    let kind = 1 + u64::from(*lane_open) + 2 * u64::from(work.urgent);
    [head(kind, usize::from(*device), work.tag), *handed, u64::from(work.lane.0) | u64::from(work.size) << 32]
}

fn of_lack(lack: Lack) -> Decision {
    match lack {
        Lack::Share(rounds) => [1, rounds, 0],
        Lack::Part => [2, 0, 0],
        Lack::Room => [3, 0, 0],
    }
}

fn of_wake(ring: WakeDecision) -> Decision {
    match ring {
        WakeDecision::Nothing => NOTHING,
        WakeDecision::Now => [1, 0, 0],
        WakeDecision::At(at) => [2, at, 0],
    }
}

fn of_reassigned(dispatch: &Dispatch, reassigned: Option<&Reassigned>) -> Decision {
    match reassigned {
        None => NOTHING,
        Some(Reassigned::Assigned(given)) => of_assignment(dispatch, *given),
        Some(Reassigned::Now(done)) => [head(2, usize::from(done.device), done.work.tag), done.handed, 0],
        Some(Reassigned::Wait(ticket)) => [3, ticket.to_word(), 0],
        Some(Reassigned::Abandoned(done)) => [head(4, usize::from(done.device), done.work.tag), done.handed, 0],
    }
}
