//! The assigner alone, with simulated nodes.

use super::*;
use crate::wire::{Answer, Answers, Beat, Join, NodeMessage, Outcome};

const MS: Nanos = 1_000_000;
const US: u64 = 9;

fn settings() -> Settings {
    Settings {
        farm: "f".to_owned(),
        dispatcher: US,
        balance: Balance::Eft,
        tries: 2,
        deaths: 5,
        backoff: 10 * MS,
        hold: 16,
        hold_bytes: 4096,
        silence: 40 * MS,
        limit: 7,
        message: 1024,
    }
}

fn assigner() -> Assigner<u32> {
    Assigner::new(settings(), Totals::default())
}

fn say(assigner: &mut Assigner<u32>, now: Nanos, up: &NodeMessage) {
    assigner.hear(now, &wire::encode(up, 0));
}

fn join(assigner: &mut Assigner<u32>, now: Nanos, node: &str, incarnation: u64) {
    let join = Join { node, incarnation, dispatcher: US, slots: 1, offers: Vec::new(), beat_ns: 10 };
    say(assigner, now, &NodeMessage::Join(join));
}

fn beat(assigner: &mut Assigner<u32>, now: Nanos, node: &str, incarnation: u64, received: u64, answered: u64) {
    say(assigner, now, &NodeMessage::Beat(Beat { node, incarnation, received, answered, running: 0 }));
}

fn answer(assigner: &mut Assigner<u32>, now: Nanos, incarnation: u64, ticket: u64, outcome: Outcome) {
    let list = vec![Answer { ticket, held_ns: 10, work_ns: 5, outcome }];
    say(assigner, now, &NodeMessage::Answers(Answers { incarnation, list }));
}

fn new_event(id: &str, body: Vec<u8>, origin: u32) -> NewEvent<'static, u32> {
    NewEvent { id: id.into(), kind: "k", body: body.into(), until: None, priority: Priority::Normal, origin }
}

fn offer(assigner: &mut Assigner<u32>, number: u32) -> Option<u32> {
    match assigner.offer(0, new_event(&format!("e-{number}"), vec![number as u8; 100], number)) {
        Offered::Held(tag) => Some(tag),
        Offered::Ended | Offered::NoRoom(_) => None,
    }
}

fn sent(assigner: &mut Assigner<u32>) -> Vec<(String, Message)> {
    let mut all = Vec::new();
    while let Some((subject, message)) = assigner.next_message() {
        let said = match DispatcherMessage::decode(&message).unwrap() {
            DispatcherMessage::Events(list) => Message::Events(named(&list)),
            DispatcherMessage::ReportStart(list) => Message::ReportStart(named(&list)),
            DispatcherMessage::LargeEvents { report_start, list } => Message::LargeEvents(report_start, named(&list)),
            DispatcherMessage::Welcome { .. } => Message::Welcome,
            DispatcherMessage::JoinAgain => Message::JoinAgain,
            DispatcherMessage::Full { most } => Message::Full(most),
            DispatcherMessage::Gone => Message::Gone,
        };
        all.push((subject.to_string(), said));
    }
    all
}

fn named(list: &[wire::Event]) -> Vec<(String, u64)> {
    list.iter().map(|event| (event.id.to_owned(), event.ticket)).collect()
}

#[derive(Debug, PartialEq)]
enum Message {
    Events(Vec<(String, u64)>),
    LargeEvents(bool, Vec<(String, u64)>),
    ReportStart(Vec<(String, u64)>),
    Welcome,
    JoinAgain,
    Full(u32),
    Gone,
}

fn events(assigner: &mut Assigner<u32>, now: Nanos, to: &str) -> Vec<(String, u64)> {
    assigner.pump(now);
    match sent(assigner).pop() {
        Some((subject, Message::Events(list) | Message::ReportStart(list))) if subject == to => list,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_event_goes_to_a_node_and_its_result_comes_back_with_what_was_kept() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "n", 1);
    assert_eq!(sent(&mut assigner), [("farm.f.down.n.1".to_owned(), Message::Welcome)]);
    offer(&mut assigner, 3).unwrap();
    let [(id, ticket)] = events(&mut assigner, 0, "farm.f.down.n.1").try_into().unwrap();
    assert_eq!(id, "e-3");
    answer(&mut assigner, MS, 1, ticket, Outcome::Done(Octets(b"result")));
    let ended = assigner.next_ended().unwrap();
    assert_eq!((ended.event.origin, ended.end), (3, End::Done("result".into())));
    assert_eq!(assigner.room(Priority::Normal), Room { events: 16, bytes: 4096 });
    let shown = assigner.show(2 * MS);
    assert_eq!((shown.nodes[0].done, shown.totals.seen, shown.totals.late), (1, 1, 0));
}

