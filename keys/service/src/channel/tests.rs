//! Both sides of a channel, with everything that a relay can do between them.

use super::*;
use crate::keys::Transfer;
use sidecore_client::keys::Usage;
use sidecore_core::session::Refusal;
use sidecore_core::time::Nanos;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

const PUBLIC: &[u8] = b"the public part";

fn near_address() -> Transfer {
    Transfer::of_master(&[1; 32]).unwrap()
}

fn far_address() -> Transfer {
    Transfer::of_master(&[2; 32]).unwrap()
}

fn rule(keys: &[&str], usage: Usage) -> Served {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Served { address: near_address().address, keys, usage, rate: None }
}

fn serving() -> Serving {
    Serving::new(vec![rule(&["www"], Usage::SIGN)])
}

fn told(serving: &mut Serving, message: &[u8]) -> Result<Vec<u8>, ServeError> {
    let page = |after: &str, is_named: &dyn Fn(&str) -> bool| {
        let keys = ["other", "www", "www.1700000000"].into_iter().filter(|key| *key > after && is_named(key));
        Page { keys: keys.map(|key| (key.to_owned(), PUBLIC.to_vec())).collect(), more: false }
    };
    serving.answer(&far_address(), message, 0, page).map(|(answer, _)| answer)
}

fn proposal(at: u64) -> Proposal {
    Proposal::new(&near_address(), far_address().address, at).unwrap()
}

fn connected(serving: &mut Serving, at: u64) -> Near {
    let proposal = proposal(at);
    proposal.accepted(&told(serving, proposal.message()).unwrap()).unwrap()
}

fn opening(near: &Near, key: &str) -> (u64, Vec<u8>) {
    near.opening(key, PUBLIC, &Scheme::Ed25519, Operation::Sign).unwrap()
}

/// The input that far reads, which answers with it doubled.
fn asked(grant: &Grant, request: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let taken = grant.take(request)?;
    let (_, input) = taken.work().unwrap();
    Ok((input.to_vec(), grant.seal(&taken, Ok(&[input, input].concat())).unwrap()))
}

#[test]
fn a_request_arrives_once_and_its_answer_opens_for_it_alone() {
    let mut far = serving();
    let near = connected(&mut far, 1);
    let (first, bytes) = opening(&near, "www");
    let Asked { key, scheme, grant, public } = far.asked(&bytes).unwrap();
    assert_eq!((key.as_str(), scheme, grant.operation), ("www", Scheme::Ed25519, Operation::Sign));
    assert_eq!(public, near::sha256(PUBLIC));
    let (one, request) = near.request(first, 33, b"message").unwrap();
    let (two, other) = near.request(first, 33, b"another").unwrap();
    let (_, later) = asked(&grant, &other).unwrap();
    let (input, answer) = asked(&grant, &request).unwrap();
    assert_eq!(input, b"message");
    assert_eq!(near.answer(first, one, &answer), Some(FarAnswer::Done(b"messagemessage".to_vec().into())));
    assert_eq!(near.answer(first, one, &later), None, "it is another request's");
    assert!(near.answer(first, two, &later).is_some());
    for repeated in [&request, &other] {
        assert_eq!(asked(&grant, repeated).unwrap_err(), Refusal::Authentication);
    }
    let (three, request) = near.request(first, 33, b"limited").unwrap();
    let taken = grant.take(&request).unwrap();
    let answer = grant.seal(&taken, Err(Refusal::KeyLimit)).unwrap();
    assert_eq!(near.answer(first, three, &answer), Some(FarAnswer::Refused(Refusal::KeyLimit)));
}

#[test]
fn many_requests_are_sealed_and_opened_and_their_answers_too() {
    const REQUESTS: u32 = 20_000;
    let mut far = serving();
    let near = connected(&mut far, 1);
    let (number, bytes) = opening(&near, "www");
    let Asked { grant, .. } = far.asked(&bytes).unwrap();
    for _ in 0..REQUESTS {
        let (of, request) = near.request(number, 33, &[7; 32]).unwrap();
        let taken = grant.take(&request).unwrap();
        assert_eq!(taken.work(), Some((33, &[7; 32][..])));
        let answer = grant.seal(&taken, Ok(&[8; 256])).unwrap();
        assert!(matches!(near.answer(number, of, &answer), Some(FarAnswer::Done(_))));
    }
}

