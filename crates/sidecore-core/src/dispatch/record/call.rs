//! One call as words.
//!
//! The first word has the call's number in bits 0 to 7, the number of argument words in 8 to 23, that of the decision's
//! words in 24 to 31 and the first argument, mostly a name, in 32 to 63. Arguments follow, then the decision. A reader
//! that does not know a number can still tell where the next call begins.

use super::super::{Capability, ClientId, LaneId, Work};
use crate::inflight::Ticket;
use crate::policy::balance::{Balance, Rates};
use crate::policy::notify::Notify;
use crate::policy::order::Order;
use crate::session::{Class, Classes};
use crate::time::Nanos;

/// A call that changes or decides something, with its arguments.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is the method of `Dispatch` with that name")]
pub enum Call {
    AddClient { weight: u32, credit: u32 },
    RemoveClient(ClientId),
    AddLane(ClientId, Notify),
    CloseLane(LaneId),
    SetNotify(LaneId, Notify),
    SetBalance(Balance),
    Refill(ClientId),
    Idle(ClientId),
    MayTake(ClientId),
    Place(Nanos, Work),
    Refuse { lane: LaneId, urgent: bool },
    Observe { device: usize, class: Class, size: u32, took: Nanos },
    Complete(Ticket, Option<Nanos>),
    Announce(Nanos, LaneId),
    Due(Nanos, LaneId),
    AddDevice(Capability),
    Drain(usize),
    Lose(usize),
    Replace(Nanos, Ticket),
    SetOrder(Order),
    Reprice(Nanos),
    Release(Nanos, usize),
}

/// Words that are no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A call that this version does not know, or the end.
    Unknown(u8),
    /// There are fewer words than the first one says, or other arguments than the call has.
    Arguments(u8),
}

/// Takes the words of a call: the first argument, then the others.
pub trait Words {
    /// The call's number and first argument.
    fn begin(&mut self, number: u8, first: u32);
    /// One more word.
    fn put(&mut self, word: u64);
}

const URGENT: u64 = 1;
const SAMPLED: u64 = 2;
const IMMEDIATE: u64 = 1 << 32;

impl Call {
    /// Writes number and arguments.
    pub fn encode(&self, to: &mut impl Words) {
        match self {
            Self::AddClient { weight, credit } => words(to, 1, *weight, [u64::from(*credit)]),
            Self::RemoveClient(client) => words(to, 2, client.0, []),
            Self::AddLane(client, notify) => words(to, 3, client.0, [notify.to_word()]),
            Self::CloseLane(lane) => words(to, 4, lane.0, []),
            Self::SetNotify(lane, notify) => words(to, 5, lane.0, [notify.to_word()]),
            Self::SetBalance(balance) => words(to, 6, place_in(&Balance::ALL, balance), []),
            Self::Refill(client) => words(to, 7, client.0, []),
            Self::Idle(client) => words(to, 8, client.0, []),
            Self::MayTake(client) => words(to, 9, client.0, []),
            Self::Place(now, work) => place(to, *now, work),
            Self::Refuse { lane, urgent } => words(to, 12, lane.0, [u64::from(*urgent)]),
            Self::Observe { device, class, size, took } => {
                words(to, 13, *device as u32, [class.index() as u64 | u64::from(*size) << 32, *took]);
            }
            Self::Complete(ticket, None) => words(to, 14, 0, [ticket.to_word()]),
            Self::Complete(ticket, Some(took)) => words(to, 14, 1, [ticket.to_word(), *took]),
            Self::Announce(now, lane) => words(to, 15, lane.0, [*now]),
            Self::Due(now, lane) => words(to, 16, lane.0, [*now]),
            Self::AddDevice(capability) => {
                let Capability { classes, immediate, depth, weight, rates } = capability;
                let weight = u64::from(*weight) | if *immediate { IMMEDIATE } else { 0 };
                words(to, 17, *depth, [weight]);
                classes.to_words().into_iter().for_each(|word| to.put(word));
                rates.words(|word| to.put(word));
            }
            Self::Drain(device) => words(to, 18, *device as u32, []),
            Self::Lose(device) => words(to, 19, *device as u32, []),
            Self::Replace(now, ticket) => words(to, 20, 0, [*now, ticket.to_word()]),
            Self::SetOrder(order) => words(to, 21, place_in(&Order::ALL, order), []),
            Self::Reprice(now) => words(to, 22, 0, [*now]),
            Self::Release(now, device) => words(to, 10, *device as u32, [*now]),
        }
    }