#[test]
fn nodes_and_owners_are_told_what_is_a_reference() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "n", 1);
    for (number, is_reference) in [false, true, true, false].into_iter().enumerate() {
        let body = Payload { carried: "octets".into(), is_reference };
        let offered =
            assigner.offer(0, NewEvent { body, ..new_event(&format!("e-{number}"), Vec::new(), number as u32) });
        assert!(matches!(offered, Offered::Held(_)));
    }
    assigner.pump(0);
    let (mut large, mut whole) = (Vec::new(), Vec::new());
    for (_, said) in sent(&mut assigner) {
        match said {
            Message::Events(list) => whole.extend(list),
            Message::LargeEvents(false, list) => large.extend(list),
            Message::Welcome => {}
            odd => panic!("{odd:?}"),
        }
    }
    let ids = |list: &[(String, u64)]| list.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    assert_eq!((ids(&whole), ids(&large)), (vec!["e-0".into(), "e-3".into()], vec!["e-1".into(), "e-2".into()]));
    answer(&mut assigner, MS, 1, whole[0].1, Outcome::DoneLarge(Octets(b"result")));
    assert_eq!(assigner.next_ended().unwrap().end, End::Done(Payload::reference("result".into())));
}

#[test]
fn answers_count_only_from_who_has_the_event_and_only_once() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "honest", 1);
    offer(&mut assigner, 3).unwrap();
    let [(_, ticket)] = events(&mut assigner, 0, "farm.f.down.honest.1").try_into().unwrap();
    join(&mut assigner, 0, "other", 2);
    let forged = Outcome::Done(Octets(b"forged"));
    answer(&mut assigner, MS, 2, ticket, forged);
    answer(&mut assigner, MS, 99, ticket, forged);
    answer(&mut assigner, MS, 1, ticket ^ 1, forged);
    answer(&mut assigner, MS, 1, u64::MAX, forged);
    assert!(assigner.next_ended().is_none());
    answer(&mut assigner, MS, 1, ticket, Outcome::Done(Octets(b"real")));
    answer(&mut assigner, MS, 1, ticket, forged);
    assert_eq!(assigner.next_ended().unwrap().end, End::Done("real".into()));
    assert!(assigner.next_ended().is_none());
    assert_eq!(assigner.show(MS).totals.late, 5);
}

#[test]
fn events_of_a_silent_node_go_to_another_and_its_late_answer_does_not_count() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "first", 1);
    offer(&mut assigner, 3).unwrap();
    let [(_, ticket)] = events(&mut assigner, 0, "farm.f.down.first.1").try_into().unwrap();
    join(&mut assigner, 0, "second", 2);
    beat(&mut assigner, 30 * MS, "second", 2, 0, 0);
    sent(&mut assigner);
    assigner.tick(41 * MS);
    let [(id, new)] = events(&mut assigner, 41 * MS, "farm.f.down.second.2").try_into().unwrap();
    assert!(id == "e-3" && new != ticket);
    answer(&mut assigner, 42 * MS, 1, ticket, Outcome::Done(Octets(b"late")));
    answer(&mut assigner, 42 * MS, 2, ticket, Outcome::Done(Octets(b"void")));
    assert!(assigner.next_ended().is_none());
    answer(&mut assigner, 43 * MS, 2, new, Outcome::Done(Octets(b"done")));
    assert_eq!(assigner.next_ended().unwrap().end, End::Done("done".into()));
    beat(&mut assigner, 44 * MS, "first", 1, 1, 1);
    assert_eq!(sent(&mut assigner), [("farm.f.down.first.1".to_owned(), Message::JoinAgain)]);
    assert_eq!(assigner.show(44 * MS).totals.redone, 1);
}

