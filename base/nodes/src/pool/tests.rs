//! Tests of a farm alone: placement, loss of nodes, and moved events.

use super::*;

const MS: Nanos = 1_000_000;
const KIND: Class = Class::NOOP;

fn farm(balance: Balance) -> NodePool {
    NodePool::new(Settings {
        balance,
        in_flight: 64,
        depth: 64,
        silence: 40 * MS,
        grace: 200 * MS,
        tries: 3,
        deaths: DEATHS,
        stall: 500 * MS,
    })
}

fn join(farm: &mut NodePool, now: Nanos) -> NodeId {
    farm.join(now, 1, Classes::all(), 10 * MS).unwrap()
}

fn given(placed: Placement) -> (NodeId, Ticket) {
    match placed {
        Placement::Assigned { member, ticket } => (member, ticket),
        other => panic!("{other:?}"),
    }
}

fn serve(farm: &mut NodePool, now: Nanos, work: Nanos, way: Nanos) -> NodeId {
    let (member, ticket) = given(farm.place(now, 0, KIND, 100));
    let answered = farm.answered(now + work + way, member, ticket, work, work).unwrap();
    assert_eq!((answered.tag, answered.way), (0, way));
    member
}

#[test]
fn a_node_of_which_nothing_is_known_gets_one_event_and_then_as_many_as_its_way_takes() {
    let mut farm = farm(Balance::Tokens);
    join(&mut farm, 0);
    let (member, ticket) = given(farm.place(0, 0, KIND, 100));
    assert_eq!(farm.place(0, 1, KIND, 100), Placement::Full);
    farm.answered(11 * MS, member, ticket, MS, MS).unwrap();
    // The window is 1.2 x 10 ms and an event of 1 ms; the last one may overdraw.
    let taken = (1..64).take_while(|tag| farm.place(11 * MS, *tag, KIND, 100) != Placement::Full).count();
    assert_eq!(taken, 13);
    let view = farm.view(member).unwrap();
    assert_eq!((view.window, view.credit, view.in_flight, view.done), (13 * MS, 0, 13, 1));
}

#[test]
fn a_window_does_not_grow_with_the_queue_that_it_makes() {
    let mut farm = farm(Balance::Tokens);
    let member = join(&mut farm, 0);
    serve(&mut farm, 0, 0, MS);
    for round in 1..100 {
        serve(&mut farm, round * MS, 0, 50 * MS);
    }
    assert_eq!(farm.view(member).unwrap().way, 4 * MS);
}

#[test]
fn a_window_covers_ways_that_are_longer_than_most() {
    let mut farm = farm(Balance::Tokens);
    let member = join(&mut farm, 0);
    for round in 0..200 {
        serve(&mut farm, round * 10 * MS, 0, if round % 4 == 3 { 5 * MS } else { MS });
    }
    let View { way, window, .. } = farm.view(member).unwrap();
    assert!((MS..3 * MS).contains(&way), "{way}");
    assert!((5 * MS..20 * MS).contains(&window), "{window}");
}

#[test]
fn an_event_goes_to_the_node_that_asks_and_finishes_it_first() {
    let mut farm = farm(Balance::Tokens);
    let slow = join(&mut farm, 0);
    assert_eq!(serve(&mut farm, 0, 10 * MS, MS), slow);
    let fast = join(&mut farm, 20 * MS);
    // The unknown node gets one to try; then the other gets events until its credit is used up.
    let (first, ticket) = given(farm.place(20 * MS, 1, KIND, 100));
    let (second, _) = given(farm.place(20 * MS, 2, KIND, 100));
    let (third, _) = given(farm.place(20 * MS, 3, KIND, 100));
    assert_eq!([first, second, third], [fast, slow, slow]);
    farm.answered(22 * MS, fast, ticket, MS, MS).unwrap();
    assert_eq!(given(farm.place(22 * MS, 4, KIND, 100)).0, fast);
}

