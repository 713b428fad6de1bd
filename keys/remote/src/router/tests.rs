//! The gateway's decisions alone: messages to the service, and requests to key servers.

use super::*;
use sidecore_client::gateway::Operation;
use sidecore_client::spec::Scheme;

const MS: Nanos = 1_000_000;

fn router() -> KeyRouter {
    let (balance, patience, silence) = (Balance::Eft, 1000 * MS, 40 * MS);
    KeyRouter::new(Settings { number: 1, balance, depth: 8, patience, silence })
}

fn message(incarnation: u64, body: MessageBody<'_>) -> ServerMessage<'_> {
    ServerMessage { gateway: 1, incarnation, echo: Echo::default(), body }
}

fn join(router: &mut KeyRouter, now: Nanos, name: &str, incarnation: u64, keys: &[&str]) {
    let offers = keys.iter().map(|key| Offer { key, public: key.as_bytes() }).collect();
    router.heard(now, name, &message(incarnation, MessageBody::Join { slots: 2, offers }));
}

fn ask(router: &mut KeyRouter, now: Nanos, ticket: u64, key: &str) {
    let (scheme, operation) = (Scheme::Ed25519, Operation::Sign);
    router.asked(now, &Request { ticket, key, task: Task::Open { scheme, operation }, input: &[7] });
}

fn answers(router: &mut KeyRouter) -> Vec<(u64, Ended)> {
    let answer = |said| if let ServiceMessage::Answer { ticket, ended } = said { Some((ticket, ended)) } else { None };
    router.service_messages().drain(..).filter_map(answer).collect()
}

fn keys(router: &mut KeyRouter) -> Vec<String> {
    let key = |said| match said {
        ServiceMessage::Offer { key, .. } => Some(format!("+{key}")),
        ServiceMessage::Withdraw(key) => Some(format!("-{key}")),
        ServiceMessage::Answer { .. } => None,
    };
    router.service_messages().drain(..).filter_map(key).collect()
}

fn asked(router: &mut KeyRouter) -> Vec<(String, String, u64)> {
    let mut all = Vec::new();
    for Outgoing { server, key, body } in router.outgoing(1 << 20) {
        let batch = wire::request_batch(&body, &key).unwrap();
        all.extend(batch.list.iter().map(|request| (server.to_string(), key.to_string(), request.ticket)));
    }
    all
}

fn notes(router: &mut KeyRouter) -> String {
    router.notes().take(0).join("\n")
}

fn answer(router: &mut KeyRouter, now: Nanos, name: &str, incarnation: u64, ticket: u64, outcome: Outcome<'_>) {
    let list = vec![Answer { ticket, held_ns: MS, work_ns: MS, outcome }];
    router.heard(now, name, &message(incarnation, MessageBody::Answers(list)));
}

#[test]
fn the_service_is_told_of_a_key_once_and_when_nobody_has_it_any_more() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a", "b"]);
    join(&mut router, 0, "one", 11, &["a", "b"]);
    assert_eq!(keys(&mut router), ["+a", "+b"]);
    join(&mut router, 0, "two", 21, &["b", "c"]);
    assert_eq!(keys(&mut router), ["+c"]);
    assert_eq!(router.presence(0).members, [11, 21]);
    router.heard(30 * MS, "two", &message(21, MessageBody::Beat { received: 0, answered: 0 }));
    router.tick(41 * MS);
    assert!(keys(&mut router).is_empty() && router.presence(0).members == [21]);
    router.heard(70 * MS, "two", &message(21, MessageBody::Beat { received: 0, answered: 0 }));
    router.tick(101 * MS);
    assert_eq!(keys(&mut router), ["-a"]);
    router.heard(102 * MS, "two", &message(21, MessageBody::Leave));
    router.tick(162 * MS);
    assert_eq!(keys(&mut router), ["-b", "-c"]);
}