#[test]
fn a_node_that_begins_anew_loses_what_it_had() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "n", 1);
    offer(&mut assigner, 3).unwrap();
    events(&mut assigner, 0, "farm.f.down.n.1");
    join(&mut assigner, MS, "n", 2);
    let [(id, ticket)] = events(&mut assigner, MS, "farm.f.down.n.2").try_into().unwrap();
    assert_eq!(id, "e-3");
    answer(&mut assigner, MS, 2, ticket, Outcome::Done(Octets(b"")));
    assert!(assigner.next_ended().is_some());
}

#[test]
fn events_that_wait_at_dying_nodes_are_given_to_the_next_one_together_and_the_killer_alone() {
    let mut assigner = assigner();
    for number in 0..16 {
        offer(&mut assigner, number).unwrap();
    }
    let mut counts = Vec::new();
    for incarnation in 1..=9 {
        join(&mut assigner, 0, "n", incarnation);
        assigner.pump(0);
        let mut given = Vec::new();
        for (_, said) in sent(&mut assigner) {
            match said {
                Message::Events(list) if incarnation == 1 => given.extend(list),
                Message::ReportStart(list) if incarnation > 1 => given.extend(list),
                Message::Events(_) | Message::ReportStart(_) => panic!("{said:?} for {incarnation}"),
                _ => {}
            }
        }
        counts.push(given.len());
        // Whenever it begins with `e-3`, it dies.
        let tickets = given.iter().filter(|(id, _)| id == "e-3").map(|(_, ticket)| *ticket).collect();
        say(&mut assigner, 0, &NodeMessage::Started { incarnation, tickets });
    }
    // It waits until the node is free of the others, which are all at it again whenever it has died alone.
    assert_eq!(counts, [16, 16, 12, 1, 15, 1, 15, 1, 15]);
    let dead = assigner.next_ended().unwrap();
    assert_eq!((dead.event.origin, assigner.next_ended().is_none()), (3, true));
}

#[test]
fn an_event_that_fails_is_dead_after_its_tries_with_the_last_reason() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "n", 1);
    offer(&mut assigner, 3).unwrap();
    for (now, reason) in [(0, "exit code 1"), (10 * MS, "exit code 2")] {
        let [(_, ticket)] = events(&mut assigner, now, "farm.f.down.n.1").try_into().unwrap();
        answer(&mut assigner, now, 1, ticket, Outcome::Failed { reason });
        assigner.pump(now + 9 * MS);
        assert!(sent(&mut assigner).is_empty(), "it waits");
    }
    let end = assigner.next_ended().unwrap().end;
    assert_eq!(end, End::Dead { reason: "exit code 2".to_owned(), tries: 2 });
    assert_eq!((assigner.show(0).totals.dead, assigner.show(0).totals.redone), (1, 1));
}

#[test]
fn a_node_is_not_idle_because_the_first_event_in_the_queue_failed_there() {
    let mut assigner =
        Assigner::new(Settings { balance: Balance::Tokens, backoff: 0, ..settings() }, Totals::default());
    join(&mut assigner, 0, "n", 1);
    offer(&mut assigner, 0).unwrap();
    let [(_, ticket)] = events(&mut assigner, 0, "farm.f.down.n.1").try_into().unwrap();
    join(&mut assigner, 0, "m", 2);
    offer(&mut assigner, 1).unwrap();
    let [(_, long)] = events(&mut assigner, 0, "farm.f.down.m.2").try_into().unwrap();
    for number in 2..5 {
        offer(&mut assigner, number).unwrap();
    }
    answer(&mut assigner, MS, 1, ticket, Outcome::Failed { reason: "exit code 1" });
    let [(id, ticket)] = events(&mut assigner, MS, "farm.f.down.n.1").try_into().unwrap();
    assert_eq!(id, "e-2", "it is new there how long they take");
    answer(&mut assigner, 2 * MS, 1, ticket, Outcome::Done(Octets(b"")));
    let ids: Vec<_> = events(&mut assigner, 2 * MS, "farm.f.down.n.1").into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["e-3", "e-4"]);
    answer(&mut assigner, 3 * MS, 2, long, Outcome::Done(Octets(b"")));
    let [(id, _)] = events(&mut assigner, 3 * MS, "farm.f.down.m.2").try_into().unwrap();
    assert_eq!(id, "e-0", "the last try of what failed is the other node's");
}

