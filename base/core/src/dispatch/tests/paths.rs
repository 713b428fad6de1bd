//! Each path by itself.

use super::deferred::{deferred, keeping};
use super::*;

const LIMITS: Limits = Limits { lanes: 3, clients: 2, in_flight: 8, quantum: 10_000, deferred: 0 };
const COALESCE: Notify = Notify::Coalesce { count: 3, delay: 1_000 };

/// One client with credit for 4 requests, one lane that is always rung, and devices of these depths.
pub(super) fn start(depths: &[u32]) -> (Dispatch, ClientId, LaneId) {
    let mut dispatch = Dispatch::new(LIMITS, Balance::RoundRobin);
    let client = dispatch.add_client(1, 4).unwrap();
    let lane = dispatch.add_lane(client, Notify::Park).unwrap();
    for (number, &depth) in depths.iter().enumerate() {
        assert_eq!(dispatch.add_device(capability(depth)), Some(number));
    }
    (dispatch, client, lane)
}

pub(super) fn placed(dispatch: &mut Dispatch, work: Work) -> (usize, Ticket) {
    match dispatch.place(100, work) {
        Placement::Assigned(Assignment { device, ticket, begins: true, .. }) => (device, ticket),
        other => panic!("{other:?}"),
    }
}

pub(super) fn reassigned(dispatch: &mut Dispatch, ticket: Ticket) -> (usize, Ticket) {
    match dispatch.reassign(200, ticket) {
        Some(Reassigned::Assigned(Assignment { device, ticket, begins: true, .. })) => (device, ticket),
        other => panic!("{other:?}"),
    }
}

pub(super) fn loads(dispatch: &Dispatch, device: usize) -> (u32, Nanos) {
    let load = dispatch.device_load(device);
    (load.in_flight, load.backlog)
}

#[test]
fn a_request_is_placed_and_completes_once() {
    let (mut dispatch, _, lane) = start(&[4]);
    let work = Work { submitted: Some(90), urgent: true, ..work(lane, 7) };
    let (device, ticket) = placed(&mut dispatch, work);
    assert_eq!((device, dispatch.in_flight(lane), dispatch.total_in_flight()), (0, 1, 1));
    assert_eq!(loads(&dispatch, 0), (1, 2_000));
    assert_eq!(dispatch.complete(ticket, None), Some(Done { work, device: 0, handed: 100, lane_open: true }));
    assert_eq!(dispatch.complete(ticket, None), None);
    assert_eq!((dispatch.in_flight(lane), dispatch.total_in_flight()), (0, 0));
    assert_eq!(loads(&dispatch, 0), (0, 0));
}

#[test]
fn a_place_used_again_has_another_ticket() {
    let (mut dispatch, _, lane) = start(&[4]);
    let (_, first) = placed(&mut dispatch, work(lane, 1));
    dispatch.complete(first, None);
    let (_, second) = placed(&mut dispatch, work(lane, 2));
    assert_eq!(first.index(), second.index());
    assert_eq!((dispatch.complete(first, None), dispatch.reassign(200, first)), (None, None));
    assert_eq!(dispatch.complete(second, None).unwrap().work.tag, 2);
}

#[test]
fn full_devices_and_a_full_table_say_try_again() {
    let (mut dispatch, _, lane) = start(&[1]);
    placed(&mut dispatch, work(lane, 0));
    assert_eq!(dispatch.place(100, work(lane, 1)), Placement::Full);
    dispatch.add_device(capability(100));
    (1..LIMITS.in_flight).for_each(|tag| assert_eq!(placed(&mut dispatch, work(lane, tag)).0, 1));
    assert_eq!(dispatch.place(100, work(lane, 99)), Placement::Full);
    assert_eq!(
        (dispatch.in_flight(lane), dispatch.device_load(1).in_flight),
        (8, 7),
        "a request in vain costs nothing"
    );
}