#[test]
fn a_request_is_answered_once_by_whoever_it_is_with() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a"]);
    ask(&mut router, 0, 5, "a");
    let [(server, key, ticket)] = asked(&mut router).try_into().unwrap();
    assert_eq!((server.as_str(), key.as_str()), ("one", "a"));
    answer(&mut router, MS, "one", 10, ticket, Outcome::Done(&[1]));
    answer(&mut router, MS, "two", 11, ticket, Outcome::Done(&[1]));
    answer(&mut router, MS, "one", 11, ticket + 1, Outcome::Done(&[1]));
    answer(&mut router, MS, "one", 11, u64::MAX, Outcome::Done(&[1]));
    assert_eq!(answers(&mut router), [], "of another time, of another, of another request");
    answer(&mut router, MS, "one", 11, ticket, Outcome::Done(&[9]));
    answer(&mut router, MS, "one", 11, ticket, Outcome::Done(&[9]));
    assert_eq!(answers(&mut router), [(5, Ended::Done(vec![9]))]);
}

#[test]
fn requests_of_a_lost_key_server_are_with_another_at_once_and_its_late_answer_is_dropped() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a"]);
    (0..4).for_each(|ticket| ask(&mut router, 0, ticket, "a"));
    let before = asked(&mut router);
    assert!(before.len() == 4 && before.iter().all(|(server, ..)| server == "one"));
    join(&mut router, 35 * MS, "two", 21, &["a"]);
    assert_eq!(asked(&mut router), []);
    router.tick(41 * MS);
    let after = asked(&mut router);
    assert!(after.len() == 4 && after.iter().all(|(server, ..)| server == "two"));
    for (_, _, ticket) in before {
        answer(&mut router, 42 * MS, "one", 11, ticket, Outcome::Done(&[1]));
        answer(&mut router, 42 * MS, "two", 21, ticket, Outcome::Done(&[1]));
    }
    assert!(answers(&mut router).is_empty(), "too late, and of another");
    for (_, _, ticket) in after {
        answer(&mut router, 43 * MS, "two", 21, ticket, Outcome::Done(&[2]));
    }
    let mut answered = answers(&mut router);
    answered.sort_by_key(|(ticket, _)| *ticket);
    assert_eq!(answered, [0, 1, 2, 3].map(|ticket| (ticket, Ended::Done(vec![2]))));
}

#[test]
fn a_key_that_nobody_offers_is_elsewhere_at_once_or_after_a_moment() {
    let mut router = router();
    ask(&mut router, 0, 1, "a");
    join(&mut router, 0, "one", 11, &["a"]);
    ask(&mut router, 0, 2, "b");
    assert_eq!(answers(&mut router), [1, 2].map(|ticket| (ticket, Ended::Elsewhere)));
    ask(&mut router, 0, 3, "a");
    asked(&mut router);
    router.tick(50 * MS);
    ask(&mut router, 100 * MS, 4, "a");
    router.tick(109 * MS);
    assert_eq!(answers(&mut router), []);
    router.tick(110 * MS);
    let mut answered = answers(&mut router);
    answered.sort_by_key(|(ticket, _)| *ticket);
    assert_eq!(answered, [3, 4].map(|ticket| (ticket, Ended::Elsewhere)));
}

#[test]
fn a_key_server_that_was_lost_by_mistake_and_joins_again_costs_a_moment_and_no_request() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a"]);
    assert_eq!(keys(&mut router), ["+a"]);
    ask(&mut router, 0, 3, "a");
    asked(&mut router);
    router.tick(50 * MS);
    join(&mut router, 60 * MS, "one", 12, &["a"]);
    let [(_, _, ticket)] = asked(&mut router).try_into().unwrap();
    answer(&mut router, 61 * MS, "one", 12, ticket, Outcome::Done(&[1]));
    assert_eq!(
        router.service_messages().drain(..).collect::<Vec<_>>(),
        [ServiceMessage::Answer { ticket: 3, ended: Ended::Done(vec![1]) }]
    );
}

#[test]
fn a_request_that_one_fails_at_is_asked_of_another_and_fails_after_three() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a"]);
    join(&mut router, 0, "two", 21, &["a"]);
    ask(&mut router, 0, 1, "a");
    let mut servers = Vec::new();
    for _ in 0..3 {
        let [(server, _, ticket)] = asked(&mut router).try_into().unwrap();
        let incarnation = if server == "one" { 11 } else { 21 };
        answer(&mut router, MS, &server, incarnation, ticket, Outcome::Elsewhere);
        servers.push(server);
    }
    assert_ne!(servers[0], servers[1]);
    assert_eq!(answers(&mut router), [(1, Ended::Elsewhere)]);
    // A key server's refusal is final.
    ask(&mut router, 0, 2, "a");
    let [(server, _, ticket)] = asked(&mut router).try_into().unwrap();
    answer(&mut router, MS, &server, if server == "one" { 11 } else { 21 }, ticket, Outcome::Refused(5));
    assert_eq!(answers(&mut router), [(2, Ended::Refused(5))]);
}

