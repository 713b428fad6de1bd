//! The side of a channel that has the keys.

use super::cipher::{ANSWER_LABEL, Cipher, Flow, Plain, SET_UP_LABEL, answer_info, set_up_info};
use super::near::QUESTION;
use super::{Acceptance, Accepted, LINE, Message, Offer, Opening, Page, Purpose, Question, Verdict, decode, encode};
use crate::control::{RefusalCode, Refused};
use crate::ffi::hpke::Context;
use crate::keys::{Limiter, Transfer};
use aws_lc_rs::rand;
use sidecore_client::gateway::Operation;
use sidecore_client::keys::transfer::Address;
use sidecore_client::keys::{Usage, renewal_of};
use sidecore_client::spec::Scheme;
use sidecore_core::policy::replay::ReplayWindow;
use sidecore_core::session::Refusal;
use sidecore_core::time::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// Most channels of one near service: each of its gateways has one, and a new one beside it for a moment.
const MAX_CHANNELS: usize = 16;
/// A channel ends after this time, ns. Near sets up another one after half of it.
const MAX_AGE: Nanos = 2 * 3_600_000_000_000;

/// What a near service may have done, as the configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The near service.
    pub address: Address,
    /// Names of keys; renewals of a key have its rights.
    pub keys: Vec<String>,
    /// Operations.
    pub usage: Usage,
    /// Most operations a second, of all these keys together.
    pub rate: Option<u32>,
}

#[derive(Debug)]
struct Rule {
    keys: Vec<String>,
    usage: Usage,
    limiter: Limiter,
    /// Refusals for the limit that are not logged yet, and the last user whom near named.
    refused: AtomicU64,
    user: AtomicU32,
}

impl Rule {
    fn permits(&self, key: &str, usage: Usage) -> bool {
        let is_named = |name: &String| name == key || renewal_of(name, key).is_some();
        self.usage.contains(usage) && self.keys.iter().any(is_named)
    }
}

#[derive(Debug)]
struct Peer {
    address: Address,
    rules: Vec<Arc<Rule>>,
    /// Time of the latest set-up, by near's clock. Earlier ones are repetitions.
    latest_ms: Option<u64>,
}

/// The services that have requests done here, and their channels.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    peers: Vec<Peer>,
    /// In the order of their set-ups.
    channels: Vec<Arc<Channel>>,
}

/// Refusals of a rule since the last look: for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Limited {
    pub(crate) address: Address,
    pub(crate) count: u64,
    pub(crate) user: u32,
}

/// What does not come from a service that is served here, or is not permitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// Nobody is served.
    #[error("this service does requests of no other: name one under serve_to in its configuration's [keys]")]
    Nobody,
    /// The address is not in the configuration.
    #[error(
        "this service does no requests of address {0}: if it is that of `sidecore keys address` there, name a file with it \
         under serve_to in this service's configuration, and start the service anew"
    )]
    NotServed(Address),
    /// It is for another service.
    #[error(
        "the message is for address {to}, and this service's is {own}: put the right one into the configuration there"
    )]
    OtherService {
        /// The address in the message.
        to: Address,
        /// This service's.
        own: Address,
    },
    /// No message of this version.
    #[error("this is no message of this version: install the same version of sidecore on both machines")]
    Foreign,
    /// It does not open.
    #[error("the message was changed on its way, or its sender has another address than it says")]
    Damaged,
    /// It comes again, or late.
    #[error(
        "a later set-up of address {0} came before this one: it is a repetition, or the clock of that machine went back"
    )]
    Repeated(Address),
    /// The channel is gone.
    #[error("there is no such channel: it ended, or this service was started anew; it is set up again")]
    NoChannel,
    /// The configuration does not permit it.
    #[error("address {address} may not {usage} with key {key:?}: see serve_to in this service's configuration")]
    NotPermitted {
        /// The near service.
        address: Address,
        /// The key's name.
        key: String,
        /// The operation.
        usage: Usage,
    },
    /// The near service knows another key of this name.
    #[error("key {0:?} here is another one than the asking service knows: import its public part there again")]
    AnotherKey(String),
    /// The crypto library failed.
    #[error("the crypto library failed: try again")]
    Library,
}

impl From<ServeError> for Refused {
    fn from(error: ServeError) -> Self {
        let code = match error {
            ServeError::NoChannel => RefusalCode::NoChannel,
            ServeError::NotServed(_) | ServeError::NotPermitted { .. } => RefusalCode::NotAllowed,
            ServeError::AnotherKey(_) => RefusalCode::NoKey,
            _ => RefusalCode::Other,
        };
        Self::new(code, error.to_string())
    }
}

/// A channel, as far has it.
#[derive(Debug)]
pub(crate) struct Channel {
    number: u64,
    address: Address,
    cipher: Cipher,
    window: Mutex<ReplayWindow>,
    since: Nanos,
    /// A message came: near has the answer to its set-up.
    is_used: AtomicBool,
    is_ended: AtomicBool,
}

