//! Tests of deferred requests, which wait for a device without room for them now.

use super::paths::{loads, placed, reassigned};
use super::*;
use alloc::vec;

const LONG: u32 = 16_384;

pub(super) fn deferred(dispatch: &mut Dispatch, work: Work) -> Ticket {
    match dispatch.place(100, work) {
        Placement::Assigned(Assignment { ticket, begins: false, .. }) => ticket,
        other => panic!("{other:?}"),
    }
}

/// One lane under `priced` with one device of `depth`. Up to `deferred` requests beyond the depth are deferred.
pub(super) fn keeping(deferred: u32, depth: u32) -> (Dispatch, LaneId) {
    let limits = Limits { lanes: 1, clients: 1, in_flight: 8, quantum: 10_000, deferred };
    let mut dispatch = Dispatch::new(limits, Balance::Priced);
    let client = dispatch.add_client(1, 8).unwrap();
    let lane = dispatch.add_lane(client, Notify::Park).unwrap();
    dispatch.add_device(capability(depth));
    (dispatch, lane)
}

#[test]
fn what_was_deferred_for_a_dead_device_moves_to_another() {
    let (mut dispatch, lane) = keeping(2, 2);
    let tickets = [0, 1].map(|tag| placed(&mut dispatch, work(lane, tag)).1);
    let held = deferred(&mut dispatch, work(lane, 2));
    dispatch.add_device(capability(2));
    dispatch.lose(0);
    assert_eq!((dispatch.release(200, 0), dispatch.next_orphan(0, 2)), (None, Some(held)));
    let moved = [tickets[0], tickets[1]].map(|ticket| reassigned(&mut dispatch, ticket).1);
    let Some(Reassigned::Assigned(Assignment { device: 1, ticket, begins: false, .. })) = dispatch.reassign(200, held)
    else {
        panic!("there is no room")
    };
    assert_eq!((loads(&dispatch, 0), loads(&dispatch, 1).0), ((0, 0), 3));
    assert!(moved.iter().all(|ticket| dispatch.complete(*ticket, None).is_some()));
    assert_eq!((dispatch.release(300, 1), dispatch.complete(held, None)), (Some(ticket), None));
    assert_eq!(dispatch.complete(ticket, None).unwrap().work.tag, 2);
}

/// Short requests are ten times as fast on the first device and long ones a little slower, and prices are known.
fn priced(deferred: u32, depths: [u32; 2]) -> (Dispatch, LaneId) {
    let limits = Limits { lanes: 3, clients: 2, in_flight: 64, quantum: 10_000, deferred };
    let mut dispatch = Dispatch::new(limits, Balance::Priced);
    let client = dispatch.add_client(1, 64).unwrap();
    let lane = dispatch.add_lane(client, Notify::Park).unwrap();
    for depth in depths {
        dispatch.add_device(capability(depth));
    }
    for (device, size, took) in [(0, 64, 100), (0, LONG, 11_000), (1, 64, 1_000), (1, LONG, 10_000)] {
        dispatch.observe(device, Class::NOOP, size, took);
    }
    for number in 0..1_000 {
        let (_, ticket) = placed(&mut dispatch, of(lane, if number % 500 == 0 { LONG } else { 64 }));
        dispatch.complete(ticket, None);
    }
    dispatch.reprice(1_000);
    (dispatch, lane)
}

fn of(lane: LaneId, size: u32) -> Work {
    Work { size, ..work(lane, 0) }
}

#[test]
fn under_priced_a_request_waits_for_the_best_device_and_goes_to_no_other() {
    let (mut dispatch, lane) = priced(2, [8, 1]);
    let (device, ticket) = placed(&mut dispatch, of(lane, LONG));
    let held = [0; 2].map(|_| deferred(&mut dispatch, of(lane, LONG)));
    assert_eq!((device, loads(&dispatch, 1).0, loads(&dispatch, 0).0), (1, 3, 0));
    assert_eq!(dispatch.place(100, of(lane, LONG)), Placement::Full, "the first one has room, and is for short ones");
    assert!(
        !dispatch.would_place(Class::NOOP, LONG, KeyLocation::LOCAL)
            && dispatch.would_place(Class::NOOP, 64, KeyLocation::LOCAL)
    );
    assert_eq!(placed(&mut dispatch, of(lane, 64)).0, 0);
    assert_eq!(dispatch.release(200, 1), None, "there is no room yet");
    dispatch.complete(ticket, None);
    assert_eq!((dispatch.release(200, 1), dispatch.release(200, 1)), (Some(held[0]), None));
    assert_eq!(dispatch.complete(held[0], None).unwrap().handed, 200);
    // Deferred requests continue under any other policy.
    dispatch.set_balance(Balance::Eft);
    assert_eq!(dispatch.release(300, 1), Some(held[1]));
}

#[test]
fn a_client_with_many_requests_that_wait_holds_up_no_other() {
    let (mut dispatch, lane) = priced(32, [8, 1]);
    let mut tickets = vec![placed(&mut dispatch, of(lane, LONG)).1];
    (0..20).for_each(|_| _ = deferred(&mut dispatch, of(lane, LONG)));
    let heavy = dispatch.add_client(3, 64).unwrap();
    let other = dispatch.add_lane(heavy, Notify::Park).unwrap();
    (0..10).for_each(|_| _ = deferred(&mut dispatch, of(other, LONG)));
    let mut served = Vec::new();
    for round in 0..12 {
        dispatch.complete(tickets.pop().unwrap(), None);
        let ticket = dispatch.release(200 + round, 1).unwrap();
        let entry = dispatch.inflight.get(ticket).unwrap();
        served.push(entry.work.lane == other);
        tickets.push(ticket);
    }
    // Three for one, from its first request on.
    assert_eq!(served.iter().filter(|other| **other).count(), 9, "{served:?}");
    assert!(served[..2].contains(&true) && served[4..8].contains(&false), "{served:?}");
}

#[test]
fn what_a_user_has_on_other_devices_counts_but_not_for_ever() {
    let [mut first, second] = [DeferredQueue::new(4), DeferredQueue::new(4)];
    let mut next = 0;
    assert_eq!(
        (first.rank(&mut next, 1, 10), second.rank(&mut next, 1, 10), first.rank(&mut next, 2, 10)),
        (0, 160, 320)
    );
    assert_eq!(next, 400, "a user of twice the weight pays half");
    // Time goes on where it has nothing, and it may not save any up.
    first.push(1_000, 0, 0, Ticket::from_word(0));
    first.pop(|_| false);
    assert_eq!(first.rank(&mut next, 1, 10), 1_000);
    next = Nanos::MAX;
    assert_eq!(second.rank(&mut next, 1, 10), 16_000_000_000);
}

#[test]
fn whatever_comes_has_room_if_each_device_has() {
    let (mut dispatch, lane) = priced(0, [8, 1]);
    assert!(dispatch.would_place_any());
    let (_, ticket) = placed(&mut dispatch, of(lane, LONG));
    assert!(!dispatch.would_place_any() && dispatch.has_room(), "a long one would wait for the second");
    dispatch.set_balance(Balance::Eft);
    assert!(dispatch.would_place_any());
    dispatch.set_balance(Balance::Priced);
    dispatch.complete(ticket, None);
    dispatch.drain(1);
    assert!(dispatch.would_place_any(), "one that gets nothing is nobody's best");
}
