//! Messages are decoded as they were encoded, and hostile messages do no harm.

use super::*;

fn ups() -> Vec<NodeMessage<'static>> {
    let join = Join { node: "n-1", incarnation: 7, dispatcher: 9, slots: 4, offers: vec!["png", "raw"], beat_ns: 10 };
    let answer = |ticket, outcome| Answer { ticket, held_ns: 20, work_ns: 10, outcome };
    let list = vec![
        answer(1, Outcome::Done(Octets(b"result"))),
        answer(u64::MAX, Outcome::Failed { reason: "exit code 1" }),
        answer(3, Outcome::Refused { reason: "no program" }),
        answer(4, Outcome::DoneLarge(Octets(b"reference"))),
    ];
    vec![
        NodeMessage::Join(join),
        NodeMessage::Beat(Beat { node: "n-1", incarnation: 7, received: u64::MAX, answered: 2, running: 1 }),
        NodeMessage::Answers(Answers { incarnation: 7, list }),
        NodeMessage::Leave { node: "n-1", incarnation: 7 },
        NodeMessage::Started { incarnation: 7, tickets: vec![1, u64::MAX] },
    ]
}

fn downs() -> Vec<DispatcherMessage<'static>> {
    let event = |ticket, body| Event { ticket, kind: "png", id: "a-1", body: Octets(body), limit_ns: 5 };
    let events = DispatcherMessage::Events(vec![event(1, b"body"), event(2, b"")]);
    vec![
        DispatcherMessage::Welcome { dispatcher: 9, incarnation: 7 },
        events,
        DispatcherMessage::JoinAgain,
        DispatcherMessage::Full { most: 64 },
        DispatcherMessage::Gone,
        DispatcherMessage::ReportStart(vec![event(1, b"body")]),
        DispatcherMessage::LargeEvents { report_start: true, list: vec![event(1, b"reference")] },
    ]
}

#[test]
fn what_was_said_is_understood() {
    for up in ups() {
        assert_eq!(NodeMessage::decode(&encode(&up, 0)), Some(up));
    }
    for down in downs() {
        assert_eq!(DispatcherMessage::decode(&encode(&down, 0)), Some(down));
    }
    let lead = Lead { dispatcher: 5 };
    assert_eq!(Lead::decode(&encode(&lead, 0)), Some(lead));
}

/// Each side decides by these numbers, and a reason is only shown. A new one comes behind; none of these changes.
#[test]
fn the_numbers_of_outcomes_and_of_refusals_are_frozen() {
    let page = include_str!("../../../../docs/farm.md");
    let Some(NodeMessage::Answers(Answers { list, .. })) = ups().into_iter().nth(2) else { panic!() };
    let number = |of: &Bytes| of[1];
    for (answer, name) in list.iter().zip(["Done", "Failed", "Refused", "DoneLarge"]) {
        let row = format!("| `Outcome` | {} | {name} |", number(&encode(&answer.outcome, 0)));
        assert!(page.contains(&row), "{row}");
    }
    let names = ["Welcome", "Events", "JoinAgain", "Full", "Gone", "ReportStart", "LargeEvents"];
    for (place, (down, name)) in downs().iter().zip(names).enumerate() {
        assert_eq!(usize::from(number(&encode(down, 0))), place);
        if let DispatcherMessage::JoinAgain | DispatcherMessage::Full { .. } | DispatcherMessage::Gone = down {
            let row = format!("| `DispatcherMessage` | {place} | {name} |");
            assert!(page.contains(&row), "{row}");
        }
    }
}

#[test]
fn octets_are_read_where_they_lie() {
    let message = encode(&downs()[1], 64);
    let Some(DispatcherMessage::Events(list)) = DispatcherMessage::decode(&message) else { panic!() };
    let body = list[0].body.0.as_ptr_range();
    assert!(message.as_ptr_range().start < body.start && body.end <= message.as_ptr_range().end);
}