impl Channel {
    /// Opens a message with a number that came never before.
    fn take(&self, bound_to: u64, number: u64, sealed: &[u8]) -> Option<Plain> {
        let plain = self.cipher.open_near(Flow::Message, number, bound_to, sealed)?;
        // Only now is the number known to be near's.
        let is_new = self.window.lock().unwrap_or_else(PoisonError::into_inner).take(number);
        self.is_used.store(true, Ordering::Relaxed);
        is_new.then_some(plain)
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }
}

/// The right of a near service to one operation with one key.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    channel: Arc<Channel>,
    opening: u64,
    rule: Arc<Rule>,
    pub(crate) operation: Operation,
}

/// A request that was opened.
pub(crate) struct Taken {
    number: u64,
    plain: Plain,
}

impl Taken {
    /// The user at near, and the input.
    pub(crate) fn work(&self) -> Option<(u32, &[u8])> {
        self.plain.read().map(|super::Work { user, input }| (user, input))
    }
}

impl Grant {
    /// Whether the configuration permits it for the key of this name, which may have been renamed.
    pub(crate) fn permits(&self, key: &str) -> bool {
        self.rule.permits(key, self.usage())
    }

    pub(crate) fn usage(&self) -> Usage {
        usage_of(self.operation)
    }

    pub(crate) fn address(&self) -> Address {
        self.channel.address
    }

    /// Opens a request, once.
    pub(crate) fn take(&self, request: &[u8]) -> Result<Taken, Refusal> {
        if self.channel.is_ended.load(Ordering::Relaxed) {
            return Err(Refusal::NoSession);
        }
        let (number, sealed) = request.split_first_chunk().ok_or(Refusal::InputLength)?;
        let number = u64::from_le_bytes(*number);
        let plain = self.channel.take(self.opening, number, sealed).ok_or(Refusal::Authentication)?;
        Ok(Taken { number, plain })
    }

    /// Counts the request against the limit of its near service.
    pub(crate) fn admits(&self, user: u32, now: impl FnOnce() -> Nanos) -> bool {
        let rule = &self.rule;
        if !rule.limiter.is_on() || rule.limiter.admits(now()) {
            return true;
        }
        rule.user.store(user, Ordering::Relaxed);
        rule.refused.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// The answer, which opens for this request only.
    pub(crate) fn seal(&self, taken: &Taken, outcome: Result<&[u8], Refusal>) -> Option<Vec<u8>> {
        let verdict = match outcome {
            Ok(result) => Verdict::Done(result),
            Err(refusal) => Verdict::Refused(refusal as u8),
        };
        self.channel.cipher.seal_far(taken.number, self.opening, &verdict)
    }
}

/// What an opening asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) key: String,
    pub(crate) public: [u8; 32],
    pub(crate) scheme: Scheme,
    pub(crate) grant: Grant,
}

