//! Messages between gateways and key servers: `postcard` behind a byte with the version. Decoding is total.
//!
//! Each message names the gateway and the key server's incarnation by numbers of their own choice. After a restart of
//! either, messages under way match neither.

use serde::{Deserialize, Serialize};
use sidecore_client::gateway::{MAX_INPUT, MAX_OFFERS, MAX_RESULT, Offer, Outcome, Request};
use sidecore_core::time::Nanos;

pub(crate) const VERSION: u8 = 3;
/// Key servers of this version answer gateways of their own alone.
const FIRST_VERSION: u8 = 1;
pub(crate) const MAX_LIST: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    pub(crate) gateway: u64,
    /// Incarnations of the key servers that it knows. A key server that is missing here joins again.
    pub(crate) members: Vec<u64>,
    /// When it was sent, by the gateway's clock.
    pub(crate) sent: Nanos,
}

/// The last presence that a key server heard, and how long ago: so the gateway knows the round trip, without equal
/// clocks, as in reports of RTP (RFC 3550, 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Echo {
    pub(crate) sent: Nanos,
    pub(crate) held_ns: Nanos,
}

impl Echo {
    /// Time under way, both ways. `None`: it is of no presence before this time.
    pub(crate) fn way(self, now: Nanos) -> Option<Nanos> {
        now.checked_sub(self.sent)?.checked_sub(self.held_ns).filter(|_| self.sent > 0)
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestBatch<'a> {
    pub(crate) gateway: u64,
    pub(crate) incarnation: u64,
    #[serde(borrow)]
    pub(crate) list: Vec<Request<'a>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerMessage<'a> {
    pub(crate) gateway: u64,
    pub(crate) incarnation: u64,
    pub(crate) echo: Echo,
    #[serde(borrow)]
    pub(crate) body: MessageBody<'a>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum MessageBody<'a> {
    /// It does `slots` requests at a time, with these keys.
    Join {
        slots: u16,
        #[serde(borrow)]
        offers: Vec<Offer<'a>>,
    },
    /// Its beat: numbers of requests received and answered since it joined.
    Beat { received: u64, answered: u64 },
    #[serde(borrow)]
    Answers(Vec<Answer<'a>>),
    /// It takes no more requests, and answers its open ones.
    Leave,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer<'a> {
    pub(crate) ticket: u64,
    /// Time from arrival at the key server to this answer.
    pub(crate) held_ns: Nanos,
    pub(crate) work_ns: Nanos,
    #[serde(borrow)]
    pub(crate) outcome: Outcome<'a>,
}

pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Serialising to memory does not fail: lengths of all lists are known.
    postcard::to_extend(message, vec![VERSION]).unwrap_or_default()
}

/// The version of a message, if it is another one than this program's.
pub(crate) fn other_version(bytes: &[u8]) -> Option<u8> {
    bytes.first().copied().filter(|version| *version != VERSION)
}

/// Answers a gateway of another version, which cannot read more of it than the version.
pub(crate) fn version_notice() -> Vec<u8> {
    vec![VERSION]
}

/// A presence to which key servers of the first version answer.
pub(crate) fn first_presence(gateway: u64) -> Vec<u8> {
    let nobody: [u64; 0] = [];
    postcard::to_extend(&(gateway, &nobody[..]), vec![FIRST_VERSION]).unwrap_or_default()
}

/// Whether it is such a presence, perhaps of a gateway of this version.
pub(crate) fn is_first_presence(bytes: &[u8]) -> bool {
    bytes.first() == Some(&FIRST_VERSION)
}

/// `None`: these bytes are no such message of this version.
pub(crate) fn presence(bytes: &[u8]) -> Option<Presence> {
    decode(bytes)
}

/// Requests that came on the subject of this key. `None`: these bytes are no such message of this version, exceed the
/// limits, or ask for another key: NATS has only checked the subject's permission.
pub(crate) fn request_batch<'a>(bytes: &'a [u8], key: &str) -> Option<RequestBatch<'a>> {
    let batch: RequestBatch<'_> = decode(bytes)?;
    let good = |request: &Request<'_>| request.key == key && request.input.len() <= MAX_INPUT;
    (batch.list.len() <= MAX_LIST && batch.list.iter().all(good)).then_some(batch)
}

/// `None`: these bytes are no such message of this version, or exceed the limits.
pub(crate) fn server_message(bytes: &[u8]) -> Option<ServerMessage<'_>> {
    let message: ServerMessage<'_> = decode(bytes)?;
    let bounded = |answer: &Answer<'_>| !matches!(answer.outcome, Outcome::Done(result) if result.len() > MAX_RESULT);
    let good = match &message.body {
        MessageBody::Join { offers, .. } => offers.len() <= MAX_OFFERS && offers.iter().all(Offer::is_bounded),
        MessageBody::Answers(list) => list.len() <= MAX_LIST && list.iter().all(bounded),
        MessageBody::Beat { .. } | MessageBody::Leave => true,
    };
    good.then_some(message)
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
    use sidecore_client::gateway::{Operation, Task};
    use sidecore_client::spec::Scheme;

