//! A link alone, with a simulated dispatcher.

use super::*;

const MS: Nanos = 1_000_000;

fn link() -> Link {
    let settings = Settings {
        farm: "f".to_owned(),
        name: "n".to_owned(),
        slots: 2,
        offers: vec!["k".to_owned()],
        beat: Duration::from_millis(10),
    };
    Link::new(settings, 512)
}

fn lead(link: &mut Link, now: Nanos, dispatcher: u64) {
    link.lead(now, &wire::encode(&Lead { dispatcher }, 0));
}

fn hear(link: &mut Link, now: Nanos, down: &DispatcherMessage) {
    link.hear(now, &wire::encode(down, 0));
}

fn welcome(link: &mut Link, now: Nanos, dispatcher: u64) {
    let incarnation = link.incarnation();
    hear(link, now, &DispatcherMessage::Welcome { dispatcher, incarnation });
}

fn joined() -> Link {
    let mut link = link();
    lead(&mut link, 0, 5);
    welcome(&mut link, 0, 5);
    acts(&mut link);
    link
}

fn give(link: &mut Link, now: Nanos, tickets: std::ops::Range<u64>) {
    let event = |ticket| wire::Event { ticket, kind: "k", id: "e", body: Octets(b"body"), limit_ns: 9 };
    hear(link, now, &DispatcherMessage::Events(tickets.map(event).collect()));
}

fn acts(link: &mut Link) -> Vec<Act> {
    std::iter::from_fn(|| link.next_act()).collect()
}

fn said(link: &mut Link) -> Vec<Bytes> {
    let say = |act| if let Act::Say(message) = act { Some(message) } else { None };
    acts(link).into_iter().filter_map(say).collect()
}

fn done() -> Outcome {
    Outcome::Done("result".into())
}

#[test]
fn a_node_joins_the_dispatcher_that_it_hears_and_asks_until_it_is_welcome() {
    let mut link = link();
    link.tick(0);
    assert_eq!(acts(&mut link), []);
    lead(&mut link, 0, 5);
    let subject = format!("farm.f.down.n.{}", link.incarnation());
    let mut first = acts(&mut link);
    assert_eq!(first.remove(0), Act::Listen(subject));
    let Act::Say(message) = first.remove(0) else { panic!() };
    let Some(NodeMessage::Join(join)) = NodeMessage::decode(&message) else { panic!() };
    assert_eq!((join.node, join.incarnation, join.dispatcher, join.slots), ("n", link.incarnation(), 5, 2));
    link.tick(99 * MS);
    assert_eq!(acts(&mut link), []);
    link.tick(100 * MS);
    assert_eq!(said(&mut link), [message]);
    welcome(&mut link, 101 * MS, 5);
    link.tick(110 * MS);
    assert!(matches!(NodeMessage::decode(&said(&mut link)[0]), Some(NodeMessage::Beat(_))));
}

#[test]
fn it_says_when_it_begins_with_an_event_that_may_end_it() {
    let mut link = joined();
    let event = |ticket| wire::Event { ticket, kind: "k", id: "e", body: Octets(b"body"), limit_ns: 9 };
    give(&mut link, 0, 1..2);
    hear(&mut link, 0, &DispatcherMessage::ReportStart((2..100).map(event).collect()));
    while link.begin().is_some() {}
    link.answer(0);
    let started = |link: &mut Link| {
        let [Act::Say(message), Act::Flush] = &acts(link)[..] else { panic!("nothing, or more than one message") };
        let Some(NodeMessage::Started { incarnation, tickets }) = NodeMessage::decode(message) else { panic!() };
        assert_eq!(incarnation, link.incarnation());
        tickets
    };
    let all: Vec<u64> = (2..=2 + AHEAD as u64).collect();
    assert_eq!(started(&mut link), all, "the first was under no suspicion");
    for _ in 0..AHEAD {
        link.running -= 1;
        link.begin().unwrap();
        link.answer(0);
        assert_eq!(acts(&mut link), [], "they were reported");
    }
    link.running -= 1;
    link.begin().unwrap();
    link.answer(0);
    assert_eq!(started(&mut link)[0], all.len() as u64 + 2);
}