#[test]
fn whoever_has_not_done_a_kind_gets_one_event_of_it_to_try_under_every_policy() {
    for balance in [Balance::Eft, Balance::Tokens, Balance::Priced, Balance::Sed] {
        let mut farm = farm(balance);
        let known = join(&mut farm, 0);
        assert_eq!(serve(&mut farm, 0, MS, MS), known);
        let fresh = join(&mut farm, 10 * MS);
        let (first, ticket) = given(farm.place(10 * MS, 1, KIND, 100));
        assert_eq!(first, fresh, "{balance}: what it takes is not known");
        let (second, _) = given(farm.place(10 * MS, 2, KIND, 100));
        assert_eq!(second, known, "{balance}: one to try is enough");
        // By its first answer it is ten times as fast.
        farm.answered(11 * MS, fresh, ticket, MS / 10, MS / 10).unwrap();
        assert_eq!(given(farm.place(11 * MS, 3, KIND, 100)).0, fresh, "{balance}");
    }
}

#[test]
fn a_node_that_failed_its_first_event_is_not_the_first_to_get_another() {
    let mut farm = farm(Balance::Eft);
    let known = join(&mut farm, 0);
    serve(&mut farm, 0, MS, MS);
    let fresh = join(&mut farm, 10 * MS);
    let (first, ticket) = given(farm.place(10 * MS, 1, KIND, 100));
    assert_eq!(first, fresh);
    farm.failed(10 * MS, fresh, ticket).unwrap();
    assert_eq!(given(farm.place(10 * MS, 2, KIND, 100)).0, known);
}

#[test]
fn a_node_that_beats_rarely_is_given_four_of_its_beats() {
    let mut farm = farm(Balance::Tokens);
    let member = farm.join(0, 1, Classes::all(), 100 * MS).unwrap();
    assert_eq!((farm.due(), farm.silent(400 * MS)), (Some(400 * MS + 1), None));
    assert_eq!(farm.silent(400 * MS + 1), Some(member));
}

#[test]
fn a_silent_node_is_lost_and_its_events_are_with_others_once() {
    let mut farm = farm(Balance::Eft);
    let (first, second) = (join(&mut farm, 0), join(&mut farm, 0));
    let tickets: Vec<_> = (0..4).map(|tag| given(farm.place(0, tag, KIND, 100))).collect();
    assert_eq!(tickets.iter().filter(|(member, _)| *member == first).count(), 2);
    assert_eq!((farm.due(), farm.silent(40 * MS)), (Some(40 * MS + 1), None));
    assert_eq!(farm.beat(30 * MS, second, 2, 0), BeatOutcome::Fine);
    assert_eq!(farm.silent(41 * MS), Some(first));
    farm.lose(41 * MS, first, false);
    assert_eq!(farm.silent(41 * MS), None);
    let mut again = Vec::new();
    while let Some(moved) = farm.next_reassignment(0) {
        let Reassignment::Assigned { tag, member, ticket } = moved else { panic!("{moved:?}") };
        assert_eq!(member, second);
        again.push((tag, ticket));
    }
    assert_eq!(again.len(), 2);
    // The lost node answers late: under its old name, and with tickets of another node.
    let (_, late) = tickets.iter().find(|(member, _)| *member == first).unwrap();
    assert_eq!(farm.answered(50 * MS, first, *late, MS, MS), None);
    assert_eq!(farm.beat(50 * MS, first, 2, 0), BeatOutcome::Unknown);
    let back = join(&mut farm, 50 * MS);
    assert_eq!(farm.answered(50 * MS, back, again[0].1, MS, MS), None, "another's ticket");
    for (tag, ticket) in again {
        assert_eq!(farm.answered(60 * MS, second, ticket, MS, MS).unwrap().tag, tag);
        assert_eq!(farm.answered(60 * MS, second, ticket, MS, MS), None, "twice");
    }
}

#[test]
fn events_of_the_last_node_are_placed_again_by_the_caller() {
    let mut farm = farm(Balance::Tokens);
    let only = join(&mut farm, 0);
    given(farm.place(0, 7, KIND, 100));
    farm.lose(0, only, false);
    assert_eq!(farm.next_reassignment(0), Some(Reassignment::Again { tag: 7 }));
    assert_eq!((farm.next_reassignment(0), farm.in_flight()), (None, 0));
    assert_eq!(farm.place(0, 7, KIND, 100), Placement::NoNode);
    join(&mut farm, 0);
    given(farm.place(0, 7, KIND, 100));
}

