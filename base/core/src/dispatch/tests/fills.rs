//! A worker and a device that does four requests in little more than the time of one.

use super::*;
use crate::dispatch::record::Call;
use crate::policy::balance::Measured;
use crate::policy::gather::BatchPolicy;
use alloc::vec;

const WORKER: usize = 0;
const BATCH: usize = 1;

fn measured() -> Measured {
    let gather = BatchPolicy::new([120, 120, 120, 120, 240, 240, 240, 240], 100);
    Measured { class: Class::NOOP, size: 1_000, from: 0, part: gather.part(), ends: gather.ends() }
}

/// Both take 100 ns for one request, as far as is known at first.
fn pool(balance: Balance) -> (Dispatch, LaneId) {
    let mut dispatch = Dispatch::new(Limits { lanes: 1, clients: 1, in_flight: 64, quantum: 1, deferred: 0 }, balance);
    let mut rates = Rates::new();
    rates.observe(Class::NOOP, 1_000, 100);
    for _ in [WORKER, BATCH] {
        dispatch.add_device(Capability { rates: rates.clone(), ..capability(64) });
    }
    let client = dispatch.add_client(1, 64).unwrap();
    let lane = dispatch.add_lane(client, Notify::Park).unwrap();
    (dispatch, lane)
}

fn given(dispatch: &mut Dispatch, lane: LaneId) -> (usize, Ticket) {
    let Placement::Assigned(Assignment { device, ticket, .. }) = dispatch.place(0, work(lane, 0)) else {
        panic!("there is room")
    };
    (device, ticket)
}

#[test]
fn each_goes_where_it_is_answered_first() {
    for balance in [Balance::Eft, Balance::Priced] {
        let (mut dispatch, lane) = pool(balance);
        dispatch.measured(BATCH, &measured());
        let devices: [usize; 9] = core::array::from_fn(|_| given(&mut dispatch, lane).0);
        assert_eq!(devices, [WORKER, BATCH, BATCH, BATCH, BATCH, WORKER, BATCH, BATCH, BATCH], "{balance}");
        assert_eq!(dispatch.device_load(BATCH).backlog, 7 * 30);
    }
}

#[test]
fn what_a_device_has_when_it_has_measured_counts_as_what_comes_later() {
    let (mut dispatch, lane) = pool(Balance::Eft);
    let early: [Ticket; 3] =
        core::array::from_fn(|_| dispatch.place_on(0, BATCH, work(lane, 0)).expect("there is room").ticket);
    dispatch.measured(BATCH, &measured());
    let later = [(); 2].map(|()| given(&mut dispatch, lane));
    assert_eq!(later.map(|(device, _)| device), [WORKER, BATCH]);
    for ticket in early.into_iter().chain(later.map(|(_, ticket)| ticket)) {
        dispatch.complete(ticket, Some(30)).unwrap();
    }
    assert_eq!((dispatch.total_in_flight(), dispatch.device_load(BATCH).backlog), (0, 0));
    assert_eq!(given(&mut dispatch, lane).0, WORKER);
}

#[test]
fn a_record_keeps_what_was_measured() {
    let mut words = vec![];
    let (number, first) = Call::Measured(BATCH, measured()).encode(|word| words.push(word));
    let back = Call::decode(number, first, &words);
    assert!(number <= Call::KINDS && matches!(back, Some(Call::Measured(BATCH, found)) if found == measured()));
    assert!(Call::decode(number, first, &words[1..]).is_none());
}

#[test]
fn what_a_dead_device_had_leaves_it_and_its_successor_knows_nothing_of_it() {
    let (mut dispatch, lane) = pool(Balance::Eft);
    dispatch.measured(BATCH, &measured());
    (0..5).for_each(|_| _ = given(&mut dispatch, lane));
    dispatch.lose(BATCH);
    while let Some(ticket) = dispatch.next_orphan(BATCH, 0) {
        assert!(matches!(dispatch.reassign(0, ticket), Some(Reassigned::Assigned(Assignment { device: WORKER, .. }))));
    }
    let joined = dispatch.add_device(capability(64)).unwrap();
    assert_eq!((joined, dispatch.estimate(BATCH, Class::NOOP, 1_000)), (BATCH, 2_000));
}