#[test]
fn a_request_does_nothing_on_a_session_of_another_opening_or_channel() {
    let mut far = Serving::new(vec![rule(&["www", "mail"], Usage::SIGN)]);
    let (near, second) = (connected(&mut far, 1), connected(&mut far, 2));
    let (of_www, www) = opening(&near, "www");
    let (_, mail) = opening(&near, "mail");
    let (_, of_second) = opening(&second, "www");
    let [www, mail, of_second] = [www, mail, of_second].map(|bytes| far.asked(&bytes).unwrap().grant);
    let (_, request) = near.request(of_www, 0, b"message").unwrap();
    for wrong in [&mail, &of_second] {
        assert_eq!(asked(wrong, &request).unwrap_err(), Refusal::Authentication);
    }
    assert!(asked(&www, &request).is_ok(), "a failed attempt takes no number");
}

#[test]
fn any_changed_bit_of_any_message_is_found() {
    let mut far = serving();
    let proposal = proposal(1);
    let changed = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at / 8] ^= 1 << (at % 8);
        bytes
    };
    for at in (0..8 * proposal.message().len()).step_by(5) {
        let answer = told(&mut serving(), &changed(proposal.message(), at));
        assert!(answer.is_err(), "bit {at}");
    }
    let answer = told(&mut far, proposal.message()).unwrap();
    for at in (0..8 * answer.len()).step_by(5) {
        assert!(proposal.accepted(&changed(&answer, at)).is_none(), "bit {at}");
    }
    let near = proposal.accepted(&answer).unwrap();
    let (number, bytes) = opening(&near, "www");
    let Asked { grant, .. } = far.asked(&bytes).unwrap();
    assert!((0..8 * bytes.len()).all(|at| far.asked(&changed(&bytes, at)).is_err()));
    let (of, request) = near.request(number, 0, b"message").unwrap();
    assert!((0..8 * request.len()).all(|at| asked(&grant, &changed(&request, at)).is_err()));
    assert!((0..request.len()).all(|cut| asked(&grant, &request[..cut]).is_err()));
    let (_, answer) = asked(&grant, &request).unwrap();
    assert!((0..8 * answer.len()).all(|at| near.answer(number, of, &changed(&answer, at)).is_none()));
    let (of, question) = near.question("").unwrap();
    let page = told(&mut far, &question).unwrap();
    assert!((0..8 * page.len()).all(|at| near.page(of, &changed(&page, at)).is_none()));
    assert_eq!(told(&mut far, &question).unwrap_err(), ServeError::Damaged, "a repeated question has no answer");
}

#[test]
fn keys_and_operations_are_those_of_the_configuration_and_of_renewals() {
    let mut far = Serving::new(vec![rule(&["www"], Usage::SIGN), rule(&["mail"], Usage::DECRYPT)]);
    let near = connected(&mut far, 1);
    let (number, question) = near.question("").unwrap();
    let page = near.page(number, &told(&mut far, &question).unwrap()).unwrap();
    assert_eq!(page.keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["www", "www.1700000000"]);
    for (key, operation, permitted) in [
        ("www", Operation::Sign, true),
        ("www.1700000000", Operation::SignDigest, true),
        ("www.17", Operation::Sign, false),
        ("www", Operation::Decrypt, false),
        ("mail", Operation::Sign, false),
        ("other", Operation::Sign, false),
    ] {
        let (_, bytes) = near.opening(key, PUBLIC, &Scheme::Ed25519, operation).unwrap();
        assert_eq!(far.asked(&bytes).is_ok(), permitted, "{key} {operation:?}");
    }
    // A scheme that does another operation than the opening says.
    let (_, bytes) = near.opening("www", PUBLIC, &Scheme::X25519, Operation::Sign).unwrap();
    assert!(matches!(far.asked(&bytes), Err(ServeError::NotPermitted { .. })));
    assert!(matches!(Serving::new(Vec::new()).asked(&bytes), Err(ServeError::Nobody)));
}