#[test]
fn an_event_that_waits_for_room_is_given_when_there_is_some() {
    let mut farm = farm(Balance::Tokens);
    let (first, second) = (join(&mut farm, 0), join(&mut farm, 0));
    let (one, _) = given(farm.place(0, 1, KIND, 100));
    let (two, ticket) = given(farm.place(0, 2, KIND, 100));
    assert_eq!((one, two), (first, second));
    farm.lose(0, first, false);
    assert_eq!(farm.next_reassignment(0), None);
    farm.answered(MS, second, ticket, MS, MS).unwrap();
    assert!(
        matches!(farm.next_reassignment(0), Some(Reassignment::Assigned { tag: 1, member, .. }) if member == second)
    );
}

/// Has the node begin with this event.
fn begin(farm: &mut NodePool, member: NodeId, tag: u32) {
    let (node, ticket) = given(farm.place(0, tag, KIND, 100));
    assert_eq!(node, member);
    farm.started(member, ticket);
}

/// Kills the node of this event. Its fate; `None`: another node has it.
fn kill(farm: &mut NodePool, now: Nanos, member: NodeId, tag: u32) -> Option<Reassignment> {
    farm.lose(now, member, true);
    let mut fate = None;
    while let Some(moved) = farm.next_reassignment(now) {
        let (Reassignment::Assigned { tag: of, .. }
        | Reassignment::Again { tag: of }
        | Reassignment::Abandoned { tag: of }) = moved;
        fate = if of == tag { Some(moved) } else { fate };
    }
    fate
}

#[test]
fn an_event_that_kills_its_nodes_is_given_up_after_it_was_alone() {
    let mut farm = farm(Balance::Tokens);
    for death in 1..=DEATHS {
        let member = join(&mut farm, 0);
        begin(&mut farm, member, 5);
        let fate = if death < DEATHS { Reassignment::Again { tag: 5 } } else { Reassignment::Abandoned { tag: 5 } };
        assert_eq!(kill(&mut farm, 0, member, 5), Some(fate));
    }
    let member = join(&mut farm, 0);
    let (_, ticket) = given(farm.place(0, 5, KIND, 100));
    assert_eq!(kill(&mut farm, 0, member, 5), Some(Reassignment::Again { tag: 5 }), "another event of this tag");
    assert_eq!(farm.answered(0, member, ticket, 0, 0), None);
}

#[test]
fn an_innocent_event_beside_a_killer_runs_alone_once_and_is_done() {
    let mut farm = farm(Balance::Eft);
    let [killer, innocent] = [0, 1];
    for _ in 0..2 {
        let member = join(&mut farm, 0);
        for tag in [killer, innocent] {
            begin(&mut farm, member, tag);
        }
        assert_eq!(kill(&mut farm, 0, member, innocent), Some(Reassignment::Again { tag: innocent }));
    }
    let member = join(&mut farm, 0);
    let (_, busy) = given(farm.place(0, 2, KIND, 100));
    assert_eq!(farm.place(0, innocent, KIND, 100), Placement::Avoided, "the node has another event");
    assert_eq!(farm.place(0, 3, KIND, 100), Placement::Full, "the node is kept free");
    farm.answered(MS, member, busy, MS, MS).unwrap();
    assert_eq!(farm.place(MS, killer, KIND, 100), Placement::Avoided, "the node is for the other one");
    let (_, ticket) = given(farm.place(MS, innocent, KIND, 100));
    assert_eq!(farm.place(MS, 3, KIND, 100), Placement::Full, "it is alone there");
    assert_eq!(farm.place(MS, killer, KIND, 100), Placement::Avoided);
    farm.answered(2 * MS, member, ticket, MS, MS).unwrap();
    let mut member = member;
    for fate in [
        Reassignment::Again { tag: killer },
        Reassignment::Again { tag: killer },
        Reassignment::Abandoned { tag: killer },
    ] {
        assert_eq!(given(farm.place(2 * MS, killer, KIND, 100)).0, member);
        assert_eq!(kill(&mut farm, 2 * MS, member, killer), Some(fate));
        member = join(&mut farm, 2 * MS);
    }
    assert_eq!(given(farm.place(2 * MS, 3, KIND, 100)).0, member);
}