#[test]
fn a_request_that_nobody_can_do_is_refused() {
    let (mut dispatch, _, lane) = start(&[]);
    let [one, two] = [0, 1].map(|index| Class::from_index(index).unwrap());
    assert_eq!(dispatch.place(100, work(lane, 0)), Placement::NoDevice);
    dispatch.add_device(Capability { classes: [two].into_iter().collect(), ..capability(1) });
    assert_eq!(dispatch.place(100, Work { class: one, ..work(lane, 0) }), Placement::NoDevice);
    placed(&mut dispatch, Work { class: two, ..work(lane, 0) });
    assert_eq!(dispatch.place(100, Work { class: two, ..work(lane, 0) }), Placement::Full);
}

#[test]
fn a_client_takes_within_its_share() {
    let (mut dispatch, client, lane) = start(&[8]);
    assert!(!dispatch.may_take(client), "before the first round");
    dispatch.refill(client);
    placed(&mut dispatch, Work { size: 9_000, ..work(lane, 0) });
    assert!(!dispatch.may_take(client), "all is spent");
    dispatch.refill(client);
    assert!(dispatch.may_take(client));
    dispatch.idle(client);
    assert!(!dispatch.may_take(client), "nothing is kept");
}

#[test]
fn a_client_takes_within_its_credit_over_all_lanes() {
    let (mut dispatch, client, lane) = start(&[8]);
    let other = dispatch.add_lane(client, Notify::Park).unwrap();
    let mut tickets = Vec::new();
    for (tag, lane) in [lane, other, other, lane].into_iter().enumerate() {
        dispatch.refill(client);
        assert!(dispatch.may_take(client));
        tickets.push(placed(&mut dispatch, Work { size: 0, ..work(lane, tag as u32) }).1);
    }
    assert!(!dispatch.may_take(client));
    dispatch.complete(tickets[1], None);
    assert!(dispatch.may_take(client));
}

#[test]
fn nobody_takes_while_the_table_is_full() {
    let (mut dispatch, client, lane) = start(&[8]);
    let other = dispatch.add_client(1, 4).unwrap();
    dispatch.refill(other);
    for tag in 0..LIMITS.in_flight {
        placed(&mut dispatch, work(lane, tag));
    }
    assert!(!dispatch.may_take(other) && !dispatch.may_take(client));
}

#[test]
fn a_draining_device_finishes_and_gets_nothing() {
    let (mut dispatch, _, lane) = start(&[4, 4]);
    let (_, ticket) = placed(&mut dispatch, work(lane, 0));
    dispatch.drain(0);
    (1..4).for_each(|tag| assert_eq!(placed(&mut dispatch, work(lane, tag)).0, 1));
    assert!(dispatch.complete(ticket, None).is_some());
    dispatch.drain(1);
    assert_eq!(dispatch.place(100, work(lane, 4)), Placement::NoDevice);
    assert_eq!(dispatch.device_state(1), DeviceState::Draining);
}

#[test]
fn a_dead_device_is_dead_whatever_is_said_later() {
    let (mut dispatch, ..) = start(&[4]);
    dispatch.drain(0);
    dispatch.lose(0);
    dispatch.drain(0);
    assert_eq!(dispatch.device_state(0), DeviceState::Gone);
}

#[test]
fn requests_of_a_dead_device_move_to_another() {
    let (mut dispatch, _, lane) = start(&[4, 4]);
    let tickets = [0, 1, 2].map(|tag| placed(&mut dispatch, work(lane, tag)).1);
    dispatch.lose(0);
    assert_eq!((dispatch.next_orphan(0, 0), dispatch.next_orphan(0, 1)), (Some(tickets[0]), Some(tickets[2])));
    let (device, ticket) = reassigned(&mut dispatch, tickets[0]);
    assert_eq!((device, dispatch.next_orphan(0, 0), dispatch.next_orphan(0, 3)), (1, Some(tickets[2]), None));
    assert_eq!((loads(&dispatch, 0), loads(&dispatch, 1)), ((1, 2_000), (2, 4_000)));
    assert_eq!(dispatch.complete(tickets[0], None), None, "the dead device's answer comes too late");
    let done = dispatch.complete(ticket, None).unwrap();
    assert_eq!((done.device, done.handed, done.work.tag), (1, 200, 0));
}

