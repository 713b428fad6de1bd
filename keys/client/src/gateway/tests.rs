//! Tests of the codec: messages survive a round trip, other bytes are errors.

use super::*;
use crate::control::encode;
use crate::spec::{Hash, SaltLength, SignaturePadding};
use proptest::prelude::*;

fn request<'a>(key: &'a str, input: &'a [u8]) -> Ask<'a> {
    let padding = SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Digest };
    let scheme = Scheme::RsaSignature { padding, hash: Hash::Sha256 };
    let task = Task::Open { scheme, operation: Operation::SignDigest };
    Ask::Request(Request { ticket: u64::MAX, key, task, input })
}

#[test]
fn messages_survive_the_wire_and_fit_a_packet() {
    let mut buffer = [0; MAX_PACKET];
    let (name, input) = ("n".repeat(MAX_NAME), [7; MAX_INPUT]);
    let known = |public| Ask::Known(Known { key: &name, public });
    let asks = [request(&name, &input), request("www", &[]), Ask::Beat, Ask::Wrong(u64::MAX)];
    for ask in asks.into_iter().chain([known(Some(&[7; MAX_PUBLIC])), known(None)]) {
        assert_eq!(decode_ask(encode(&ask, &mut buffer).unwrap()), Ok(ask));
    }
    let answer = |outcome| Tell::Answer(Answer { ticket: u64::MAX, outcome });
    let (public, result) = ([7; MAX_PUBLIC], [7; MAX_RESULT]);
    for tell in [
        Tell::Offer(Offer { key: &name, public: &public }),
        Tell::Withdraw(&name),
        answer(Outcome::Done(&result)),
        answer(Outcome::refused(Refusal::Authentication)),
        answer(Outcome::Elsewhere),
        Tell::Beat,
    ] {
        assert_eq!(decode_tell(encode(&tell, &mut buffer).unwrap()), Ok(tell));
    }
}

#[test]
fn what_is_beyond_a_limit_is_refused() {
    let mut buffer = [0; MAX_PACKET];
    let (name, input) = ("n".repeat(MAX_NAME + 1), [7; MAX_INPUT + 1]);
    assert!(decode_ask(encode(&request(&name, &[]), &mut buffer).unwrap()).is_err());
    assert!(decode_ask(encode(&request("www", &input), &mut buffer).unwrap()).is_err());
    let known = |key, public| Ask::Known(Known { key, public });
    for known in [known(&name, None), known("www", Some(&input[..=MAX_PUBLIC]))] {
        assert!(decode_ask(encode(&known, &mut buffer).unwrap()).is_err());
    }
    assert!(decode_tell(encode(&Tell::Withdraw(&name), &mut buffer).unwrap()).is_err());
    let done = Tell::Answer(Answer { ticket: 1, outcome: Outcome::Done(&input) });
    assert!(decode_tell(encode(&done, &mut buffer).unwrap()).is_err());
    let len = encode(&Tell::Beat, &mut buffer).unwrap().len();
    assert!(decode_tell(&buffer[..=len]).is_err(), "a tail");
}

#[test]
fn operations_are_those_of_requests_that_take_a_private_key() {
    for operation in Operation::ALL {
        assert_eq!(Operation::of(operation.op()), Some(operation));
    }
    for op in [Op::Noop, Op::Encrypt, Op::Digest, Op::Verify, Op::Encapsulate] {
        assert_eq!(Operation::of(op), None);
    }
}

#[test]
fn a_refusal_is_a_number_that_each_version_reads() {
    let page = include_str!("../../../../docs/errors.md");
    for reason in (1..=u8::MAX).map_while(Refusal::from_u8) {
        let row = format!("| {} | {reason:?} |", reason as u8);
        assert!(page.contains(&row), "{row}");
    }
    for reason in (1..=u8::MAX).map_while(Refusal::from_u8).filter(|reason| *reason != Refusal::NoDevice) {
        let Outcome::Refused(number) = Outcome::refused(reason) else { panic!("no refusal") };
        assert_eq!((number, Outcome::Refused(number).refusal()), (reason as u8, Some(reason)));
    }
    assert_eq!(Outcome::Refused(7).refusal(), Some(Refusal::KeyLimit), "of a gateway from before the codes");
    assert_eq!(Outcome::Refused(250).refusal(), Some(Refusal::Internal), "of a later one");
    assert_eq!((Outcome::Refused(0).refusal(), Outcome::Elsewhere.refusal()), (None, None));
}

proptest! {
    #[test]
    fn any_packet_is_a_message_or_an_error(packet in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = decode_ask(&packet);
        let _ = decode_tell(&packet);
    }
}