/// Rounds of a millisecond until all events of `total` ended. Nodes do one event each a round; those below `bad` fail.
fn rounds(nodes: u64, total: u32, bad: u32) -> (u64, u64) {
    let mut assigner = Assigner::new(Settings { tries: 3, balance: Balance::Tokens, ..settings() }, Totals::default());
    (1..=nodes).for_each(|node| join(&mut assigner, 0, &format!("n{node}"), node));
    let (mut next, mut ended, mut good_by, mut now) = (0, 0, 0, 0);
    let mut queues = vec![VecDeque::new(); nodes as usize];
    while ended < total {
        now += MS;
        assert!(now < 100_000 * MS, "{ended} of {total} ended");
        assigner.was_away(now, Nanos::MAX);
        assigner.tick(now);
        while next < total && offer(&mut assigner, next).is_some() {
            next += 1;
        }
        assigner.pump(now);
        for (subject, message) in sent(&mut assigner) {
            let Message::Events(list) = message else { continue };
            let node: usize = subject.rsplit('.').next().unwrap().parse().unwrap();
            queues[node - 1].extend(list);
        }
        for (node, queue) in (1..).zip(&mut queues) {
            let Some((id, ticket)) = queue.pop_front() else { continue };
            let number: u32 = id[2..].parse().unwrap();
            let failed = Outcome::Failed { reason: "exit code 1" };
            let outcome = if number < bad { failed } else { Outcome::Done(Octets(b"")) };
            answer(&mut assigner, now, node, ticket, outcome);
        }
        while let Some(event) = assigner.next_ended() {
            ended += 1;
            let is_good = matches!(event.end, End::Done(_));
            assert_eq!(is_good, event.event.origin >= bad);
            good_by = if is_good { now / MS } else { good_by };
        }
    }
    (now / MS, good_by)
}

#[test]
fn bad_events_take_their_tries_and_no_more_from_good_ones() {
    for nodes in [1, 2, 8] {
        let (without, _) = rounds(nodes, 1_000, 0);
        for bad in [12, 48, 100] {
            let (_, good) = rounds(nodes, 1_000 + bad, bad);
            let tries = u64::from(3 * bad);
            // A hold of 16 events is full of bad ones until each was tried three times, after 10 and 20 ms.
            let most = without + tries + u64::from(bad.div_ceil(16)) * 40;
            assert!(good < most, "{nodes} nodes, {bad} bad events: {good} rounds, {without} without, most {most}");
        }
    }
}

#[test]
fn what_every_node_refuses_is_given_up_with_what_they_say() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "n", 1);
    offer(&mut assigner, 3).unwrap();
    let (mut now, mut refused) = (0, 0);
    let end = loop {
        // A node that refuses much is paused, longer each time.
        now += 20_000 * MS;
        beat(&mut assigner, now, "n", 1, refused, refused);
        refused += 1;
        assigner.was_away(now, Nanos::MAX);
        assigner.tick(now);
        let [(_, ticket)] = events(&mut assigner, now, "farm.f.down.n.1").try_into().unwrap();
        answer(&mut assigner, now, 1, ticket, Outcome::Refused { reason: "no program" });
        if let Some(ended) = assigner.next_ended() {
            break ended.end;
        }
    };
    assert_eq!(end, End::Dead { reason: "no node can do it: no program".to_owned(), tries: 0 });
}

#[test]
fn an_event_larger_than_a_message_ends_at_once_and_events_share_messages_otherwise() {
    let mut assigner = assigner();
    assert_eq!(assigner.offer(0, new_event("large", vec![0; 1024], 0)), Offered::Ended);
    assert!(matches!(assigner.next_ended().unwrap().end, End::Dead { tries: 0, .. }));
    join(&mut assigner, 0, "n", 1);
    sent(&mut assigner);
    (0..16).for_each(|number| assert!(offer(&mut assigner, number).is_some()));
    assert_eq!(assigner.room(Priority::Normal).events, 0);
    // A full message does not count against the event.
    assert_eq!((offer(&mut assigner, 16), assigner.next_ended().is_none()), (None, true));
    assigner.pump(0);
    let lists = sent(&mut assigner);
    let counts = lists.iter().map(|(_, said)| if let Message::Events(list) = said { list.len() } else { 0 });
    assert_eq!(counts.collect::<Vec<_>>(), [7, 7, 2]);
}