#[test]
fn an_answer_before_the_request_moved_counts() {
    let (mut dispatch, _, lane) = start(&[4, 4]);
    let (_, ticket) = placed(&mut dispatch, work(lane, 0));
    dispatch.lose(0);
    assert!(dispatch.complete(ticket, Some(500)).is_some());
    assert_eq!((dispatch.next_orphan(0, 0), dispatch.reassign(200, ticket)), (None, None));
}

#[test]
fn a_request_without_room_waits_for_it() {
    let (mut dispatch, _, lane) = start(&[4, 1]);
    let [lost, kept] = [0, 1].map(|tag| placed(&mut dispatch, work(lane, tag)).1);
    dispatch.lose(0);
    let Some(Reassigned::Wait(waiting)) = dispatch.reassign(200, lost) else { panic!("there is no room") };
    let Some(Reassigned::Wait(still)) = dispatch.reassign(200, waiting) else { panic!("there is no room yet") };
    assert_eq!((dispatch.next_orphan(0, 0), loads(&dispatch, 0)), (None, (0, 0)));
    assert_eq!(dispatch.in_flight(lane), 2, "it is still owed an answer");
    dispatch.complete(kept, None);
    assert_eq!((dispatch.reassign(200, lost), dispatch.reassign(200, waiting)), (None, None));
    let (device, ticket) = reassigned(&mut dispatch, still);
    assert_eq!((device, dispatch.complete(still, None)), (1, None));
    assert_eq!(dispatch.complete(ticket, None).unwrap().device, 1);
}

#[test]
fn without_another_device_it_is_given_up() {
    let (mut dispatch, _, lane) = start(&[4, 1]);
    let [lost, kept] = [0, 1].map(|tag| placed(&mut dispatch, work(lane, tag)).1);
    dispatch.lose(0);
    let Some(Reassigned::Wait(waiting)) = dispatch.reassign(200, lost) else { panic!("there is no room") };
    dispatch.lose(1);
    let given_up =
        |tag, device| Reassigned::Abandoned(Done { work: work(lane, tag), device, handed: 100, lane_open: true });
    assert_eq!(dispatch.reassign(200, kept), Some(given_up(1, 1)));
    assert_eq!(dispatch.reassign(200, waiting), Some(given_up(0, 0)), "the device that died under it, not the last");
    assert_eq!((dispatch.total_in_flight(), dispatch.in_flight(lane)), (0, 0));
}

#[test]
fn a_request_that_kills_devices_is_given_up() {
    let (mut dispatch, _, lane) = start(&[4; 8]);
    let (mut device, mut ticket) = placed(&mut dispatch, work(lane, 0));
    for _ in 0..MAX_LOSSES {
        dispatch.lose(device);
        (device, ticket) = reassigned(&mut dispatch, ticket);
    }
    dispatch.lose(device);
    let Some(Reassigned::Abandoned(done)) = dispatch.reassign(200, ticket) else { panic!("a fourth device died") };
    assert_eq!(usize::from(done.device), device);
}

#[test]
fn what_may_not_be_done_twice_is_given_up_unless_its_device_never_had_it() {
    let (mut dispatch, lane) = keeping(1, 2);
    let once = Class::from_name("once-sign").unwrap();
    assert!(!once.may_be_replayed() && Class::NOOP.may_be_replayed());
    let once = |tag| Work { class: once, ..work(lane, tag) };
    let begun = placed(&mut dispatch, once(0)).1;
    let other = placed(&mut dispatch, work(lane, 1)).1;
    let held = deferred(&mut dispatch, once(2));
    dispatch.add_device(capability(1));
    dispatch.lose(0);
    let given_up = Done { work: once(0), device: 0, handed: 100, lane_open: true };
    assert_eq!(dispatch.reassign(200, begun), Some(Reassigned::Abandoned(given_up)));
    let (_, other) = reassigned(&mut dispatch, other);
    // No other policy keeps requests back.
    dispatch.set_balance(Balance::Eft);
    let Some(Reassigned::Wait(held)) = dispatch.reassign(200, held) else { panic!("there is no room") };
    dispatch.complete(other, None);
    assert_eq!(reassigned(&mut dispatch, held).0, 1);
}

