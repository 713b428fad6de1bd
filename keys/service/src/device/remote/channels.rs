//! The channels of a link: one to each far service to which its gateway has a way.
//!
//! A channel is set up once the gateway offers the way, and again before it is worn, or after far has forgotten it. Every
//! second the link asks far for its keys: only what far lists, under the seal, counts as offered.

use crate::channel::{FarAnswer, Near, Page, Proposal};
use crate::config::MAX_SERVICES;
use crate::keys::Transfer;
use sidecore_client::channel::{Relayed, route};
use sidecore_client::gateway::{MAX_OFFERS, Operation, Outcome};
use sidecore_client::keys::transfer::Address;
use sidecore_client::spec::Scheme;
use sidecore_core::time::Nanos;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

const SECOND: Nanos = 1_000_000_000;
/// A set-up or question without an answer counts as lost after this time, ns.
const LOST: Nanos = SECOND;
/// Time between questions for keys, ns.
const QUESTIONS: Nanos = SECOND;
/// Shortest and longest time between two set-ups, ns.
const SET_UPS: (Nanos, Nanos) = (200_000_000, 5 * SECOND);
/// Age of a channel at which another one is set up, ns: half of what far permits.
const AGE: Nanos = 3600 * SECOND;
/// Lost questions in a row after which far counts as gone.
const MOST_LOST: u32 = 3;
/// Openings remembered for each channel. One more makes the least recently used one forgotten.
const MAX_OPENINGS: usize = 256;
/// From this number on, tickets are of no request, but of far services, by their places.
const CONTROL: u32 = u32::MAX - MAX_FAR as u32 + 1;
/// Most far services of a configuration, which it checks.
const MAX_FAR: usize = MAX_SERVICES;

/// Time of the latest set-up of this process, ms: later ones have later times, on every link.
static LATEST_MS: AtomicU64 = AtomicU64::new(0);

/// The seal of a request in flight.
#[derive(Clone, Debug)]
pub(super) struct Seal {
    far: usize,
    near: Rc<Near>,
    opening: u64,
    number: u64,
}

/// Far services, by their places.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FarSet(u64);

const _: () = assert!(MAX_FAR <= u64::BITS as usize, "each has a bit");

impl FarSet {
    fn has(self, place: usize) -> bool {
        self.0 & 1 << place != 0
    }
}

#[derive(Debug)]
struct Known {
    key: String,
    public: Box<[u8]>,
    scheme: Scheme,
    operation: Operation,
    number: u64,
    bytes: Vec<u8>,
}

/// A control message under way.
struct Asked {
    ticket: u64,
    since: Nanos,
    what: What,
}

enum What {
    SetUp(Box<Proposal>),
    Question(u64),
}

struct Far {
    address: Address,
    route: String,
    /// The gateway has a way to it.
    is_up: bool,
    near: Option<Rc<Near>>,
    near_since: Nanos,
    /// Far may have forgotten the channel.
    is_doubted: bool,
    asked: Option<Asked>,
    sequence: u32,
    set_up_at: Nanos,
    set_up_pause: Nanos,
    question_at: Nanos,
    lost: u32,
    openings: Vec<Known>,
    listing: BTreeMap<String, Vec<u8>>,
    keys: BTreeMap<String, Vec<u8>>,
    in_flight: usize,
}

/// A change of what far services have.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Offered(String, Vec<u8>),
    Withdrawn(String),
}

pub(super) struct Channels {
    own: Transfer,
    far: Vec<Far>,
    /// Public parts of the service's own keys, as far as they were offered.
    known: BTreeMap<String, Vec<u8>>,
    offered: BTreeMap<String, Vec<u8>>,
}

impl Channels {
    pub(super) fn new(own: Transfer, far: &[Address]) -> Self {
        let far = far.iter().take(MAX_FAR).map(|address| Far::new(*address)).collect();
        Self { own, far, known: BTreeMap::new(), offered: BTreeMap::new() }
    }

    /// The gateway has a way to the service of this address from now on, or none any more.
    pub(super) fn set_way(&mut self, name: &str, address: Option<&[u8]>, now: Nanos) -> Vec<News> {
        for far in self.far.iter_mut().filter(|far| far.route == name) {
            far.is_up = address.is_some_and(|address| *address == far.address.0);
            far.asked = None;
            // Ways that come and go make no more set-ups than others.
            (far.set_up_at, far.set_up_pause) = (far.set_up_at.min(now.saturating_add(SET_UPS.0)), SET_UPS.0);
            far.question_at = now;
            if !far.is_up {
                far.keys.clear();
            }
        }
        self.news()
    }