#[test]
fn an_event_has_no_room_where_its_octets_have_none() {
    let mut assigner = assigner();
    let offered = [0, 1, 2, 3, 4].map(|number| assigner.offer(0, new_event("large", vec![0; 900], number)));
    assert_eq!(offered[4], Offered::NoRoom(4), "of 4096 octets");
    assert!(offered[..4].iter().all(|offered| matches!(offered, Offered::Held(_))));
    assert!(assigner.next_ended().is_none());
    assert_eq!(assigner.origins(0, 2).chain(assigner.origins(1, 2)).count(), 4);
}

#[test]
fn each_priority_has_room_of_its_own_and_urgent_events_go_first() {
    let mut assigner = assigner();
    (0..16).for_each(|number| assert!(offer(&mut assigner, number).is_some()));
    assert_eq!(offer(&mut assigner, 16), None);
    let urgent = |assigner: &mut Assigner<u32>, number: u32, bytes: usize| {
        let event = new_event(&format!("u-{number}"), vec![0; bytes], number);
        assigner.offer(0, NewEvent { priority: Priority::Urgent, ..event })
    };
    // A quarter of the events, and the octets of two of the largest messages.
    assert_eq!(assigner.room(Priority::Urgent), Room { events: 4, bytes: 2048 });
    (0..4).for_each(|number| assert!(matches!(urgent(&mut assigner, number, 100), Offered::Held(_))));
    assert_eq!(urgent(&mut assigner, 4, 100), Offered::NoRoom(4));
    join(&mut assigner, 0, "n", 1);
    assigner.pump(0);
    let lists = sent(&mut assigner).into_iter();
    let given: Vec<_> = lists
        .filter_map(|(_, said)| if let Message::Events(list) = said { Some(list) } else { None })
        .flatten()
        .collect();
    assert_eq!(given.len(), 20);
    assert!(given[..4].iter().all(|(id, _)| id.starts_with("u-")), "{given:?}");
    answer(&mut assigner, MS, 1, given[0].1, Outcome::Done(Octets(b"r")));
    assert_eq!((assigner.room(Priority::Urgent).events, assigner.room(Priority::Normal).events), (1, 0));
}

#[test]
fn there_is_place_for_so_many_nodes_and_the_others_are_told() {
    let mut assigner = assigner();
    for node in 0..5000 {
        join(&mut assigner, 0, &format!("n{node}"), node + 1);
        while assigner.next_message().is_some_and(|_| node < 4999) {}
    }
    join(&mut assigner, 0, "last", 6000);
    let most = nodes::MAX_NODES as u32;
    assert_eq!(sent(&mut assigner), [("farm.f.down.last.6000".to_owned(), Message::Full(most))]);
    assert_eq!(assigner.show(0).nodes.len(), nodes::MAX_NODES);
    assert_eq!(assigner.show(0).totals.turned_away, 5001 - u64::from(most));
}

#[test]
fn who_only_asks_is_not_answered_without_end() {
    let mut assigner = assigner();
    (0..100_000).for_each(|stranger| beat(&mut assigner, 0, "n", stranger, 0, 0));
    assert!(sent(&mut assigner).len() <= 1024);
}

#[test]
fn garbage_is_counted_and_joining_another_dispatcher_is_none_of_ours() {
    let mut assigner = assigner();
    for message in [&b""[..], b"\x01", b"\x02\x00", b"GET / HTTP/1.1", &vec![0xff; 100_000]] {
        assigner.hear(0, &Bytes::copy_from_slice(message));
    }
    let join = Join { node: "n", incarnation: 1, dispatcher: US + 1, slots: 1, offers: Vec::new(), beat_ns: 10 };
    say(&mut assigner, 0, &NodeMessage::Join(join));
    assert_eq!((assigner.show(0).totals.garbage, sent(&mut assigner).len()), (5, 0));
}

#[test]
fn who_leaves_is_given_nothing_more_and_all_are_told_when_the_dispatcher_ends() {
    let mut assigner = assigner();
    join(&mut assigner, 0, "n", 1);
    join(&mut assigner, 0, "m", 2);
    say(&mut assigner, 0, &NodeMessage::Leave { node: "n", incarnation: 1 });
    sent(&mut assigner);
    offer(&mut assigner, 1).unwrap();
    offer(&mut assigner, 2).unwrap();
    assert_eq!(events(&mut assigner, 0, "farm.f.down.m.2").len(), 2);
    assigner.goodbye();
    assert!(sent(&mut assigner).iter().all(|(_, said)| *said == Message::Gone));
}

