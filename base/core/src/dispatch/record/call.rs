//! One call as words.
//!
//! The first word has the call's number in bits 0 to 7, the number of argument words in 8 to 23, that of the decision's
//! words in 24 to 31 and the first argument, mostly a name, in 32 to 63. Arguments follow, then the decision. A reader
//! that does not know a number can still tell where the next call begins.

use super::super::{Capability, ClientId, KeyLocation, LaneId, UserShare, Work};
use crate::inflight::Ticket;
use crate::policy::balance::{Balance, Measured, Rates};
use crate::policy::notify::Notify;
use crate::session::{Class, Classes};
use crate::time::Nanos;
use alloc::vec;

/// A call that changes or decides something, with its arguments.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is the method of `Dispatch` with that name")]
pub enum Call {
    AddClientOf { user: UserShare, weight: u32, credit: u32 },
    RemoveClient(ClientId),
    AddLane(ClientId, Notify),
    CloseLane(LaneId),
    SetNotify(LaneId, Notify),
    SetBalance(Balance),
    BeginTurn(ClientId, u64),
    Lack(ClientId),
    NextTurns,
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
    Activate(usize),
    Lose(usize),
    Reassign(Nanos, Ticket),
    Reprice(Nanos),
    Release(Nanos, usize),
    PassOn(Nanos, Ticket),
    Hold { device: usize, key: u16, holds: bool },
    Measured(usize, Measured),
    EstimateDevice { device: usize, weight: u32, rates: Rates },
}

const URGENT: u64 = 1;
const SAMPLED: u64 = 2;
const IMMEDIATE: u64 = 1 << 32;
const REMOTE_KEYS: u64 = 1 << 33;
/// First bit of the key's location, above the flags.
const KEY_LOCATION: u32 = 48;

impl Call {
    /// Calls have the numbers from 1 to this one.
    pub const KINDS: u8 = 28;

    /// Number and first argument; `put` takes the words of the others.
    pub fn encode(&self, mut put: impl FnMut(u64)) -> (u8, u32) {
        let mut call = |number, first, words: &[u64]| {
            for word in words {
                put(*word);
            }
            (number, first)
        };
        match self {
            Self::AddClientOf { user, weight, credit } => {
                let limits = u64::from(*credit) | u64::from(user.weight) << 32;
                call(1, *weight, &[limits, user.name.is_some().into(), user.name.unwrap_or(0)])
            }
            Self::RemoveClient(client) => call(2, client.0, &[]),
            Self::AddLane(client, notify) => call(3, client.0, &[notify.to_word()]),
            Self::CloseLane(lane) => call(4, lane.0, &[]),
            Self::SetNotify(lane, notify) => call(5, lane.0, &[notify.to_word()]),
            Self::SetBalance(balance) => call(6, place_in(&Balance::ALL, balance), &[]),
            Self::BeginTurn(client, round) => call(7, client.0, &[*round]),
            Self::Lack(client) => call(27, client.0, &[]),
            Self::NextTurns => call(28, 0, &[]),
            Self::Idle(client) => call(8, client.0, &[]),
            Self::MayTake(client) => call(9, client.0, &[]),
            Self::Release(now, device) => call(10, *device as u32, &[*now]),
            Self::Place(now, work) => {
                let Work { lane, tag, class, size, urgent, key_location, submitted } = *work;
                let flags = if urgent { URGENT } else { 0 } | if submitted.is_some() { SAMPLED } else { 0 };
                let request = u64::from(tag) | u64::from(size) << 32;
                let what = class.index() as u64 | flags << 32 | u64::from(key_location.to_number()) << KEY_LOCATION;
                call(11, lane.0, &[*now, request, what, submitted.unwrap_or(0)])
            }
            Self::Refuse { lane, urgent } => call(12, lane.0, &[u64::from(*urgent)]),
            Self::Observe { device, class, size, took } => {
                call(13, *device as u32, &[class.index() as u64 | u64::from(*size) << 32, *took])
            }
            Self::Complete(ticket, None) => call(14, 0, &[ticket.to_word()]),
            Self::Complete(ticket, Some(took)) => call(14, 1, &[ticket.to_word(), *took]),
            Self::Announce(now, lane) => call(15, lane.0, &[*now]),
            Self::Due(now, lane) => call(16, lane.0, &[*now]),
            Self::AddDevice(Capability { classes, immediate, remote_keys, depth, weight, rates }) => {
                let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
                let flags = flag(*immediate, IMMEDIATE) | flag(*remote_keys, REMOTE_KEYS);
                let mut words = vec![u64::from(*weight) | flags];
                words.extend(classes.to_words());
                rates.words(|word| words.push(word));
                call(17, *depth, &words)
            }
            Self::Drain(device) => call(18, *device as u32, &[]),
            Self::Lose(device) => call(19, *device as u32, &[]),
            Self::Activate(device) => call(25, *device as u32, &[]),
            Self::Reassign(now, ticket) => call(20, 0, &[*now, ticket.to_word()]),
            Self::Reprice(now) => call(22, 0, &[*now]),
            Self::PassOn(now, ticket) => call(23, 0, &[*now, ticket.to_word()]),
            Self::Hold { device, key, holds } => call(24, *device as u32, &[u64::from(*key) | u64::from(*holds) << 32]),
            Self::Measured(device, Measured { class, size, from, part, ends }) => {
                let mut words = vec![class.index() as u64 | u64::from(*size) << 32, (*from).into(), *part];
                words.extend(ends);
                call(26, *device as u32, &words)
            }
            Self::EstimateDevice { device, weight, rates } => {
                let mut words = vec![u64::from(*weight)];
                rates.words(|word| words.push(word));
                call(21, *device as u32, &words)
            }
        }
    }