#[test]
fn events_that_only_waited_at_dying_nodes_stay_together_and_the_one_that_was_begun_is_found() {
    let mut farm = farm(Balance::Eft);
    let mut tickets = Vec::new();
    for death in 0..10 {
        let member = join(&mut farm, 0);
        tickets = (0..8).map(|tag| given(farm.place(0, tag, KIND, 100)).1).collect();
        assert!((0..8).all(|tag| farm.reports_start(tag) == (death > 0)), "after {death}");
        // The first death is all that there is against any of them.
        kill(&mut farm, 0, member, 0);
    }
    let [first, second] = [0, 0].map(|now| join(&mut farm, now));
    farm.started(first, tickets[3]);
    let (node, ticket) = given(farm.place(0, 3, KIND, 100));
    let other = if node == first { second } else { first };
    farm.started(other, ticket);
    kill(&mut farm, 0, node, 3);
    assert_eq!(farm.view(other).unwrap().in_flight, 1, "a void ticket, and another's, say nothing");
    kill(&mut farm, 0, other, 3);
    let member = join(&mut farm, 0);
    given(farm.place(0, 4, KIND, 100));
    begin(&mut farm, member, 3);
    kill(&mut farm, 0, member, 3);
    join(&mut farm, 0);
    assert_eq!(given(farm.place(0, 4, KIND, 100)).0, given(farm.place(0, 5, KIND, 100)).0, "still together");
    assert_eq!(farm.place(0, 3, KIND, 100), Placement::Avoided, "it has to be alone");
}

#[test]
fn a_node_that_is_kept_free_serves_again_if_its_event_is_gone_or_fails() {
    let mut farm = farm(Balance::Eft);
    let die = |farm: &mut NodePool| {
        for _ in 0..2 {
            let member = join(farm, 0);
            begin(farm, member, 5);
            kill(farm, 0, member, 5);
        }
    };
    die(&mut farm);
    let member = join(&mut farm, 0);
    let (_, busy) = given(farm.place(0, 1, KIND, 100));
    assert_eq!(farm.place(0, 5, KIND, 100), Placement::Avoided);
    assert_eq!(farm.place(0, 2, KIND, 100), Placement::Full);
    farm.forget(5);
    let (_, second) = given(farm.place(0, 2, KIND, 100));
    for ticket in [busy, second] {
        farm.answered(0, member, ticket, 0, 0).unwrap();
    }
    kill(&mut farm, 0, member, 9);
    die(&mut farm);
    let member = join(&mut farm, 0);
    let (_, ticket) = given(farm.place(0, 5, KIND, 100));
    assert_eq!(farm.place(0, 2, KIND, 100), Placement::Full, "it is alone");
    assert_eq!(farm.failed(0, member, ticket), Some(Failed::Again { tag: 5 }));
    for tag in [2, 5] {
        assert_eq!(given(farm.place(0, tag, KIND, 100)).0, member, "it killed nothing");
    }
}

#[test]
fn an_event_that_waits_to_be_alone_takes_another_node_if_the_one_kept_for_it_leaves() {
    let mut farm = farm(Balance::Eft);
    for _ in 0..2 {
        let member = join(&mut farm, 0);
        begin(&mut farm, member, 5);
        kill(&mut farm, 0, member, 5);
    }
    let first = join(&mut farm, 0);
    given(farm.place(0, 1, KIND, 100));
    assert_eq!(farm.place(0, 5, KIND, 100), Placement::Avoided);
    let second = join(&mut farm, 0);
    assert_eq!(farm.place(0, 5, KIND, 100), Placement::Avoided, "one is kept for it");
    farm.leave(first);
    assert!(farm.view(first).unwrap().leaving);
    assert_eq!(given(farm.place(0, 5, KIND, 100)).0, second);
}

#[test]
fn messages_that_are_lost_say_nothing_against_an_event() {
    let mut farm = farm(Balance::Tokens);
    for _ in 0..100 {
        let member = join(&mut farm, 0);
        assert_eq!(given(farm.place(0, 5, KIND, 100)).0, member);
        assert_eq!(farm.beat(41 * MS, member, 0, 1), BeatOutcome::Lossy);
        farm.lose(41 * MS, member, false);
        assert_eq!(farm.next_reassignment(0), Some(Reassignment::Again { tag: 5 }));
    }
}