#[test]
fn strangers_and_others_set_up_nothing() {
    let (stranger, mut far) = (Transfer::of_master(&[3; 32]).unwrap(), serving());
    let unknown = Proposal::new(&stranger, far_address().address, 1).unwrap();
    assert_eq!(told(&mut far, unknown.message()).unwrap_err(), ServeError::NotServed(stranger.address));
    let elsewhere = Proposal::new(&near_address(), stranger.address, 1).unwrap();
    assert!(matches!(told(&mut far, elsewhere.message()), Err(ServeError::OtherService { .. })));
    // It writes near's address into its own message.
    let Message::SetUp { to, encapsulated, sealed, .. } = decode(unknown.message()).unwrap() else { panic!() };
    let forged = encode(&Message::SetUp { to, from: near_address().address, encapsulated, sealed });
    assert_eq!(told(&mut far, &forged).unwrap_err(), ServeError::Damaged);
    // It answers in far's place, with all that it saw.
    let mine = proposal(1);
    let mut theirs = Serving::new(vec![Served { address: near_address().address, ..rule(&["www"], Usage::SIGN) }]);
    let answer = theirs.answer(&stranger, mine.message(), 0, |_, _| Page::default());
    assert!(matches!(answer, Err(ServeError::OtherService { .. })));
    let other = proposal(2);
    let answer = told(&mut far, other.message()).unwrap();
    assert!(mine.accepted(&answer).is_none() && other.accepted(&answer).is_some());
}

#[test]
fn old_and_many_channels_end() {
    const LONG: Nanos = 3 * 3_600_000_000_000;
    let mut far = serving();
    let near = connected(&mut far, 1);
    let (number, bytes) = opening(&near, "www");
    let Asked { grant, .. } = far.asked(&bytes).unwrap();
    // Set-ups whose answers never came give way first.
    (2..60).for_each(|at| drop(told(&mut far, proposal(at).message()).unwrap()));
    let (_, request) = near.request(number, 0, b"message").unwrap();
    assert_eq!(asked(&grant, &request).unwrap_err(), Refusal::NoSession, "nor was a message of this one seen");
    let near = connected(&mut far, 100);
    let (number, bytes) = opening(&near, "www");
    let Asked { grant, .. } = far.asked(&bytes).unwrap();
    let (_, request) = near.request(number, 0, b"message").unwrap();
    assert!(asked(&grant, &request).is_ok());
    (101..160).for_each(|at| drop(told(&mut far, proposal(at).message()).unwrap()));
    assert!(far.asked(&bytes).is_ok());
    far.expire(LONG);
    let (_, request) = near.request(number, 0, b"message").unwrap();
    assert_eq!(
        (asked(&grant, &request).unwrap_err(), far.asked(&bytes).unwrap_err()),
        (Refusal::NoSession, ServeError::NoChannel)
    );
}

#[test]
fn a_limit_is_told_under_the_seal_and_counted_for_the_log() {
    let mut far = Serving::new(vec![Served { rate: Some(2), ..rule(&["www"], Usage::SIGN) }]);
    let near = connected(&mut far, 1);
    let Asked { grant, .. } = far.asked(&opening(&near, "www").1).unwrap();
    let admitted: Vec<bool> = (0..5).map(|user| grant.admits(user, || 1_000_000_000)).collect();
    assert_eq!(admitted, [true, true, false, false, false]);
    let limited = far.take_limited();
    assert_eq!(limited, [Limited { address: near_address().address, count: 3, user: 4 }]);
    assert_eq!(far.take_limited(), []);
}

/// One line of hexadecimal.
fn line(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect()
}

#[test]
fn a_second_implementation_over_another_library_is_understood_and_understands() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/channel/near.py");
    let mut command = Command::new("/usr/bin/python3");
    let mut near = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) = (near.stdin.take().unwrap(), BufReader::new(near.stdout.take().unwrap()).lines());
    let mut say = |bytes: &[u8]| to.write_all(line(bytes).as_bytes()).unwrap();
    let mut hear = || {
        let text = from.next().expect("it ended").unwrap();
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect::<Vec<u8>>()
    };
    let mut far = serving();
    say(&far_address().address.0);
    say(near_address().private());
    let answer = told(&mut far, &hear()).unwrap();
    say(&answer);
    say(&postcard::to_stdvec(&Scheme::Ed25519).unwrap());
    say(PUBLIC);
    let Asked { key, scheme, grant, public } = far.asked(&hear()).unwrap();
    assert_eq!((key.as_str(), scheme, public), ("www", Scheme::Ed25519, near::sha256(PUBLIC)));
    let request = hear();
    let taken = grant.take(&request).unwrap();
    assert_eq!(taken.work(), Some((33, &b"a message"[..])));
    say(&grant.seal(&taken, Ok(b"its result")).unwrap());
    assert_eq!(hear(), b"its result");
    assert!(near.wait().unwrap().success());
}