#[test]
fn requests_of_closed_lanes_are_not_done_again() {
    let (mut dispatch, _, lane) = start(&[4, 4]);
    let [lost, kept] = [0, 1].map(|tag| placed(&mut dispatch, work(lane, tag)).1);
    dispatch.close_lane(lane);
    dispatch.lose(0);
    let Some(Reassigned::Abandoned(done)) = dispatch.reassign(200, lost) else { panic!("nobody wants it") };
    assert_eq!((done.device, done.lane_open), (0, false));
    assert!(!dispatch.complete(kept, None).unwrap().lane_open);
}

#[test]
fn a_lane_number_is_free_when_its_requests_are_gone() {
    let (mut dispatch, client, lane) = start(&[4]);
    let (_, ticket) = placed(&mut dispatch, work(lane, 0));
    dispatch.close_lane(lane);
    let [second, third] = [(); 2].map(|()| dispatch.add_lane(client, Notify::Park).unwrap());
    assert_eq!(dispatch.add_lane(client, Notify::Park), None, "the first number is still taken");
    dispatch.complete(ticket, None);
    assert_eq!(dispatch.add_lane(client, Notify::Park), Some(lane));
    assert_eq!(dispatch.announce(100, lane), WakeDecision::Nothing, "the old lane's completions are not the new one's");
    dispatch.close_lane(second);
    assert_eq!(dispatch.add_lane(client, Notify::Park), Some(second));
    assert_ne!(second, third);
}

#[test]
fn a_lane_may_be_closed_twice() {
    let (mut dispatch, client, lane) = start(&[4]);
    dispatch.close_lane(lane);
    dispatch.close_lane(lane);
    dispatch.remove_client(client);
    assert_eq!(dispatch.add_client(1, 1), Some(client));
}

#[test]
fn a_client_number_is_free_when_its_requests_are_gone() {
    let (mut dispatch, client, lane) = start(&[4]);
    let (_, ticket) = placed(&mut dispatch, work(lane, 0));
    dispatch.close_lane(lane);
    dispatch.close_lane(lane);
    dispatch.remove_client(client);
    let second = dispatch.add_client(1, 1).unwrap();
    assert_eq!(dispatch.add_client(1, 1), None, "the first number is still taken");
    dispatch.complete(ticket, None);
    assert_eq!((dispatch.add_client(1, 1), dispatch.add_client(1, 1)), (Some(client), None));
    dispatch.remove_client(second);
    assert_eq!(dispatch.add_client(1, 1), Some(second));
}

#[test]
fn there_are_so_many_devices_at_a_time_and_any_number_over_time() {
    let (mut dispatch, ..) = start(&[1; MAX_DEVICES]);
    assert_eq!(dispatch.add_device(capability(1)), None);
    for number in (0..MAX_DEVICES).cycle().take(1_000) {
        dispatch.drain(number);
        assert_eq!(dispatch.add_device(capability(1)), None, "it may still have requests");
        dispatch.lose(number);
        assert_eq!(dispatch.add_device(capability(1)), Some(number));
        assert_eq!(dispatch.device_state(number), DeviceState::Active);
    }
}

#[test]
fn the_number_of_a_dead_device_is_free_when_no_request_names_it() {
    let (mut dispatch, _, lane) = start(&[2, 1]);
    let tickets = [0, 1, 2].map(|tag| placed(&mut dispatch, work(lane, tag)).1);
    let on_first: Vec<Ticket> = tickets.into_iter().filter(|ticket| dispatch.device_of(*ticket) == Some(0)).collect();
    assert_eq!(on_first.len(), 2);
    dispatch.lose(0);
    assert_eq!(dispatch.next_device(), Some(2), "its requests are listed by its number");
    let waiting = on_first.clone().into_iter().map(|ticket| match dispatch.reassign(200, ticket) {
        Some(Reassigned::Wait(ticket)) => ticket,
        other => panic!("{other:?}"),
    });
    let waiting: Vec<Ticket> = waiting.collect();
    assert_eq!(dispatch.next_device(), Some(2), "they are given up by its number");
    assert_eq!(dispatch.add_device(Capability { classes: Classes::default(), ..capability(1) }), Some(2));
    dispatch.lose(1);
    for ticket in waiting {
        assert!(matches!(dispatch.reassign(300, ticket), Some(Reassigned::Abandoned(Done { device: 0, .. }))));
    }
    assert_eq!(dispatch.add_device(capability(2)), Some(0));
    // A late answer of the dead device matches nothing on the new one.
    placed(&mut dispatch, work(lane, 3));
    for ticket in on_first {
        assert_eq!(dispatch.complete(ticket, Some(1)), None);
    }
    assert_eq!(loads(&dispatch, 0).0, 1);
}