    /// The public part of the service's key of this name.
    pub(super) fn know(&mut self, key: String, public: Option<Vec<u8>>) -> Vec<News> {
        match public {
            Some(public) => drop(self.known.insert(key, public)),
            None => drop(self.known.remove(&key)),
        }
        self.news()
    }

    /// The next message that is due, with its ticket and the way that it takes.
    pub(super) fn due(&mut self, now: Nanos) -> Option<(u64, String, Vec<u8>)> {
        let Self { own, far, .. } = self;
        far.iter_mut().enumerate().find_map(|(place, far)| {
            let (ticket, message) = far.due(place, own, now)?;
            Some((ticket, far.route.clone(), Relayed::Control(&message).encode()))
        })
    }

    /// Whether this ticket is that of a far service.
    pub(super) fn is_control(ticket: u64) -> bool {
        ticket as u32 >= CONTROL
    }

    /// Takes an answer to a message of [`due`](Self::due).
    pub(super) fn answered(&mut self, ticket: u64, outcome: Outcome<'_>, now: Nanos) -> Vec<News> {
        let place = (ticket as u32 - CONTROL) as usize;
        let Some(far) = self.far.get_mut(place) else { return Vec::new() };
        match far.asked.take_if(|asked| asked.ticket == ticket) {
            Some(asked) => far.answered(asked.what, outcome, now),
            None => return Vec::new(),
        }
        self.news()
    }

    /// Seals a request to the far service that has the key and the fewest requests in flight, of those where it failed only
    /// if there is no other. `None`: none has the key.
    pub(super) fn seal(
        &mut self,
        (key, public, scheme): (&str, &[u8], &Scheme),
        operation: Operation,
        user: u32,
        input: &[u8],
        failed: FarSet,
    ) -> Option<(Seal, String, Vec<u8>)> {
        let has = |far: &Far| {
            far.near.is_some() && !far.is_doubted && far.keys.get(key).is_some_and(|listed| *listed == *public)
        };
        let able = self.far.iter().enumerate().filter(|(_, far)| has(far));
        let (place, _) = able.min_by_key(|(place, far)| (failed.has(*place), far.in_flight))?;
        let far = &mut self.far[place];
        let near = far.near.clone()?;
        let at = far.opening(&near, key, public, scheme, operation)?;
        let opening = &far.openings[at];
        let (number, sealed) = near.request(opening.number, user, input)?;
        let message = Relayed::Operation { opening: &opening.bytes, operation, sealed: &sealed }.encode();
        let seal = Seal { far: place, near, opening: opening.number, number };
        far.in_flight += 1;
        Some((seal, far.route.clone(), message))
    }

    /// A request failed there.
    pub(super) fn failed(seal: &Seal, failed: FarSet) -> FarSet {
        FarSet(failed.0 | 1 << seal.far)
    }

    /// A request has its answer, or none is awaited any more.
    pub(super) fn released(&mut self, seal: &Seal) {
        self.far[seal.far].in_flight -= 1;
    }

    /// What far says of a request. `None`: these bytes are not its answer.
    pub(super) fn open(seal: &Seal, answer: &[u8]) -> Option<FarAnswer> {
        seal.near.answer(seal.opening, seal.number, answer)
    }

    /// Somebody says that far has forgotten the channel of this request. It is believed as far as another set-up goes.
    pub(super) fn doubt(&mut self, seal: &Seal) {
        let far = &mut self.far[seal.far];
        far.is_doubted |= far.near.as_ref().is_some_and(|near| Rc::ptr_eq(near, &seal.near));
    }

    /// Whether some far service may have this key in a moment: its channel is being set up again.
    pub(super) fn may_have(&self, key: &str) -> bool {
        self.far.iter().any(|far| far.is_up && far.is_doubted && far.keys.contains_key(key))
    }

    fn news(&mut self) -> Vec<News> {
        let mut now = BTreeMap::<&String, &Vec<u8>>::new();
        for (key, public) in self.far.iter().filter(|far| far.near.is_some()).flat_map(|far| &far.keys) {
            let is_right = self.known.get(key).is_some_and(|known| known == public);
            if is_right || !now.contains_key(key) {
                now.insert(key, public);
            }
        }
        let gone = self.offered.keys().filter(|key| !now.contains_key(key));
        let mut news: Vec<News> = gone.map(|key| News::Withdrawn(key.clone())).collect();
        let is_new = |(key, public): &(&&String, &&Vec<u8>)| self.offered.get(**key) != Some(**public);
        news.extend(now.iter().filter(is_new).map(|(key, public)| News::Offered((*key).clone(), (*public).clone())));
        if !news.is_empty() {
            self.offered = now.into_iter().map(|(key, public)| (key.clone(), public.clone())).collect();
        }
        news
    }
}