#[test]
fn what_waits_is_cancelled_and_what_a_node_has_is_done() {
    let mut assigner = assigner();
    join(&mut assigner, MS, "n", 1);
    offer(&mut assigner, 1).unwrap();
    let given = events(&mut assigner, MS, "farm.f.down.n.1");
    assert_eq!(given.len(), 1);
    for number in 2..=5 {
        offer(&mut assigner, number).unwrap();
    }
    // `e-2` of another number is not meant.
    let is_meant = |id: &str, number: &u32| ["e-1", "e-2", "e-3", "e-5"].contains(&id) && *number != 2;
    assert_eq!(assigner.cancel(2 * MS, is_meant), (2, 1));
    assert_eq!(assigner.cancel(2 * MS, is_meant), (0, 1));
    assigner.cancel_at_once(2 * MS, new_event("e-6", b"body".to_vec(), 6));
    let mut dead = Vec::new();
    while let Some(ended) = assigner.next_ended() {
        assert_eq!(ended.end, End::cancelled());
        dead.push(ended.event.origin);
    }
    dead.sort_unstable();
    assert_eq!((dead, assigner.totals().dead), (vec![3, 5, 6], 3));
    answer(&mut assigner, 3 * MS, 1, given[0].1, Outcome::Done(Octets(b"r")));
    assert_eq!(assigner.next_ended().map(|ended| ended.event.origin), Some(1));
    let rest: Vec<String> = events(&mut assigner, 3 * MS, "farm.f.down.n.1").into_iter().map(|(id, _)| id).collect();
    assert_eq!(rest, ["e-2", "e-4"]);
}

#[test]
fn an_event_is_dead_at_its_deadline_wherever_it_is() {
    let mut assigner = assigner();
    let offer = |assigner: &mut Assigner<u32>, now, until, origin| {
        let event = new_event(&format!("e-{origin}"), b"body".to_vec(), origin);
        assigner.offer(now, NewEvent { until: Some(until), ..event })
    };
    let dead = |assigner: &mut Assigner<u32>| {
        let ended = assigner.next_ended()?;
        let End::Dead { reason, tries } = ended.end else { panic!("{:?}", ended.end) };
        Some((ended.event.origin, reason, tries))
    };
    assert_eq!(offer(&mut assigner, MS, MS, 0), Offered::Ended);
    assert_eq!(dead(&mut assigner), Some((0, OVER.to_owned(), 0)));
    // With nobody to do them they wait.
    for (origin, until) in [(1, 20), (2, 30), (3, 40)] {
        assert!(matches!(offer(&mut assigner, MS, until * MS, origin), Offered::Held(_)));
    }
    assigner.tick(20 * MS - 1);
    assert_eq!(dead(&mut assigner), None);
    assigner.tick(20 * MS);
    assert_eq!((dead(&mut assigner), dead(&mut assigner)), (Some((1, OVER.to_owned(), 0)), None));
    // A node has no longer than the deadline, and says when it has ended one.
    join(&mut assigner, 20 * MS, "n", 1);
    assigner.pump(30 * MS - 5);
    let mut limits = Vec::new();
    let mut tickets = Vec::new();
    while let Some((_, message)) = assigner.next_message() {
        if let Some(DispatcherMessage::Events(list)) = DispatcherMessage::decode(&message) {
            limits.extend(list.iter().map(|event| (event.id.to_owned(), event.limit_ns)));
            tickets.extend(list.iter().map(|event| event.ticket));
        }
    }
    assert_eq!(limits, [("e-2".to_owned(), 5), ("e-3".to_owned(), 7)]);
    assigner.tick(30 * MS);
    assert_eq!(dead(&mut assigner), None, "the node has it");
    answer(&mut assigner, 31 * MS, 1, tickets[0], Outcome::Failed { reason: "too long" });
    assert_eq!(dead(&mut assigner), Some((2, format!("{OVER}: too long"), 1)));
    answer(&mut assigner, 39 * MS, 1, tickets[1], Outcome::Refused { reason: "no program" });
    assigner.tick(39 * MS);
    assert_eq!(dead(&mut assigner), None, "another node may do it");
    assigner.tick(40 * MS);
    assert_eq!((dead(&mut assigner), assigner.is_empty()), (Some((3, OVER.to_owned(), 0)), true));
}