    /// Reads a call back from its number, first argument and other arguments.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(number: u8, first: u32, arguments: &[u64]) -> Result<Self, Malformed> {
        let (client, lane, device) = (ClientId(first), LaneId(first), first as usize);
        let call = match (number, arguments) {
            (1, [credit]) => u32::try_from(*credit).ok().map(|credit| Self::AddClient { weight: first, credit }),
            (2, []) => Some(Self::RemoveClient(client)),
            (3, [notify]) => Notify::from_word(*notify).map(|notify| Self::AddLane(client, notify)),
            (4, []) => Some(Self::CloseLane(lane)),
            (5, [notify]) => Notify::from_word(*notify).map(|notify| Self::SetNotify(lane, notify)),
            (6, []) => Balance::ALL.get(first as usize).map(|balance| Self::SetBalance(*balance)),
            (7, []) => Some(Self::Refill(client)),
            (8, []) => Some(Self::Idle(client)),
            (9, []) => Some(Self::MayTake(client)),
            (10, [now]) => Some(Self::Release(*now, device)),
            (11, [now, request, class, submitted]) => placed(lane, *now, *request, *class, *submitted),
            (12, [urgent @ (0 | 1)]) => Some(Self::Refuse { lane, urgent: *urgent == 1 }),
            (13, [what, took]) => class(u64::from(*what as u32)).map(|class| Self::Observe {
                device,
                class,
                size: (what >> 32) as u32,
                took: *took,
            }),
            (14, [ticket]) if first == 0 => Some(Self::Complete(Ticket::from_word(*ticket), None)),
            (14, [ticket, took]) if first == 1 => Some(Self::Complete(Ticket::from_word(*ticket), Some(*took))),
            (15, [now]) => Some(Self::Announce(*now, lane)),
            (16, [now]) => Some(Self::Due(*now, lane)),
            (17, [weight, rest @ ..]) => device_of(first, *weight, rest),
            (18, []) => Some(Self::Drain(device)),
            (19, []) => Some(Self::Lose(device)),
            (20, [now, ticket]) if first == 0 => Some(Self::Replace(*now, Ticket::from_word(*ticket))),
            (21, []) => Order::ALL.get(first as usize).map(|order| Self::SetOrder(*order)),
            (22, [now]) if first == 0 => Some(Self::Reprice(*now)),
            (1..=22, _) => None,
            _ => return Err(Malformed::Unknown(number)),
        };
        call.ok_or(Malformed::Arguments(number))
    }
}

/// Number of a rule: its place in the list of all.
pub(super) fn place_in<T: PartialEq>(all: &[T], rule: &T) -> u32 {
    all.iter().position(|other| other == rule).map_or(u32::MAX, |place| place as u32)
}

fn words<const N: usize>(to: &mut impl Words, number: u8, first: u32, words: [u64; N]) {
    to.begin(number, first);
    for word in words {
        to.put(word);
    }
}

fn place(to: &mut impl Words, now: Nanos, work: &Work) {
    let Work { lane, tag, class, size, urgent, submitted } = *work;
    let flags = if urgent { URGENT } else { 0 } | if submitted.is_some() { SAMPLED } else { 0 };
    let request = u64::from(tag) | u64::from(size) << 32;
    words(to, 11, lane.0, [now, request, class.index() as u64 | flags << 32, submitted.unwrap_or(0)]);
}

fn placed(lane: LaneId, now: Nanos, request: u64, what: u64, submitted: u64) -> Option<Call> {
    let (tag, size, flags) = (request as u32, (request >> 32) as u32, what >> 32);
    let sampled = flags & SAMPLED != 0;
    if flags & !(URGENT | SAMPLED) != 0 || !sampled && submitted != 0 {
        return None;
    }
    let (class, urgent) = (class(u64::from(what as u32))?, flags & URGENT != 0);
    Some(Call::Place(now, Work { lane, tag, class, size, urgent, submitted: sampled.then_some(submitted) }))
}

fn device_of(depth: u32, weight: u64, rest: &[u64]) -> Option<Call> {
    let immediate = weight & IMMEDIATE != 0;
    let weight = u32::try_from(weight & !IMMEDIATE).ok()?;
    let (classes, rates) = rest.split_first_chunk()?;
    let (classes, rates) = (Classes::from_words(*classes)?, Rates::from_words(rates)?);
    Some(Call::AddDevice(Capability { classes, immediate, depth, weight, rates }))
}

fn class(index: u64) -> Option<Class> {
    Class::from_index(usize::try_from(index).ok()?)
}