#[test]
fn so_many_events_as_there_are_slots_are_begun_and_answers_go_together() {
    let mut link = joined();
    give(&mut link, 10, 0..3);
    let (one, two) = (link.begin().unwrap(), link.begin().unwrap());
    assert!(link.begin().is_none());
    assert_eq!(one.task.limit, Duration::from_nanos(9));
    link.finish(&one, 20, done());
    link.finish(&two, 20, Outcome::Failed("x".repeat(2 * wire::MAX_REASON_BYTES)));
    assert!(link.begin().is_some());
    link.answer(50);
    let messages = said(&mut link);
    let Some(NodeMessage::Answers(answers)) = NodeMessage::decode(&messages[0]) else { panic!("{messages:?}") };
    assert_eq!((messages.len(), answers.list.len()), (2, 1), "two do not fit into 512 octets");
    let Answer { ticket, held_ns, work_ns, outcome } = answers.list[0];
    assert_eq!((ticket, held_ns, work_ns, outcome), (0, 40, 20, wire::Outcome::Done(Octets(b"result"))));
    link.tick(60);
    let beat = said(&mut link).pop().unwrap();
    let Some(NodeMessage::Beat(beat)) = NodeMessage::decode(&beat) else { panic!() };
    assert_eq!((beat.received, beat.answered, beat.running), (3, 2, 1));
}

#[test]
fn who_must_join_again_forgets_what_it_had_and_never_answers_it() {
    let mut link = joined();
    give(&mut link, 0, 0..3);
    let (begun, ready) = (link.begin().unwrap(), link.begin().unwrap());
    link.finish(&ready, 1, done());
    let before = link.incarnation();
    hear(&mut link, MS, &DispatcherMessage::JoinAgain);
    assert!(link.incarnation() != before && link.is_idle());
    acts(&mut link);
    link.finish(&begun, 1, done());
    link.answer(2 * MS);
    assert_eq!((acts(&mut link), link.begin().is_none()), (Vec::new(), true));
}

#[test]
fn a_later_dispatcher_is_followed_and_an_earlier_one_only_where_the_later_is_silent() {
    let mut link = joined();
    let before = link.incarnation();
    lead(&mut link, 10 * MS, 4);
    assert_eq!(link.incarnation(), before);
    lead(&mut link, 20 * MS, 6);
    let after = link.incarnation();
    assert_ne!(after, before);
    hear(&mut link, 20 * MS, &DispatcherMessage::Welcome { dispatcher: 5, incarnation: after });
    hear(&mut link, 20 * MS, &DispatcherMessage::Welcome { dispatcher: 6, incarnation: before });
    acts(&mut link);
    link.tick(21 * MS);
    assert_eq!(acts(&mut link), [], "neither welcome was for this");
    lead(&mut link, 119 * MS, 5);
    assert_eq!(link.incarnation(), after);
    lead(&mut link, 121 * MS, 5);
    assert_ne!(link.incarnation(), after);
    hear(&mut link, 122 * MS, &DispatcherMessage::Gone);
    lead(&mut link, 123 * MS, 1);
    assert!(matches!(acts(&mut link).pop(), Some(Act::Say(_))));
}

#[test]
fn where_there_is_no_place_the_node_says_so_and_asks_later() {
    let mut link = link();
    lead(&mut link, 0, 5);
    acts(&mut link);
    hear(&mut link, 0, &DispatcherMessage::Full { most: 64 });
    let Some(Act::Tell(text)) = link.next_act() else { panic!() };
    assert!(text.contains("64 nodes"), "{text}");
    link.tick(999 * MS);
    assert_eq!(acts(&mut link), []);
    link.tick(1000 * MS);
    assert_eq!(said(&mut link).len(), 1);
}

#[test]
fn a_result_that_fits_into_no_message_is_a_failure_that_says_so() {
    let mut link = joined();
    give(&mut link, 0, 0..1);
    let begun = link.begin().unwrap();
    link.finish(&begun, 1, Outcome::Done(vec![0; 600].into()));
    link.answer(2);
    let message = said(&mut link).pop().unwrap();
    let Some(NodeMessage::Answers(answers)) = NodeMessage::decode(&message) else { panic!() };
    assert!(matches!(answers.list[0].outcome, wire::Outcome::Failed { reason } if reason.contains("600 octets")));
}

#[test]
fn who_leaves_finishes_what_it_has_and_joins_nobody() {
    let mut link = joined();
    give(&mut link, 0, 0..1);
    link.leave();
    assert!(matches!(NodeMessage::decode(&said(&mut link)[0]), Some(NodeMessage::Leave { .. })));
    let begun = link.begin().unwrap();
    assert!(!link.is_idle());
    link.finish(&begun, 1, done());
    link.answer(2);
    assert!(link.is_idle() && link.leaves());
    acts(&mut link);
    lead(&mut link, 3, 9);
    assert!(said(&mut link).is_empty());
}

#[test]
fn garbage_changes_nothing() {
    let mut link = joined();
    for message in [&b""[..], b"\x01", b"\xff\xff\xff", &vec![1; 100_000]] {
        link.hear(0, &Bytes::copy_from_slice(message));
        link.lead(0, message);
    }
    assert_eq!((acts(&mut link), link.begin().is_none()), (Vec::new(), true));
}