impl Far {
    fn new(address: Address) -> Self {
        Self {
            address,
            route: route(&address),
            is_up: false,
            near: None,
            near_since: 0,
            is_doubted: false,
            asked: None,
            sequence: 0,
            set_up_at: 0,
            set_up_pause: SET_UPS.0,
            question_at: 0,
            lost: 0,
            openings: Vec::new(),
            listing: BTreeMap::new(),
            keys: BTreeMap::new(),
            in_flight: 0,
        }
    }

    fn due(&mut self, place: usize, own: &Transfer, now: Nanos) -> Option<(u64, Vec<u8>)> {
        if !self.is_up {
            return None;
        }
        if let Some(asked) = &self.asked {
            if now.saturating_sub(asked.since) < LOST {
                return None;
            }
            self.asked = None;
            self.lost();
        }
        let is_worn = |near: &Rc<Near>| near.is_worn() || now.saturating_sub(self.near_since) > AGE;
        let (what, message) = if self.is_doubted || self.near.as_ref().is_none_or(is_worn) {
            if now < self.set_up_at {
                return None;
            }
            self.set_up_at = now.saturating_add(self.set_up_pause);
            self.set_up_pause = (2 * self.set_up_pause).min(SET_UPS.1);
            let proposal = Proposal::new(own, self.address, later_ms())?;
            let message = proposal.message().to_vec();
            (What::SetUp(Box::new(proposal)), message)
        } else {
            if now < self.question_at {
                return None;
            }
            let after = self.listing.last_key_value().map(|(key, _)| key.as_str());
            let (number, message) = self.near.as_ref()?.question(after.unwrap_or_default())?;
            (What::Question(number), message)
        };
        self.sequence = self.sequence.wrapping_add(1);
        let ticket = u64::from(CONTROL + place as u32) | u64::from(self.sequence) << 32;
        self.asked = Some(Asked { ticket, since: now, what });
        Some((ticket, message))
    }

    fn answered(&mut self, what: What, outcome: Outcome<'_>, now: Nanos) {
        match (what, outcome) {
            (What::SetUp(proposal), Outcome::Done(answer)) => {
                if let Some(near) = proposal.accepted(answer) {
                    (self.near, self.near_since) = (Some(Rc::new(near)), now);
                    (self.is_doubted, self.lost, self.set_up_pause) = (false, 0, SET_UPS.0);
                    self.openings.clear();
                    self.listing.clear();
                    self.question_at = now;
                }
            }
            (What::Question(number), Outcome::Done(answer)) => {
                match self.near.as_ref().and_then(|near| near.page(number, answer)) {
                    Some(page) => self.listed(page, now),
                    None => self.is_doubted = true,
                }
            }
            // Without proof: what it costs is another set-up.
            (What::Question(_), _) => self.is_doubted = true,
            (What::SetUp(_), _) => {}
        }
    }

    fn listed(&mut self, Page { keys, more }: Page, now: Nanos) {
        self.lost = 0;
        let has_more = more && !keys.is_empty() && self.listing.len() < MAX_OFFERS;
        self.listing.extend(keys);
        if has_more {
            self.question_at = now;
        } else {
            self.keys = std::mem::take(&mut self.listing);
            self.question_at = now.saturating_add(QUESTIONS);
        }
    }

    fn lost(&mut self) {
        self.lost += 1;
        self.listing.clear();
        if self.lost >= MOST_LOST {
            self.is_doubted = true;
        }
    }

    /// Place of the opening for this key and operation. The one that was used last is at the end.
    fn opening(
        &mut self,
        near: &Near,
        key: &str,
        public: &[u8],
        scheme: &Scheme,
        operation: Operation,
    ) -> Option<usize> {
        let is_it = |known: &Known| {
            known.operation == operation && known.key == key && known.scheme == *scheme && *known.public == *public
        };
        if let Some(at) = self.openings.iter().rposition(is_it) {
            self.openings[at..].rotate_left(1);
        } else {
            let (number, bytes) = near.opening(key, public, scheme, operation)?;
            if self.openings.len() >= MAX_OPENINGS {
                self.openings.remove(0);
            }
            let (key, public, scheme) = (key.to_owned(), public.into(), scheme.clone());
            self.openings.push(Known { key, public, scheme, operation, number, bytes });
        }
        Some(self.openings.len() - 1)
    }
}

fn later_ms() -> u64 {
    let now = sidecore_ipc::sys::clock::wall_ms();
    let later = |latest: u64| Some(now.max(latest + 1));
    LATEST_MS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).map_or(now, |latest| now.max(latest + 1))
}