#[test]
fn a_request_without_an_answer_is_given_up_in_time_and_its_place_is_another_s_later() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a"]);
    (0..16).for_each(|ticket| ask(&mut router, 0, ticket, "a"));
    ask(&mut router, 0, 99, "a");
    assert_eq!(answers(&mut router), [(99, Ended::Elsewhere)], "as many as twice the depth");
    let with = asked(&mut router);
    let (quick, late) = with.split_at(10);
    for at in 1..=100 {
        let answered = at / 10;
        if at % 10 == 0 {
            answer(&mut router, at * 10 * MS, "one", 11, quick[answered as usize - 1].2, Outcome::Done(&[1]));
        }
        router.heard(at * 10 * MS, "one", &message(11, MessageBody::Beat { received: with.len() as u64, answered }));
        router.tick(at * 10 * MS);
    }
    let elsewhere = answers(&mut router).iter().filter(|(_, ended)| *ended == Ended::Elsewhere).count();
    assert_eq!(elsewhere, late.len());
    for &(_, _, ticket) in late {
        answer(&mut router, 1001 * MS, "one", 11, ticket, Outcome::Done(&[1]));
    }
    assert_eq!(answers(&mut router), [], "too late");
    (0..16).for_each(|ticket| ask(&mut router, 1002 * MS, ticket, "a"));
    assert_eq!(answers(&mut router), []);
}

#[test]
fn one_that_lives_and_answers_nothing_costs_no_request_and_gets_one_after_a_growing_pause() {
    let mut router = router();
    let beat = |router: &mut KeyRouter, now, name: &str, incarnation, received| {
        router.heard(now, name, &message(incarnation, MessageBody::Beat { received, answered: 0 }));
    };
    join(&mut router, 0, "hangs", 11, &["a"]);
    (0..2).for_each(|ticket| ask(&mut router, 0, ticket, "a"));
    assert_eq!(asked(&mut router).len(), 2);
    join(&mut router, MS, "works", 21, &["a"]);
    for at in 1..=35 {
        beat(&mut router, at * 10 * MS, "hangs", 11, 2);
        beat(&mut router, at * 10 * MS, "works", 21, 0);
        router.tick(at * 10 * MS);
    }
    assert!(notes(&mut router).contains("hangs has requests and answers none for 333 ms"));
    let now = 350 * MS;
    let again = asked(&mut router);
    assert!(again.len() == 2 && again.iter().all(|(server, ..)| server == "works"), "{again:?}");
    for (_, _, ticket) in again {
        answer(&mut router, now, "works", 21, ticket, Outcome::Done(&[1]));
    }
    assert!(answers(&mut router).iter().all(|(_, ended)| *ended == Ended::Done(vec![1])));
    // It would join at once, and is left out for a second.
    join(&mut router, now, "hangs", 12, &["a"]);
    assert_eq!(router.presence(0).members, [21]);
    // Unless nobody else has the key.
    router.heard(now, "works", &message(21, MessageBody::Leave));
    join(&mut router, now, "hangs", 13, &["a"]);
    assert!(router.presence(0).members.contains(&13));
    // It has one slot until it answers, and then joins again with all.
    (10..14).for_each(|ticket| ask(&mut router, now, ticket, "a"));
    let (_, _, ticket) = asked(&mut router).swap_remove(0);
    answer(&mut router, now + MS, "hangs", 13, ticket, Outcome::Done(&[1]));
    assert!(!router.presence(0).members.contains(&13));
    join(&mut router, now + 2 * MS, "hangs", 14, &["a"]);
    assert!(asked(&mut router).len() > 1);
}