    /// Reads a call back from its number, first argument and other arguments. `None`: there is no such call.
    pub fn decode(number: u8, first: u32, arguments: &[u64]) -> Option<Self> {
        let (client, lane, device) = (ClientId(first), LaneId(first), first as usize);
        Some(match (number, arguments) {
            (1, [limits, named @ (0 | 1), name]) if *named == 1 || *name == 0 => {
                let user = UserShare { name: (*named == 1).then_some(*name), weight: (limits >> 32) as u32 };
                Self::AddClientOf { user, weight: first, credit: *limits as u32 }
            }
            (2, []) => Self::RemoveClient(client),
            (3, [notify]) => Self::AddLane(client, Notify::from_word(*notify)?),
            (4, []) => Self::CloseLane(lane),
            (5, [notify]) => Self::SetNotify(lane, Notify::from_word(*notify)?),
            (6, []) => Self::SetBalance(*Balance::ALL.get(first as usize)?),
            (7, [round]) => Self::BeginTurn(client, *round),
            (27, []) => Self::Lack(client),
            (28, []) if first == 0 => Self::NextTurns,
            (8, []) => Self::Idle(client),
            (9, []) => Self::MayTake(client),
            (10, [now]) => Self::Release(*now, device),
            (11, [now, request, what, submitted]) => {
                let (tag, size, class, flags) =
                    (*request as u32, (request >> 32) as u32, class(*what)?, what << 16 >> 48);
                let key_location = KeyLocation::from_number((what >> KEY_LOCATION) as u16)?;
                let (urgent, sampled) = (flags & URGENT != 0, flags & SAMPLED != 0);
                if flags & !(URGENT | SAMPLED) != 0 || !sampled && *submitted != 0 {
                    return None;
                }
                let submitted = sampled.then_some(*submitted);
                Self::Place(*now, Work { lane, tag, class, size, urgent, key_location, submitted })
            }
            (12, [urgent @ (0 | 1)]) => Self::Refuse { lane, urgent: *urgent == 1 },
            (13, [what, took]) => {
                Self::Observe { device, class: class(*what)?, size: (what >> 32) as u32, took: *took }
            }
            (14, [ticket]) if first == 0 => Self::Complete(Ticket::from_word(*ticket), None),
            (14, [ticket, took]) if first == 1 => Self::Complete(Ticket::from_word(*ticket), Some(*took)),
            (15, [now]) => Self::Announce(*now, lane),
            (16, [now]) => Self::Due(*now, lane),
            (17, [weight, rest @ ..]) => {
                let (classes, rates) = rest.split_first_chunk()?;
                let (classes, rates) = (Classes::from_words(*classes)?, Rates::from_words(rates)?);
                let (immediate, remote_keys) = (weight & IMMEDIATE != 0, weight & REMOTE_KEYS != 0);
                let weight = u32::try_from(weight & !(IMMEDIATE | REMOTE_KEYS)).ok()?;
                Self::AddDevice(Capability { classes, immediate, remote_keys, depth: first, weight, rates })
            }
            (18, []) => Self::Drain(device),
            (19, []) => Self::Lose(device),
            (25, []) => Self::Activate(device),
            (20, [now, ticket]) if first == 0 => Self::Reassign(*now, Ticket::from_word(*ticket)),
            (22, [now]) if first == 0 => Self::Reprice(*now),
            (23, [now, ticket]) if first == 0 => Self::PassOn(*now, Ticket::from_word(*ticket)),
            (24, [what]) => {
                let (key, holds) = (u16::try_from(*what as u32).ok()?, what >> 32);
                let holds = (holds <= 1 && key < KeyLocation::PLACES).then_some(holds == 1)?;
                Self::Hold { device, key, holds }
            }
            (26, [what, from, part, ends @ ..]) => {
                let (class, size, from) = (class(*what)?, (what >> 32) as u32, u32::try_from(*from).ok()?);
                let ends = ends.try_into().ok()?;
                Self::Measured(device, Measured { class, size, from, part: *part, ends })
            }
            (21, [weight, rates @ ..]) => {
                let (weight, rates) = (u32::try_from(*weight).ok()?, Rates::from_words(rates)?);
                Self::EstimateDevice { device, weight, rates }
            }
            _ => return None,
        })
    }
}

/// Number of a rule: its place in the list of all.
pub(super) fn place_in<T: PartialEq>(all: &[T], rule: &T) -> u32 {
    all.iter().position(|other| other == rule).map_or(u32::MAX, |place| place as u32)
}

fn class(word: u64) -> Option<Class> {
    Class::from_index(word as u32 as usize)
}