    const TASK: Task = Task::Open { scheme: Scheme::Ed25519, operation: Operation::Sign };

    #[test]
    fn messages_survive_the_way_and_nothing_else_is_one() {
        let request = Request { ticket: 7, key: "www", task: TASK, input: &[1; 40] };
        let asked = RequestBatch { gateway: 1, incarnation: 2, list: vec![request] };
        let bytes = encode(&asked);
        assert_eq!(request_batch(&bytes, "www").as_ref(), Some(&asked));
        let join = MessageBody::Join { slots: 3, offers: vec![Offer { key: "www", public: &[9; 60] }] };
        let answer = Answer { ticket: 7, held_ns: 5, work_ns: 4, outcome: Outcome::Done(&[8; 64]) };
        for body in [
            join,
            MessageBody::Beat { received: 2, answered: 1 },
            MessageBody::Answers(vec![answer]),
            MessageBody::Leave,
        ] {
            let echo = Echo { sent: 5, held_ns: 3 };
            let said = ServerMessage { gateway: 1, incarnation: u64::MAX, echo, body };
            let bytes = encode(&said);
            assert_eq!(server_message(&bytes).as_ref(), Some(&said));
            for cut in 0..bytes.len() {
                assert_eq!(server_message(&bytes[..cut]), None);
            }
        }
        let there = Presence { gateway: 1, members: vec![2, 3], sent: 4 };
        let mut bytes = encode(&there);
        assert_eq!(presence(&bytes), Some(there));
        assert_eq!(other_version(&bytes), None);
        bytes[0] += 1;
        assert_eq!((presence(&bytes), other_version(&bytes)), (None, Some(VERSION + 1)));
        assert_eq!((other_version(&version_notice()), other_version(&[])), (None, None));
        let first = first_presence(300);
        assert_eq!((&first[..], is_first_presence(&first)), (&[1, 0xac, 2, 0][..], true));
    }

    #[test]
    fn an_echo_tells_the_round_trip_and_nothing_false_about_it() {
        let way = |sent, held_ns| Echo { sent, held_ns }.way(100);
        assert_eq!((way(40, 10), way(100, 0)), (Some(50), Some(0)));
        assert_eq!((way(0, 0), way(101, 0), way(40, 61), way(u64::MAX, 1)), (None, None, None, None));
    }

    #[test]
    fn a_request_for_another_key_than_the_subjects_is_none() {
        let request = |key| Request { ticket: 7, key, task: TASK, input: &[] };
        let bytes = encode(&RequestBatch { gateway: 1, incarnation: 2, list: vec![request("www"), request("secret")] });
        assert_eq!((request_batch(&bytes, "www"), request_batch(&bytes, "secret")), (None, None));
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused() {
        let answer = || Answer { ticket: 7, held_ns: 5, work_ns: 4, outcome: Outcome::Elsewhere };
        let list = (0..=MAX_LIST).map(|_| answer()).collect();
        assert_eq!(
            server_message(&encode(&ServerMessage {
                gateway: 1,
                incarnation: 2,
                echo: Echo::default(),
                body: MessageBody::Answers(list)
            })),
            None
        );
        let result = vec![0; MAX_RESULT + 1];
        let large = Answer { outcome: Outcome::Done(&result), ..answer() };
        assert_eq!(
            server_message(&encode(&ServerMessage {
                gateway: 1,
                incarnation: 2,
                echo: Echo::default(),
                body: MessageBody::Answers(vec![large])
            })),
            None
        );
    }
}
