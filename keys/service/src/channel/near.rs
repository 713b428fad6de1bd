//! The side of a channel that asks.

use super::cipher::{ANSWER_LABEL, Cipher, Flow, SET_UP_LABEL, answer_info, set_up_info};
use super::{
    Acceptance, Accepted, LINE, Message, Offer, Opening, Page, Purpose, Question, Verdict, Work, decode, encode,
};
use crate::ffi::hpke::{Context, KEY_LEN, public_of};
use crate::keys::Transfer;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use sidecore_client::gateway::Operation;
use sidecore_client::keys::transfer::Address;
use sidecore_client::spec::Scheme;
use sidecore_core::session::Refusal;
use std::cell::Cell;
use zeroize::Zeroizing;

/// Messages of a channel after which near sets up another one.
const MAX_MESSAGES: u64 = 1 << 32;

/// A set-up that was sent, or is about to be.
pub(crate) struct Proposal {
    message: Vec<u8>,
    set_up: u64,
    far: Address,
    answer_to: Box<Zeroizing<[u8; KEY_LEN]>>,
    exported: Box<Zeroizing<[u8; 32]>>,
}

impl Proposal {
    /// `sent_ms`: later than that of each set-up before. `None`: the system gives no random numbers, or the address is no
    /// public key.
    pub(crate) fn new(own: &Transfer, far: Address, sent_ms: u64) -> Option<Self> {
        let (mut set_up, mut answer_to) = ([0; 8], Box::new(Zeroizing::new([0; KEY_LEN])));
        rand::fill(&mut set_up).ok()?;
        rand::fill(answer_to.as_mut_slice()).ok()?;
        let set_up = u64::from_le_bytes(set_up);
        let (mut context, encapsulated) = Context::to(&far.0, own.private(), &set_up_info(&own.address, &far))?;
        let offer = Offer { set_up, sent_ms, answer_to: public_of(&answer_to)? };
        let sealed = context.seal(&postcard::to_stdvec(&offer).ok()?, &[])?;
        let message = encode(&Message::SetUp { to: far, from: own.address, encapsulated, sealed });
        let exported = Box::new(Zeroizing::new(context.export(SET_UP_LABEL)?));
        Some(Self { message, set_up, far, answer_to, exported })
    }

    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// `None`: this is not far's answer to this set-up.
    pub(crate) fn accepted(&self, answer: &[u8]) -> Option<Near> {
        let accepted: Accepted = decode(answer)?;
        let info = answer_info(&self.message);
        let mut context = Context::from(&self.far.0, &accepted.encapsulated, &self.answer_to, &info)?;
        let plain = context.open(&accepted.sealed, &[])?;
        let Ok((Acceptance { set_up, channel }, [])) = postcard::take_from_bytes(&plain) else { return None };
        let exported = Zeroizing::new(context.export(ANSWER_LABEL)?);
        let cipher = Cipher::new([&self.exported, &exported], &self.message, &accepted)?;
        (set_up == self.set_up).then_some(Near { channel, cipher, next: Cell::new(0), openings: Cell::new(0) })
    }
}

/// What far says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FarAnswer {
    Done(Zeroizing<Vec<u8>>),
    Refused(Refusal),
}

/// A channel, as near has it.
#[derive(Debug)]
pub(crate) struct Near {
    channel: u64,
    cipher: Cipher,
    next: Cell<u64>,
    openings: Cell<u64>,
}

impl Near {
    /// Whether another one is to be set up soon.
    pub(crate) fn is_worn(&self) -> bool {
        self.next.get() >= MAX_MESSAGES || self.openings.get() >= MAX_MESSAGES
    }

    /// For a key with this public part. Returns its number as well, to which requests are bound.
    pub(crate) fn opening(
        &self,
        key: &str,
        public: &[u8],
        scheme: &Scheme,
        operation: Operation,
    ) -> Option<(u64, Vec<u8>)> {
        let number = self.openings.replace(self.openings.get() + 1);
        let public = sha256(public);
        let purpose = Purpose { key: key.to_owned(), public, scheme: scheme.clone(), operation };
        let sealed = self.cipher.seal_near(Flow::Opening, number, self.channel, &purpose)?;
        postcard::to_stdvec(&Opening { channel: self.channel, number, sealed }).ok().map(|opening| (number, opening))
    }

    /// A request on the session of this opening, and its number.
    pub(crate) fn request(&self, opening: u64, user: u32, input: &[u8]) -> Option<(u64, Vec<u8>)> {
        let number = self.number();
        let sealed = self.cipher.seal_near(Flow::Message, number, opening, &Work { user, input })?;
        Some((number, [&number.to_le_bytes()[..], &sealed].concat()))
    }

    /// `None`: these bytes are not far's answer to that request.
    pub(crate) fn answer(&self, opening: u64, number: u64, sealed: &[u8]) -> Option<FarAnswer> {
        let plain = self.cipher.open_far(number, opening, sealed)?;
        Some(match plain.read()? {
            Verdict::Done(result) => FarAnswer::Done(Zeroizing::new(result.to_vec())),
            Verdict::Refused(reason) => FarAnswer::Refused(Refusal::from_u8(reason)?),
        })
    }

    /// Asks for the keys after this name. Returns the question's number as well.
    pub(crate) fn question(&self, after: &str) -> Option<(u64, Vec<u8>)> {
        let number = self.number();
        let sealed = self.cipher.seal_near(Flow::Message, number, QUESTION, &Question { after })?;
        Some((number, encode(&Message::Question { channel: self.channel, number, sealed })))
    }

    /// `None`: these bytes are not far's answer to that question.
    pub(crate) fn page(&self, number: u64, answer: &[u8]) -> Option<Page> {
        self.cipher.open_far(number, QUESTION, answer.strip_prefix(LINE)?)?.read()
    }

    fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }
}

/// In the place of an opening's number: questions are on no session.
pub(super) const QUESTION: u64 = u64::MAX;

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().unwrap_or_default()
}