#[test]
fn a_key_with_another_public_part_and_one_too_many_are_not_taken() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a"]);
    let offers = vec![Offer { key: "a", public: b"another" }, Offer { key: "a..b", public: b"x" }];
    router.heard(0, "two", &message(21, MessageBody::Join { slots: 1, offers }));
    assert_eq!(router.presence(0).members, [11]);
    let said = notes(&mut router);
    assert!(said.contains("another public part") && said.contains("cannot be part of a subject"), "{said}");
    let many: Vec<String> = (0..=Class::COUNT).map(|number| format!("key{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    join(&mut router, 0, "three", 31, &many);
    assert_eq!(keys(&mut router).len(), Class::COUNT);
    assert!(notes(&mut router).contains("at most"));
}

#[test]
fn a_key_server_with_another_key_keeps_no_honest_one_out_once_the_service_says_which_it_knows() {
    let mut router = router();
    let offer = |router: &mut KeyRouter, now, name: &str, incarnation, public: &[u8]| {
        let offers = vec![Offer { key: "a", public }, Offer { key: "own", public: b"own" }];
        router.heard(now, name, &message(incarnation, MessageBody::Join { slots: 1, offers }));
    };
    offer(&mut router, 0, "liar", 11, b"wrong");
    offer(&mut router, 0, "honest", 21, b"right");
    assert_eq!(router.presence(0).members, [11, 21]);
    assert_eq!(keys(&mut router), ["+a", "+own"]);
    router.knows(MS, "a", Some(b"right"));
    assert!(router.presence(0).members.is_empty(), "both join again");
    for round in 0..3 {
        offer(&mut router, 2 * MS, "liar", 12 + round, b"wrong");
    }
    assert!(notes(&mut router).contains("liar offers a with another public part than the service on this machine has"));
    offer(&mut router, 2 * MS, "honest", 22, b"right");
    assert_eq!(keys(&mut router), ["+a"], "the right one, within the time in which a key lingers");
    ask(&mut router, 3 * MS, 1, "a");
    assert_eq!(asked(&mut router)[0].0, "honest");
    // The service renews its key, and its key server is behind. No new key answers a request on the former one.
    ask(&mut router, 3 * MS, 7, "a");
    asked(&mut router);
    router.knows(4 * MS, "a", Some(b"new"));
    let mut ended = answers(&mut router);
    ended.sort_by_key(|(ticket, _)| *ticket);
    assert_eq!(ended, [1, 7].map(|ticket| (ticket, Ended::Elsewhere)));
    assert_eq!(router.presence(0).members.len(), 1, "the liar's other key stays");
    offer(&mut router, 5 * MS, "honest", 23, b"right");
    ask(&mut router, 200 * MS, 2, "a");
    router.tick(200 * MS);
    ask(&mut router, 201 * MS, 3, "a");
    assert!(asked(&mut router).is_empty());
    // Without a key there, any is offered.
    router.knows(202 * MS, "a", None);
    offer(&mut router, 203 * MS, "honest", 24, b"right");
    assert!(keys(&mut router).contains(&"+a".to_owned()));
}

#[test]
fn a_key_that_nats_forbids_is_not_taken_again_and_its_requests_hear_why() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a", "b"]);
    keys(&mut router);
    ask(&mut router, 0, 1, "b");
    ask(&mut router, 0, 2, "a");
    asked(&mut router);
    router.denied(0, "b");
    assert!(router.presence(0).members.is_empty());
    join(&mut router, 0, "one", 12, &["a", "b"]);
    router.tick(MS);
    ask(&mut router, MS, 3, "b");
    let [(_, key, ticket)] = asked(&mut router).try_into().unwrap();
    assert_eq!(key, "a", "what was lost with the other one");
    answer(&mut router, MS, "one", 12, ticket, Outcome::Done(&[9]));
    assert_eq!(answers(&mut router), [(1, DENIED), (3, DENIED), (2, Ended::Done(vec![9]))]);
    router.tick(1000 * MS);
    assert!(!keys(&mut router).contains(&"-b".to_owned()), "the service goes on to ask");
}