#[test]
fn what_devices_take_is_learnt_where_it_is_measured() {
    let (mut dispatch, _, lane) = start(&[4, 4]);
    let tickets = [0, 1].map(|tag| placed(&mut dispatch, work(lane, tag)).1);
    dispatch.complete(tickets[0], Some(123));
    dispatch.complete(tickets[1], None);
    assert_eq!([0, 1].map(|device| dispatch.estimate(device, Class::NOOP, 1_000)), [123, 2_000]);
}

#[test]
fn the_balance_changes_at_once() {
    let (mut dispatch, _, lane) = start(&[8, 8]);
    dispatch.set_balance(Balance::Eft);
    assert_eq!(dispatch.balance(), Balance::Eft);
    let [(_, long), (other, short)] = [50_000, 0].map(|size| placed(&mut dispatch, Work { size, ..work(lane, 0) }));
    let (next, _) = placed(&mut dispatch, Work { size: 0, ..work(lane, 0) });
    assert_eq!((other, next), (1, 1), "the first has a long one");
    assert!(dispatch.complete(long, None).is_some() && dispatch.complete(short, None).is_some());
}

#[test]
fn the_size_decides_where_a_request_ends_first() {
    let (mut dispatch, _, lane) = start(&[8, 8]);
    let (small, large) = (Work { size: 16, ..work(lane, 0) }, Work { size: 16_384, ..work(lane, 0) });
    for (work, took) in [(small, 100), (small, 5_000), (large, 50_000), (large, 6_000)] {
        let (_, ticket) = placed(&mut dispatch, work);
        dispatch.complete(ticket, Some(took));
    }
    dispatch.set_balance(Balance::Eft);
    assert_eq!([large, small].map(|work| placed(&mut dispatch, work).0), [1, 0]);
}

#[test]
fn tokens_leave_what_devices_cannot_do_soon() {
    let (mut dispatch, _, lane) = start(&[8, 8]);
    dispatch.set_balance(Balance::Tokens);
    let long = Work { size: 19_000, ..work(lane, 0) };
    let first = placed(&mut dispatch, long);
    assert_eq!((first.0, placed(&mut dispatch, work(lane, 1)).0), (0, 1));
    assert_eq!((placed(&mut dispatch, long).0, dispatch.place(100, long)), (1, Placement::Full));
    assert!(!dispatch.has_room());
    dispatch.complete(first.1, None);
    assert_eq!((dispatch.has_room(), placed(&mut dispatch, long).0), (true, 0));
}

#[test]
fn prices_are_made_of_what_arrives() {
    let (mut dispatch, _, lane) = start(&[8, 8]);
    dispatch.set_balance(Balance::Priced);
    // The first device is ten times as fast at short requests, and no faster at long ones.
    for (device, size, took) in [(0, 64, 100), (0, 16_384, 10_000), (1, 64, 1_000), (1, 16_384, 10_000)] {
        dispatch.observe(device, Class::NOOP, size, took);
    }
    let [short, long] = [64, 16_384].map(|size| Work { size, ..work(lane, 0) });
    for number in 0..1_000 {
        let (_, ticket) = placed(&mut dispatch, if number % 500 == 0 { long } else { short });
        dispatch.complete(ticket, None);
    }
    let [first, second] = [long; 2].map(|long| placed(&mut dispatch, long));
    assert_eq!((first.0, second.0), (0, 1));
    dispatch.complete(first.1, None);
    let third = placed(&mut dispatch, long);
    assert_eq!(third.0, 0, "earliest finish, until there are prices");
    dispatch.complete(third.1, None);
    dispatch.reprice(1_000);
    assert_eq!(placed(&mut dispatch, long).0, 1, "the time of the first device is for short ones");
    dispatch.drain(1);
    dispatch.drain(0);
    assert_eq!(dispatch.place(100, long), Placement::NoDevice);
}