#[test]
fn a_failed_event_is_tried_elsewhere_and_is_dead_after_its_tries() {
    let mut farm = farm(Balance::Eft);
    let members = [join(&mut farm, 0), join(&mut farm, 0)];
    let mut at = Vec::new();
    for tried in 1..=3 {
        let (member, ticket) = given(farm.place(0, 9, KIND, 100));
        at.push(member);
        let expected = if tried < 3 { Failed::Again { tag: 9 } } else { Failed::Dead { tag: 9, tries: 3 } };
        assert_eq!(farm.failed(MS, member, ticket), Some(expected));
        assert_eq!(farm.failed(MS, member, ticket), None, "the same answer again");
    }
    assert_eq!(at, [members[0], members[1], members[0]]);
}

#[test]
fn a_refused_event_goes_elsewhere_and_is_no_try() {
    let mut farm = farm(Balance::Eft);
    let members = [join(&mut farm, 0), join(&mut farm, 0)];
    for round in 0..6 {
        let (member, ticket) = given(farm.place(0, 9, KIND, 100));
        assert_eq!(member, members[round % 2]);
        assert_eq!(farm.refused(MS, member, ticket), Some(9));
        assert_eq!(farm.refused(MS, member, ticket), None, "the same answer again");
    }
    let (member, ticket) = given(farm.place(0, 9, KIND, 100));
    assert_eq!(farm.failed(MS, member, ticket), Some(Failed::Again { tag: 9 }));
    farm.forget(9);
    let (member, ticket) = given(farm.place(0, 9, KIND, 100));
    assert_eq!(farm.failed(MS, member, ticket), Some(Failed::Again { tag: 9 }), "the first try of another event");
}

#[test]
fn what_failed_at_the_only_node_with_credit_lets_others_go_there_and_returns_but_for_its_last_try() {
    let mut farm = farm(Balance::Tokens);
    let [one, other] = [join(&mut farm, 0), join(&mut farm, 0)];
    let fail = |farm: &mut NodePool, now, placed| {
        let (member, ticket) = given(placed);
        assert_eq!((member, farm.failed(now, member, ticket)), (one, Some(Failed::Again { tag: 0 })));
    };
    let first = farm.place(0, 0, KIND, 100);
    assert_eq!(given(farm.place(0, 1, KIND, 100)).0, other, "it is busy from now on");
    fail(&mut farm, 0, first);
    assert_eq!(farm.place(0, 0, KIND, 100), Placement::Avoided);
    let (member, ticket) = given(farm.place(0, 2, KIND, 100));
    assert_eq!(member, one);
    assert_eq!(farm.place(0, 0, KIND, 100), Placement::Full, "no node has credit");
    farm.answered(MS, one, ticket, MS, MS).unwrap();
    assert_eq!(farm.place(RETURN - 1, 0, KIND, 100), Placement::Avoided);
    let second = farm.place(RETURN, 0, KIND, 100);
    fail(&mut farm, RETURN, second);
    assert_eq!(farm.place(3 * RETURN, 0, KIND, 100), Placement::Avoided, "its last try");
    farm.lose(3 * RETURN, other, false);
    let Some(Reassignment::Assigned { ticket, .. }) = farm.next_reassignment(3 * RETURN) else {
        panic!("the other node's event")
    };
    farm.answered(3 * RETURN, one, ticket, MS, MS).unwrap();
    assert_eq!(given(farm.place(3 * RETURN, 0, KIND, 100)).0, one, "there is no other");
}

#[test]
fn a_refused_event_does_not_return_while_there_is_another_node() {
    let mut farm = farm(Balance::Tokens);
    let (one, ticket) = {
        join(&mut farm, 0);
        given(farm.place(0, 0, KIND, 100))
    };
    join(&mut farm, 0);
    given(farm.place(0, 1, KIND, 100));
    farm.refused(0, one, ticket).unwrap();
    assert_eq!(farm.place(100 * RETURN, 0, KIND, 100), Placement::Avoided);
}