impl Serving {
    pub(crate) fn new(served: Vec<Served>) -> Self {
        let mut peers = Vec::<Peer>::new();
        for Served { address, keys, usage, rate } in served {
            let limiter = Limiter::new(rate);
            let rule = Arc::new(Rule { keys, usage, limiter, refused: AtomicU64::new(0), user: AtomicU32::new(0) });
            match peers.iter_mut().find(|peer| peer.address == address) {
                Some(peer) => peer.rules.push(rule),
                None => peers.push(Peer { address, rules: vec![rule], latest_ms: None }),
            }
        }
        Self { peers, channels: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Answers a set-up or a question. `page`: the keys after a name that fulfil a condition. After a set-up, the address of
    /// the near service comes with it.
    pub(crate) fn answer(
        &mut self,
        own: &Transfer,
        message: &[u8],
        now: Nanos,
        page: impl FnOnce(&str, &dyn Fn(&str) -> bool) -> Page,
    ) -> Result<(Vec<u8>, Option<Address>), ServeError> {
        match decode(message).ok_or(ServeError::Foreign)? {
            Message::SetUp { to, from, encapsulated, sealed } => {
                if to != own.address {
                    return Err(ServeError::OtherService { to, own: own.address });
                }
                let answer = self.set_up(own, message, (from, encapsulated, sealed), now)?;
                Ok((answer, Some(from)))
            }
            Message::Question { channel, number, sealed } => {
                let channel = self.channel(channel)?;
                let plain = channel.take(QUESTION, number, &sealed).ok_or(ServeError::Damaged)?;
                let Question { after } = plain.read().ok_or(ServeError::Damaged)?;
                let rules = self.peers.iter().find(|peer| peer.address == channel.address);
                let rules = &rules.ok_or(ServeError::NoChannel)?.rules;
                let is_named = |key: &str| rules.iter().any(|rule| rule.permits(key, Usage::NONE));
                let sealed = channel.cipher.seal_far(number, QUESTION, &page(after, &is_named));
                Ok(([LINE, &sealed.ok_or(ServeError::Library)?].concat(), None))
            }
        }
    }

    fn set_up(
        &mut self,
        own: &Transfer,
        message: &[u8],
        (from, encapsulated, sealed): (Address, [u8; 32], Vec<u8>),
        now: Nanos,
    ) -> Result<Vec<u8>, ServeError> {
        let peer = self.peers.iter_mut().find(|peer| peer.address == from).ok_or(ServeError::NotServed(from))?;
        let info = set_up_info(&from, &own.address);
        let mut context = Context::from(&from.0, &encapsulated, own.private(), &info).ok_or(ServeError::Damaged)?;
        let plain = context.open(&sealed, &[]).ok_or(ServeError::Damaged)?;
        let Ok((Offer { set_up, sent_ms, answer_to }, [])) = postcard::take_from_bytes(&plain) else {
            return Err(ServeError::Foreign);
        };
        if peer.latest_ms.is_some_and(|latest| sent_ms <= latest) {
            return Err(ServeError::Repeated(from));
        }
        let mut number = [0; 8];
        rand::fill(&mut number).map_err(|_| ServeError::Library)?;
        let number = u64::from_le_bytes(number);
        let answer = Context::to(&Address(answer_to).0, own.private(), &answer_info(message));
        let (mut answer, encapsulated) = answer.ok_or(ServeError::Damaged)?;
        let acceptance = postcard::to_stdvec(&Acceptance { set_up, channel: number });
        let sealed = answer.seal(&acceptance.map_err(|_| ServeError::Library)?, &[]).ok_or(ServeError::Library)?;
        let accepted = Accepted { encapsulated, sealed };
        let secret = |context: &Context, label| context.export(label).map(Zeroizing::new).ok_or(ServeError::Library);
        let (first, second) = (secret(&context, SET_UP_LABEL)?, secret(&answer, ANSWER_LABEL)?);
        let cipher = Cipher::new([&first, &second], message, &accepted).ok_or(ServeError::Library)?;
        peer.latest_ms = Some(sent_ms);
        self.make_room(from);
        self.channels.push(Arc::new(Channel {
            number,
            address: from,
            cipher,
            window: Mutex::default(),
            since: now,
            is_used: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
        }));
        Ok(encode(&accepted))
    }

    /// Ends the oldest channel of a near service that has all it may have: one that was never used, if there is one.
    fn make_room(&mut self, of: Address) {
        let own = self.channels.iter().enumerate().filter(|(_, channel)| channel.address == of);
        let (count, unused) = own.clone().fold((0, None), |(count, unused), (at, channel)| {
            (count + 1, unused.or((!channel.is_used.load(Ordering::Relaxed)).then_some(at)))
        });
        if count >= MAX_CHANNELS
            && let Some(at) = unused.or(own.map(|(at, _)| at).next())
        {
            self.channels.remove(at).end();
        }
    }

    fn channel(&self, number: u64) -> Result<&Arc<Channel>, ServeError> {
        self.channels.iter().find(|channel| channel.number == number).ok_or(ServeError::NoChannel)
    }

    /// Reads what opens a session, and checks that the configuration permits it.
    pub(crate) fn asked(&self, opening: &[u8]) -> Result<Asked, ServeError> {
        if self.is_empty() {
            return Err(ServeError::Nobody);
        }
        let Ok((Opening { channel, number, sealed }, [])) = postcard::take_from_bytes(opening) else {
            return Err(ServeError::Foreign);
        };
        let channel = self.channel(channel)?;
        let plain = channel.cipher.open_near(Flow::Opening, number, channel.number, &sealed);
        let purpose = plain.ok_or(ServeError::Damaged)?;
        let Purpose { key, public, scheme, operation } = purpose.read().ok_or(ServeError::Foreign)?;
        let address = channel.address;
        let peer = self.peers.iter().find(|peer| peer.address == address).ok_or(ServeError::NoChannel)?;
        let usage = usage_of(operation);
        let rule = peer.rules.iter().find(|rule| rule.permits(&key, usage));
        let Some(rule) = rule.filter(|_| Usage::of_scheme(&scheme) == usage) else {
            return Err(ServeError::NotPermitted { address, key: key.chars().take(80).collect(), usage });
        };
        let grant = Grant { channel: channel.clone(), opening: number, rule: rule.clone(), operation };
        Ok(Asked { key, public, scheme, grant })
    }

    /// Ends channels that are too old, to be called every second.
    pub(crate) fn expire(&mut self, now: Nanos) {
        self.channels.retain(|channel| {
            let is_old = now.saturating_sub(channel.since) > MAX_AGE;
            if is_old {
                channel.end();
            }
            !is_old
        });
    }

    /// Refusals for limits since the last call.
    pub(crate) fn take_limited(&self) -> Vec<Limited> {
        let rules = self.peers.iter().flat_map(|peer| peer.rules.iter().map(|rule| (peer.address, rule)));
        let limited = rules.map(|(address, rule)| {
            let count = rule.refused.swap(0, Ordering::Relaxed);
            Limited { address, count, user: rule.user.load(Ordering::Relaxed) }
        });
        limited.filter(|limited| limited.count > 0).collect()
    }
}

fn usage_of(operation: Operation) -> Usage {
    match operation {
        Operation::Sign | Operation::SignDigest => Usage::SIGN,
        Operation::Decrypt => Usage::DECRYPT,
        Operation::Derive | Operation::Decapsulate => Usage::DERIVE,
    }
}