fn complete(dispatch: &mut Dispatch, lane: LaneId, count: u32, urgent: bool) {
    for tag in 0..count {
        let (_, ticket) = placed(dispatch, Work { urgent, ..work(lane, tag) });
        dispatch.complete(ticket, None);
    }
}

#[test]
fn completions_are_announced_together_and_once() {
    let (mut dispatch, _, lane) = start(&[4]);
    assert_eq!(dispatch.announce(100, lane), WakeDecision::Nothing);
    complete(&mut dispatch, lane, 2, false);
    assert_eq!(
        (dispatch.announce(100, lane), dispatch.announce(100, lane)),
        (WakeDecision::Now, WakeDecision::Nothing)
    );
}

#[test]
fn completions_are_counted_for_the_notify_policy() {
    let (mut dispatch, _, lane) = start(&[4]);
    dispatch.set_notify(lane, COALESCE);
    complete(&mut dispatch, lane, 2, false);
    assert_eq!(dispatch.announce(100, lane), WakeDecision::At(1_100));
    complete(&mut dispatch, lane, 1, false);
    assert_eq!(
        (dispatch.announce(200, lane), dispatch.announce(200, lane)),
        (WakeDecision::Now, WakeDecision::Nothing)
    );
    complete(&mut dispatch, lane, 1, true);
    assert_eq!(dispatch.announce(300, lane), WakeDecision::Now, "urgent");
    complete(&mut dispatch, lane, 1, false);
    assert_eq!(dispatch.announce(400, lane), WakeDecision::At(1_400));
    assert_eq!(
        [1_399, 1_400, 1_401].map(|now| dispatch.due(now, lane)),
        [WakeDecision::At(1_400), WakeDecision::Now, WakeDecision::Nothing]
    );
}

#[test]
fn what_became_due_is_announced_once() {
    let (mut dispatch, _, lane) = start(&[4]);
    dispatch.set_notify(lane, COALESCE);
    complete(&mut dispatch, lane, 1, false);
    dispatch.announce(100, lane);
    dispatch.set_notify(lane, Notify::Park);
    assert_eq!(
        (dispatch.announce(101, lane), dispatch.announce(102, lane)),
        (WakeDecision::Now, WakeDecision::Nothing)
    );
}

#[test]
fn an_immediate_device_has_nothing_in_flight_and_is_announced() {
    let (mut dispatch, _, lane) = start(&[]);
    dispatch.add_device(Capability { immediate: true, ..capability(1) });
    for tag in 0..3 {
        assert!(matches!(dispatch.place(100, work(lane, tag)), Placement::Now { device: 0, cost } if cost > 0));
    }
    assert_eq!((dispatch.total_in_flight(), dispatch.in_flight(lane)), (0, 0));
    assert_eq!(dispatch.announce(100, lane), WakeDecision::Now);
    assert_eq!(dispatch.announce(100, lane), WakeDecision::Nothing);
}

#[test]
fn an_immediate_device_takes_over_at_once() {
    let (mut dispatch, _, lane) = start(&[]);
    dispatch.add_device(capability(1));
    let Placement::Assigned(Assignment { ticket, begins: true, .. }) = dispatch.place(100, work(lane, 7)) else {
        panic!("there is room")
    };
    dispatch.lose(0);
    dispatch.add_device(Capability { immediate: true, ..capability(1) });
    let Some(Reassigned::Now(done)) = dispatch.reassign(200, ticket) else { panic!("it is done at once") };
    assert_eq!((done.work.tag, done.device, done.lane_open), (7, 1, true));
    assert_eq!(dispatch.complete(ticket, None), None);
    assert_eq!(dispatch.total_in_flight(), 0);
}