/// Events 0 to `many` fail at the first of two nodes.
fn fail_at_one_of_two(farm: &mut NodePool, many: u32) -> [NodeId; 2] {
    let bad = join(farm, 0);
    let tickets: Vec<_> = (0..many).map(|tag| given(farm.place(0, tag, KIND, 100)).1).collect();
    let other = join(farm, 0);
    for ticket in tickets {
        assert!(matches!(farm.failed(0, bad, ticket), Some(Failed::Again { .. })));
    }
    [bad, other]
}

#[test]
fn a_node_is_paused_if_another_does_what_failed_there_and_longer_each_time() {
    let mut farm = farm(Balance::Eft);
    let [bad, good] = fail_at_one_of_two(&mut farm, 10);
    for (tag, charges) in (0..10).zip(1..) {
        let (member, ticket) = given(farm.place(0, tag, KIND, 100));
        assert_eq!(member, good);
        farm.answered(0, good, ticket, 0, 0).unwrap();
        assert_eq!(farm.view(bad).unwrap().paused, charges >= 8, "{charges}");
    }
    farm.leave(good);
    assert_eq!(farm.place(0, 0, KIND, 100), Placement::Full);
    farm.was_away(99 * MS, 99 * MS);
    assert_eq!((farm.due(), farm.silent(100 * MS)), (Some(100 * MS), None));
    let (_, ticket) = given(farm.place(100 * MS, 0, KIND, 100));
    assert_eq!(farm.refused(100 * MS, bad, ticket), Some(0));
    farm.was_away(299 * MS, 199 * MS);
    assert_eq!((farm.place(299 * MS, 0, KIND, 100), farm.silent(300 * MS)), (Placement::Full, None));
    let (_, ticket) = given(farm.place(300 * MS, 0, KIND, 100));
    farm.answered(300 * MS, bad, ticket, 0, 0).unwrap();
    let View { paused, suspect, .. } = farm.view(bad).unwrap();
    assert!(!paused && !suspect, "it did one");
}

#[test]
fn events_that_fail_everywhere_cost_no_node_its_work() {
    let mut farm = farm(Balance::Eft);
    let nodes = fail_at_one_of_two(&mut farm, 20);
    let open = |farm: &NodePool| nodes.map(|node| farm.view(node).unwrap()).map(|view| (view.paused, view.suspect));
    assert_eq!(open(&farm), [(false, true), (false, false)]);
    for tag in 0..20 {
        let (member, ticket) = given(farm.place(0, tag, KIND, 100));
        assert_eq!(member, nodes[1]);
        farm.failed(0, member, ticket).unwrap();
    }
    assert_eq!(open(&farm), [(false, false); 2]);
    let all = (20..60).map(|tag| given(farm.place(0, tag, KIND, 100)).0);
    assert_eq!(all.filter(|member| *member == nodes[0]).count(), 20);
}

#[test]
fn a_node_at_which_everything_fails_gets_one_event_at_a_time_until_it_does_one() {
    let mut farm = farm(Balance::Eft);
    let only = join(&mut farm, 0);
    let first: Vec<_> = (0..8).map(|tag| given(farm.place(0, tag, KIND, 100)).1).collect();
    for ticket in first {
        farm.failed(0, only, ticket).unwrap();
    }
    for tag in 8..100 {
        let tag = tag % 64;
        farm.forget(tag);
        let (_, ticket) = given(farm.place(0, tag, KIND, 100));
        assert_eq!(farm.place(0, (tag + 1) % 64, KIND, 100), Placement::Full);
        assert!(farm.view(only).unwrap().suspect && !farm.view(only).unwrap().paused);
        farm.failed(0, only, ticket).unwrap();
    }
    let (_, ticket) = given(farm.place(0, 0, KIND, 100));
    farm.answered(0, only, ticket, 0, 0).unwrap();
    for tag in 0..3 {
        given(farm.place(0, tag, KIND, 100));
    }
}