#[test]
fn a_request_on_a_denied_key_keeps_its_place_while_a_key_server_has_it() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a", "b"]);
    ask(&mut router, 0, 1, "b");
    let [(_, _, before)] = asked(&mut router).try_into().unwrap();
    router.heard(0, "one", &message(11, MessageBody::Leave));
    router.denied(0, "b");
    assert_eq!(answers(&mut router), [(1, DENIED)]);
    join(&mut router, 0, "two", 21, &["a"]);
    ask(&mut router, 0, 2, "a");
    let [(server, _, ticket)] = asked(&mut router).try_into().unwrap();
    answer(&mut router, MS, "one", 11, before, Outcome::Done(&[1]));
    assert_eq!(answers(&mut router), [], "a result of another key");
    answer(&mut router, MS, &server, 21, ticket, Outcome::Done(&[2]));
    assert_eq!(answers(&mut router), [(2, Ended::Done(vec![2]))]);
}

#[test]
fn a_key_server_cannot_say_that_nats_forbids_a_key() {
    let mut router = router();
    join(&mut router, 0, "one", 11, &["a"]);
    ask(&mut router, 0, 1, "a");
    for _ in 0..3 {
        let [(_, _, ticket)] = asked(&mut router).try_into().unwrap();
        answer(&mut router, MS, "one", 11, ticket, Outcome::refused(Refusal::KeyDenied));
    }
    assert_eq!(answers(&mut router), [(1, Ended::Elsewhere)]);
}

#[test]
fn what_is_for_another_gateway_is_nothing_here() {
    let mut router = router();
    let offers = vec![Offer { key: "a", public: b"x" }];
    router.heard(0, "one", &ServerMessage { gateway: 2, ..message(11, MessageBody::Join { slots: 1, offers }) });
    assert_eq!(keys(&mut router), [""; 0]);
}

#[test]
fn a_key_server_that_lies_loses_that_key_and_others_keep_all_of_theirs() {
    let mut router = router();
    join(&mut router, 0, "liar", 11, &["a", "b"]);
    join(&mut router, 0, "good", 21, &["a"]);
    (0..4).for_each(|ticket| ask(&mut router, 0, ticket, "a"));
    let (with_liar, with_good): (Vec<_>, Vec<_>) =
        asked(&mut router).into_iter().partition(|(server, ..)| server == "liar");
    let mut with_liar = with_liar.into_iter().map(|(.., ticket)| ticket);
    answer(&mut router, MS, "liar", 11, with_liar.next().unwrap(), Outcome::Done(&[6]));
    let [(wrong, _)]: [(u64, Ended); 1] = answers(&mut router).try_into().unwrap();
    notes(&mut router);
    router.wrong(MS, wrong);
    assert_eq!(router.presence(0).members, [21]);
    for ticket in with_liar {
        answer(&mut router, MS, "liar", 11, ticket, Outcome::Done(&[6]));
    }
    join(&mut router, 2 * MS, "liar", 12, &["a", "b"]);
    ask(&mut router, 2 * MS, 10, "a");
    ask(&mut router, 2 * MS, 11, "b");
    let again = asked(&mut router);
    for (server, key, ticket) in with_good.into_iter().chain(again) {
        assert_eq!(server == "liar", key == "b", "{server} is asked for {key}");
        answer(&mut router, 3 * MS, &server, if server == "liar" { 12 } else { 21 }, ticket, Outcome::Done(&[9]));
    }
    let mut done = answers(&mut router);
    done.sort_by_key(|(ticket, _)| *ticket);
    let others = (0..4).filter(|ticket| *ticket != wrong).chain([10, 11]);
    assert_eq!(done, others.map(|ticket| (ticket, Ended::Done(vec![9]))).collect::<Vec<_>>());
    // The log has one line, also for repeated reports.
    router.wrong(3 * MS, wrong);
    router.wrong(3 * MS, 99);
    let said = notes(&mut router);
    assert_eq!(said.matches("has not made").count(), 1, "{said}");
}

#[test]
fn a_key_server_that_joins_and_leaves_all_the_time_fills_no_log() {
    let mut router = router();
    let mut lines = 0;
    for round in 0..10_000 {
        join(&mut router, 0, "bad", round, &["a", "b..c"]);
        lines += notes(&mut router).lines().count();
    }
    assert!(lines <= 15, "{lines} lines");
    join(&mut router, 0, "good", 1, &["a"]);
    assert!(notes(&mut router).contains("the key server good offers 1 keys"));
}
