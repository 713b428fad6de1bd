//! What gateways and key servers say to each other: `postcard` behind a byte with the version. Decoding is total.
//!
//! Each message names the gateway and the key server's incarnation that are meant by numbers of their own choice: what is
//! under way while one of them starts again is for nobody.

use serde::{Deserialize, Serialize};
use sidecore_client::gateway::{MAX_INPUT, MAX_OFFERS, MAX_RESULT, Offer, Outcome, Request};
use sidecore_core::time::Nanos;

/// First byte of each message.
const VERSION: u8 = 1;
/// Most requests or answers in one message.
pub(super) const MOST: usize = 1024;

/// A gateway is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Presence {
    /// Its number.
    pub(super) gateway: u64,
    /// Incarnations of the key servers that it knows. One that is not among them joins again.
    pub(super) members: Vec<u64>,
}

/// Requests for one key of one key server.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Asks<'a> {
    pub(super) gateway: u64,
    pub(super) incarnation: u64,
    #[serde(borrow)]
    pub(super) list: Vec<Request<'a>>,
}

/// What a key server says to a gateway.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Letter<'a> {
    pub(super) gateway: u64,
    pub(super) incarnation: u64,
    #[serde(borrow)]
    pub(super) up: Up<'a>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Up<'a> {
    /// It does so many requests at a time, with these keys.
    Join {
        slots: u16,
        #[serde(borrow)]
        offers: Vec<Offer<'a>>,
    },
    /// It is there, and has received and answered so many requests since it joined.
    Beat { received: u64, answered: u64 },
    /// What became of requests.
    #[serde(borrow)]
    Answers(Vec<Answer<'a>>),
    /// It takes no more requests, and answers those that it has.
    Leave,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer<'a> {
    pub(super) ticket: u64,
    /// How long the key server had the request.
    pub(super) held_ns: Nanos,
    /// How long its service took.
    pub(super) work_ns: Nanos,
    #[serde(borrow)]
    pub(super) outcome: Outcome<'a>,
}

/// Makes a message.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Writing to memory fails for no message here: lengths of all lists are known.
    postcard::to_extend(message, vec![VERSION]).unwrap_or_default()
}

/// `None`: these bytes are no such message of this version.
pub(super) fn presence(bytes: &[u8]) -> Option<Presence> {
    decode(bytes)
}

/// Requests that came on the subject of this key. `None`: these bytes are no such message of this version, are beyond the
/// limits, or ask for another key: NATS has seen who may ask for the one of the subject.
pub(super) fn asks<'a>(bytes: &'a [u8], key: &str) -> Option<Asks<'a>> {
    let asks: Asks<'_> = decode(bytes)?;
    let good = |request: &Request<'_>| request.key == key && request.input.len() <= MAX_INPUT;
    (asks.list.len() <= MOST && asks.list.iter().all(good)).then_some(asks)
}

/// `None`: these bytes are no such message of this version, or beyond the limits.
pub(super) fn letter(bytes: &[u8]) -> Option<Letter<'_>> {
    let letter: Letter<'_> = decode(bytes)?;
    let bounded = |answer: &Answer<'_>| !matches!(answer.outcome, Outcome::Done(result) if result.len() > MAX_RESULT);
    let good = match &letter.up {
        Up::Join { offers, .. } => offers.len() <= MAX_OFFERS && offers.iter().all(Offer::is_bounded),
        Up::Answers(list) => list.len() <= MOST && list.iter().all(bounded),
        Up::Beat { .. } | Up::Leave => true,
    };
    good.then_some(letter)
}

fn decode<'a, M: Deserialize<'a>>(bytes: &'a [u8]) -> Option<M> {
    let (&VERSION, body) = bytes.split_first()? else { return None };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Some(message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::gateway::Operation;
    use sidecore_client::spec::Scheme;

    #[test]
    fn messages_survive_the_way_and_nothing_else_is_one() {
        let request =
            Request { ticket: 7, key: "www", scheme: Scheme::Ed25519, operation: Operation::Sign, input: &[1; 40] };
        let asked = Asks { gateway: 1, incarnation: 2, list: vec![request] };
        let bytes = encode(&asked);
        assert_eq!(asks(&bytes, "www").as_ref(), Some(&asked));
        let join = Up::Join { slots: 3, offers: vec![Offer { key: "www", public: &[9; 60] }] };
        let answer = Answer { ticket: 7, held_ns: 5, work_ns: 4, outcome: Outcome::Done(&[8; 64]) };
        for up in [join, Up::Beat { received: 2, answered: 1 }, Up::Answers(vec![answer]), Up::Leave] {
            let said = Letter { gateway: 1, incarnation: u64::MAX, up };
            let bytes = encode(&said);
            assert_eq!(letter(&bytes).as_ref(), Some(&said));
            for cut in 0..bytes.len() {
                assert_eq!(letter(&bytes[..cut]), None);
            }
        }
        let there = Presence { gateway: 1, members: vec![2, 3] };
        let mut bytes = encode(&there);
        assert_eq!(presence(&bytes), Some(there));
        bytes[0] += 1;
        assert_eq!(presence(&bytes), None, "another version");
    }

    #[test]
    fn a_request_for_another_key_than_the_subjects_is_none() {
        let request = |key| Request { ticket: 7, key, scheme: Scheme::Ed25519, operation: Operation::Sign, input: &[] };
        let bytes = encode(&Asks { gateway: 1, incarnation: 2, list: vec![request("www"), request("secret")] });
        assert_eq!((asks(&bytes, "www"), asks(&bytes, "secret")), (None, None));
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused() {
        let answer = || Answer { ticket: 7, held_ns: 5, work_ns: 4, outcome: Outcome::Elsewhere };
        let list = (0..=MOST).map(|_| answer()).collect();
        assert_eq!(letter(&encode(&Letter { gateway: 1, incarnation: 2, up: Up::Answers(list) })), None);
        let result = vec![0; MAX_RESULT + 1];
        let large = Answer { outcome: Outcome::Done(&result), ..answer() };
        assert_eq!(letter(&encode(&Letter { gateway: 1, incarnation: 2, up: Up::Answers(vec![large]) })), None);
    }
}