#[test]
fn a_node_that_has_not_what_an_event_needs_is_charged_with_nothing() {
    let mut farm = farm(Balance::Eft);
    let node = join(&mut farm, 0);
    for tag in 0..60 {
        let (_, ticket) = given(farm.place(0, tag, KIND, 100));
        assert_eq!(farm.declined(0, node, ticket), Some(Failed::Again { tag }));
    }
    let View { paused, suspect, .. } = farm.view(node).unwrap();
    assert!(!paused && !suspect);
    for tag in 60..63 {
        given(farm.place(0, tag, KIND, 100));
    }
}

#[test]
fn a_caller_that_is_late_again_and_again_still_loses_a_silent_node() {
    let mut farm = farm(Balance::Tokens);
    let member = join(&mut farm, 0);
    let mut now = 0;
    // Ticks of 50 ms, each 40 ms late: the node could send a message in 10 of each 50 ms.
    let lost = (1..=20).find(|_| {
        now += 50 * MS;
        farm.was_away(now, 40 * MS);
        farm.silent(now) == Some(member)
    });
    assert_eq!(lost, Some(5), "40 ms of silence");
    let other = join(&mut farm, now);
    farm.was_away(now + 300 * MS, Nanos::MAX);
    assert_eq!(farm.silent(now + 300 * MS).filter(|member| *member == other), None, "never beyond now");
}

#[test]
fn messages_that_were_lost_are_seen_by_counting() {
    let mut farm = farm(Balance::Eft);
    let member = join(&mut farm, 0);
    let (_, ticket) = given(farm.place(0, 0, KIND, 100));
    given(farm.place(0, 1, KIND, 100));
    assert_eq!(farm.beat(MS, member, 0, 0), BeatOutcome::Fine, "still under way");
    assert_eq!(farm.beat(150 * MS, member, 1, 0), BeatOutcome::Fine);
    farm.answered(160 * MS, member, ticket, 159 * MS, MS).unwrap();
    assert_eq!(farm.beat(170 * MS, member, 1, 1), BeatOutcome::Fine);
    assert_eq!(farm.beat(180 * MS, member, 1, 2), BeatOutcome::Lossy, "an answer did not arrive");
    assert_eq!(farm.beat(205 * MS, member, 1, 1), BeatOutcome::Fine, "four ways of 1 ms more");
    assert_eq!(farm.beat(206 * MS, member, 1, 1), BeatOutcome::Lossy, "an event did not arrive in 204 ms");
    assert_eq!(farm.beat(207 * MS, member, 3, 1), BeatOutcome::Lossy, "more than it was given");
}

#[test]
fn of_a_node_far_away_messages_may_be_late_by_some_round_trips() {
    let mut farm = farm(Balance::Tokens);
    let (near, far, liar) = (join(&mut farm, 0), join(&mut farm, 0), join(&mut farm, 0));
    farm.observe_round_trip(0, far, 90 * MS);
    farm.observe_round_trip(0, far, 60 * MS);
    farm.observe_round_trip(0, liar, Nanos::MAX);
    let mut lost = |now| {
        let silent = farm.silent(now * MS)?;
        farm.lose(now * MS, silent, false);
        Some(silent)
    };
    assert_eq!((lost(40), lost(41), lost(41)), (None, Some(near), None));
    assert_eq!((lost(280), lost(281), lost(281)), (None, Some(far), None), "40 ms, and four of its shortest way");
    assert_eq!((lost(540), lost(541)), (None, Some(liar)), "whatever it says");
}

#[test]
fn a_node_that_says_it_lives_and_answers_nothing_is_lost() {
    let mut farm = farm(Balance::Eft);
    let member = join(&mut farm, 0);
    farm.beat(600 * MS, member, 0, 0);
    assert_eq!(farm.silent(600 * MS), None, "it has nothing to answer");
    let (_, ticket) = given(farm.place(600 * MS, 0, KIND, 100));
    given(farm.place(700 * MS, 1, KIND, 100));
    for beat in (600..=1_100).step_by(20) {
        farm.beat(beat * MS, member, 2, 0);
        assert_eq!(farm.silent(beat * MS), None);
    }
    farm.answered(1_100 * MS, member, ticket, MS, MS).unwrap();
    farm.beat(1_600 * MS, member, 2, 1);
    assert_eq!(farm.silent(1_600 * MS), None, "it has answered one");
    farm.beat(1_601 * MS, member, 2, 1);
    assert_eq!(farm.silent(1_601 * MS), Some(member));
}