/// Cuts a message at each place, flips each bit, and appends a byte. `read` returns whether it was decoded.
fn spoil(message: &[u8], read: impl Fn(&[u8]) -> bool) {
    assert!(read(message));
    for end in 0..message.len() {
        assert!(!read(&message[..end]), "cut at {end}");
    }
    assert!(!read(&[message, &[0]].concat()), "something behind it");
    for bit in 0..message.len() * 8 {
        let mut changed = message.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        read(&changed);
    }
}

#[test]
fn hostile_messages_are_refused_or_understood_but_never_stop_who_reads_them() {
    for up in ups() {
        spoil(&encode(&up, 0), |message| NodeMessage::decode(message).is_some());
    }
    for down in downs() {
        spoil(&encode(&down, 0), |message| DispatcherMessage::decode(message).is_some());
    }
}

#[test]
fn a_length_that_is_not_there_takes_no_memory() {
    // Answers of a node, with the largest possible number of them.
    let mut message = vec![VERSION, 2, 7];
    message.extend([0xff; 9]);
    message.push(1);
    assert_eq!(NodeMessage::decode(&message), None);
    message[1] = 1;
    assert_eq!(DispatcherMessage::decode(&message), None);
}

#[test]
fn another_version_is_not_guessed_at() {
    let mut message = encode(&ups()[1], 0).to_vec();
    message[0] = 2;
    assert_eq!(NodeMessage::decode(&message), None);
    assert_eq!(NodeMessage::decode(&[]), None);
}

#[test]
fn names_are_single_tokens_of_subjects() {
    let join =
        |node, offers| NodeMessage::Join(Join { node, incarnation: 1, dispatcher: 1, slots: 1, offers, beat_ns: 1 });
    let long = "n".repeat(MAX_NODE_BYTES + 1);
    for node in ["", "a.b", "*", ">", "a b", "a\r\nPUB x 0", "ü", &long] {
        assert_eq!(NodeMessage::decode(&encode(&join(node, Vec::new()), 0)), None, "{node:?}");
        assert_eq!(NodeMessage::decode(&encode(&join("n", vec![node]), 0)), None, "{node:?}");
    }
    let many = vec!["kind"; MAX_OFFERS + 1];
    assert_eq!(NodeMessage::decode(&encode(&join("n", many), 0)), None);
    let event =
        |id, kind| DispatcherMessage::Events(vec![Event { ticket: 1, kind, id, body: Octets(b""), limit_ns: 1 }]);
    assert_eq!(DispatcherMessage::decode(&encode(&event("../../etc/passwd", "k"), 0)), None);
    assert_eq!(DispatcherMessage::decode(&encode(&event("a", "k.k"), 0)), None);
}

#[test]
fn what_no_node_says_is_refused() {
    let answers = |list| NodeMessage::Answers(Answers { incarnation: 1, list });
    let answer = |work_ns, outcome| Answer { ticket: 1, held_ns: 10, work_ns, outcome };
    let slots = Join { node: "n", incarnation: 1, dispatcher: 1, slots: 0, offers: Vec::new(), beat_ns: 1 };
    assert_eq!(NodeMessage::decode(&encode(&NodeMessage::Join(slots), 0)), None);
    let beat_ns = MAX_BEAT + 1;
    let hardly_ever = Join { node: "n", incarnation: 1, dispatcher: 1, slots: 1, offers: Vec::new(), beat_ns };
    assert_eq!(NodeMessage::decode(&encode(&NodeMessage::Join(hardly_ever), 0)), None);
    let longer_than_it_had_it = answers(vec![answer(11, Outcome::Done(Octets(b"")))]);
    assert_eq!(NodeMessage::decode(&encode(&longer_than_it_had_it, 0)), None);
    let reason = "x".repeat(MAX_REASON_BYTES + 1);
    let wordy = answers(vec![answer(1, Outcome::Failed { reason: &reason })]);
    assert_eq!(NodeMessage::decode(&encode(&wordy, 0)), None);
    let many = answers((0..=MAX_LIST).map(|_| answer(1, Outcome::Done(Octets(b"")))).collect());
    assert_eq!(NodeMessage::decode(&encode(&many, 0)), None);
}