/// What a relay and two machines may do at each step of a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Propose,
    DeliverLastSetUp,
    DeliverFirstSetUp,
    DeliverLastAnswer,
    DeliverFirstAnswer,
    Request,
    RestartFar,
    RestartNear,
}

const STEPS: [Step; 8] = [
    Step::Propose,
    Step::DeliverLastSetUp,
    Step::DeliverFirstSetUp,
    Step::DeliverLastAnswer,
    Step::DeliverFirstAnswer,
    Step::Request,
    Step::RestartFar,
    Step::RestartNear,
];

struct World {
    far: Serving,
    time: u64,
    pending: Option<Proposal>,
    near: Option<Near>,
    set_ups: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    requests: u64,
    done: BTreeSet<Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let (set_ups, answers, done) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { far: serving(), time: 0, pending: None, near: None, set_ups, answers, requests: 0, done }
    }

    /// `false`: the step changed nothing, so that a shorter history stands for this one.
    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Propose => {
                self.time += 1;
                let proposal = proposal(self.time);
                self.set_ups.push(proposal.message().to_vec());
                self.pending = Some(proposal);
                true
            }
            Step::DeliverLastSetUp => self.set_ups.last().cloned().is_some_and(|set_up| self.deliver(&set_up)),
            Step::DeliverFirstSetUp => self.set_ups.first().cloned().is_some_and(|set_up| self.deliver(&set_up)),
            Step::DeliverLastAnswer => self.answers.last().cloned().is_some_and(|answer| self.accept(&answer)),
            Step::DeliverFirstAnswer => self.answers.first().cloned().is_some_and(|answer| self.accept(&answer)),
            Step::Request => self.request(),
            Step::RestartFar => {
                self.far = serving();
                true
            }
            Step::RestartNear => {
                let had = self.near.is_some() || self.pending.is_some();
                (self.near, self.pending) = (None, None);
                had
            }
        }
    }

    fn deliver(&mut self, set_up: &[u8]) -> bool {
        let answer = told(&mut self.far, set_up);
        self.answers.extend(answer.as_ref().ok().cloned());
        answer.is_ok()
    }

    fn accept(&mut self, answer: &[u8]) -> bool {
        let near = self.pending.as_ref().and_then(|pending| pending.accepted(answer));
        let is_new = near.is_some();
        if is_new {
            (self.near, self.pending) = (near, None);
        }
        is_new
    }

    /// Twice to far, as it is. It is done once, or never where far has forgotten the channel.
    fn request(&mut self) -> bool {
        let Some(near) = &self.near else { return false };
        let (number, bytes) = opening(near, "www");
        self.requests += 1;
        let input = self.requests.to_le_bytes();
        let (of, request) = near.request(number, 0, &input).unwrap();
        let Ok(Asked { grant, .. }) = self.far.asked(&bytes) else { return true };
        let (read, answer) = asked(&grant, &request).unwrap();
        assert_eq!(read, input, "what far reads is what near wrote");
        assert!(self.done.insert(read), "done twice");
        assert!(asked(&grant, &request).is_err());
        assert!(matches!(near.answer(number, of, &answer), Some(FarAnswer::Done(_))));
        true
    }

    /// From every state, two messages that arrive are enough.
    fn ends_well(&mut self) {
        assert!(self.step(Step::Propose) && self.step(Step::DeliverLastSetUp) && self.step(Step::DeliverLastAnswer));
        let before = self.done.len();
        assert!(self.step(Step::Request));
        assert_eq!(self.done.len(), before + 1);
    }
}

#[test]
fn in_any_order_with_repetitions_and_restarts_a_request_is_done_once_and_a_new_set_up_works() {
    const DEPTH: u32 = 6;
    let mut histories = 0;
    for history in 0..STEPS.len().pow(DEPTH) {
        let mut world = World::new();
        let steps = (0..DEPTH).map(|at| STEPS[history / STEPS.len().pow(at) % STEPS.len()]);
        if steps.into_iter().all(|step| world.step(step)) {
            world.ends_well();
            histories += 1;
        }
    }
    assert!(histories > 1000, "{histories}");
}