#[test]
fn who_leaves_finishes_what_it_has() {
    let mut farm = farm(Balance::Eft);
    let (first, second) = (join(&mut farm, 0), join(&mut farm, 0));
    let (member, ticket) = given(farm.place(0, 0, KIND, 100));
    assert_eq!(member, first);
    farm.leave(first);
    assert_eq!(given(farm.place(0, 1, KIND, 100)).0, second);
    assert_eq!(given(farm.place(0, 2, KIND, 100)).0, second);
    assert!(farm.view(first).unwrap().leaving);
    assert!(farm.answered(MS, first, ticket, MS, MS).is_some());
}

#[test]
fn kinds_go_to_nodes_that_offer_them() {
    let mut farm = farm(Balance::Eft);
    let [one, other] = [0, 1].map(|kind| Class::from_index(kind).unwrap());
    let member = farm.join(0, 4, [other].into_iter().collect(), 0).unwrap();
    assert_eq!(farm.place(0, 0, one, 100), Placement::NoNode);
    assert_eq!(given(farm.place(0, 0, other, 100)).0, member);
}

#[test]
fn an_event_that_waits_for_a_node_of_its_kind_holds_up_no_other_kind() {
    let mut farm = farm(Balance::Tokens);
    let [one, other] = [0, 1].map(|kind| Class::from_index(kind).unwrap());
    let kinds = |kinds: &[Class]| kinds.iter().copied().collect();
    // Nothing is known of either node: each gets one event.
    let [first, second] = [kinds(&[one]), kinds(&[other])].map(|kinds| farm.join(0, 1, kinds, 0).unwrap());
    let busy = [one, other].map(|kind| given(farm.place(0, kind.index() as u32, kind, 100)));
    assert_eq!(busy.map(|(member, _)| member), [first, second]);
    let [third, fourth] = [kinds(&[one]), kinds(&[other])].map(|kinds| farm.join(0, 1, kinds, 0).unwrap());
    for (kind, member) in [(one, third), (other, fourth)] {
        assert_eq!(given(farm.place(0, 2 + kind.index() as u32, kind, 100)).0, member);
    }
    farm.lose(MS, third, false);
    farm.lose(MS, fourth, false);
    assert_eq!(farm.next_reassignment(MS), None, "all are busy");
    farm.answered(2 * MS, second, busy[1].1, MS, MS).unwrap();
    let moved = farm.next_reassignment(2 * MS);
    assert!(matches!(moved, Some(Reassignment::Assigned { tag: 3, member, .. }) if member == second), "{moved:?}");
    assert_eq!(farm.next_reassignment(2 * MS), None);
}

#[test]
fn a_farm_has_so_many_nodes_and_their_numbers_come_back() {
    let mut farm = farm(Balance::Eft);
    let members: Vec<_> = (0..MAX_NODES).map(|_| join(&mut farm, 0)).collect();
    assert_eq!(farm.join(0, 1, Classes::all(), 0), None);
    farm.lose(0, members[5], false);
    let again = join(&mut farm, 0);
    assert_eq!(again.number(), 5);
    assert_ne!(again, members[5]);
    assert_eq!(farm.members().count(), MAX_NODES);
}

#[test]
fn an_idle_node_that_takes_over_several_events_at_once_is_not_stuck() {
    let mut farm = farm(Balance::Eft);
    let first = join(&mut farm, 0);
    for tag in 0..8 {
        given(farm.place(0, tag, KIND, 100));
    }
    let second = join(&mut farm, 0);
    let now = 600 * MS;
    farm.beat(now, second, 0, 0);
    assert_eq!(farm.silent(now), Some(first), "silent, with events");
    farm.lose(now, first, false);
    let moved = core::iter::from_fn(|| farm.next_reassignment(now));
    assert_eq!(
        moved.filter(|moved| matches!(moved, Reassignment::Assigned { member, .. } if member == &second)).count(),
        8
    );
    assert_eq!(farm.silent(now), None, "it was idle for longer than a node may be stuck");
    farm.beat(now + 501 * MS, second, 8, 0);
    assert_eq!(farm.silent(now + 501 * MS), Some(second));
}
