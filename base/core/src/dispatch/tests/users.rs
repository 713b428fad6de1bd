//! Shares of users with several clients.

use super::deferred::deferred;
use super::paths::placed;
use super::*;
use alloc::vec;

const COST: Nanos = 10_000;

fn user(name: u64, weight: u32) -> UserShare {
    UserShare { name: Some(name), weight }
}

/// One device on which each request takes [`COST`], the quantum.
fn dispatch(clients: u32, deferred: u32) -> Dispatch {
    let limits = Limits { lanes: clients, clients, in_flight: 256, quantum: COST, deferred };
    let mut dispatch = Dispatch::new(limits, if deferred > 0 { Balance::Priced } else { Balance::Eft });
    dispatch.add_device(capability(64));
    dispatch.observe(0, Class::NOOP, 64, COST);
    dispatch
}

fn come(dispatch: &mut Dispatch, user: UserShare, weight: u32) -> (ClientId, LaneId) {
    let client = dispatch.add_client_of(user, weight, 64).unwrap();
    (client, dispatch.add_lane(client, Notify::Park).unwrap())
}

fn go(dispatch: &mut Dispatch, (client, lane): (ClientId, LaneId)) {
    dispatch.close_lane(lane);
    dispatch.remove_client(client);
}

/// Takes a request of a client that always has more, and completes it. Returns whether it might.
fn take(dispatch: &mut Dispatch, (client, lane): (ClientId, LaneId), round: u64) -> bool {
    dispatch.begin_turn(client, round);
    if !dispatch.may_take(client) {
        dispatch.lack(client);
        return false;
    }
    let ticket = placed(dispatch, Work { size: 64, ..work(lane, 0) }).1;
    dispatch.complete(ticket, None).is_some()
}

/// Requests taken of each of these clients in so many rounds, as a sidecore takes them.
fn taken(dispatch: &mut Dispatch, clients: &[(ClientId, LaneId)], rounds: u64) -> Vec<u32> {
    let mut taken = vec![0; clients.len()];
    for round in 1..=rounds {
        loop {
            for (client, taken) in clients.iter().zip(&mut taken) {
                while take(dispatch, *client, round) {
                    *taken += 1;
                }
            }
            if !dispatch.next_turns() {
                break;
            }
        }
    }
    taken
}

#[test]
fn time_goes_by_user_and_within_a_user_by_client() {
    let mut dispatch = dispatch(16, 0);
    let mut clients: Vec<_> = (0..10).map(|_| come(&mut dispatch, user(1, 1), 1)).collect();
    clients.push(come(&mut dispatch, user(2, 1), 1));
    clients.push(come(&mut dispatch, user(3, 3), 1));
    let taken = taken(&mut dispatch, &clients, 1_000);
    let many: u32 = taken[..10].iter().sum();
    assert!((990..=1_010).contains(&many) && (990..=1_010).contains(&taken[10]), "{taken:?}");
    assert!((2_980..=3_020).contains(&taken[11]), "three times the weight: {taken:?}");
    assert!(taken[..10].iter().all(|one| (95..=105).contains(one)), "{taken:?}");
}

#[test]
fn weights_within_a_user_divide_its_share_and_take_nothing_of_others() {
    let mut dispatch = dispatch(4, 0);
    let clients =
        [(user(1, 2), 1), (user(1, 2), 4), (user(2, 1), 1000)].map(|(of, weight)| come(&mut dispatch, of, weight));
    let taken = taken(&mut dispatch, &clients, 1_000);
    assert!((1_980..=2_020).contains(&(taken[0] + taken[1])) && (990..=1_010).contains(&taken[2]), "{taken:?}");
    assert!((380..=420).contains(&taken[0]), "one part of five: {taken:?}");
}

#[test]
fn a_client_of_a_heavy_user_alone_uses_all_of_its_users_share() {
    let mut dispatch = dispatch(4, 0);
    let idle = come(&mut dispatch, user(1, 50), 1);
    let clients = [come(&mut dispatch, user(1, 50), 1), come(&mut dispatch, user(2, 1), 1)];
    let taken = taken(&mut dispatch, &clients, 100);
    assert!((4_950..=5_050).contains(&taken[0]) && (95..=105).contains(&taken[1]), "{taken:?}");
    go(&mut dispatch, idle);
}

#[test]
fn a_user_that_ends_and_comes_again_still_owes_what_it_took() {
    let mut dispatch = dispatch(2, 0);
    dispatch.observe(0, Class::NOOP, 4_096, 50 * COST);
    let client = come(&mut dispatch, user(1, 1), 1);
    dispatch.begin_turn(client.0, 1);
    let ticket = placed(&mut dispatch, Work { size: 4_096, ..work(client.1, 0) }).1;
    dispatch.complete(ticket, None);
    let owed = match dispatch.lack(client.0) {
        Lack::Share(rounds) => rounds,
        other => panic!("{other:?}"),
    };
    assert!(owed > 10, "{owed}");
    go(&mut dispatch, client);
    // Others come and go meanwhile, each time as another user.
    for name in 10..20 {
        let other = come(&mut dispatch, user(name, 1), 1);
        dispatch.begin_turn(other.0, 2);
        go(&mut dispatch, other);
    }
    let again = come(&mut dispatch, user(1, 1), 1);
    dispatch.begin_turn(again.0, owed);
    assert!(!dispatch.may_take(again.0));
    dispatch.begin_turn(again.0, owed + 1);
    assert!(dispatch.may_take(again.0));
}

/// Users with requests that wait for one full device: the order in which their requests begin.
#[test]
fn on_a_full_device_a_user_gets_no_more_for_its_many_clients_and_each_of_them_gets_some() {
    let mut dispatch = dispatch(16, 200);
    let flood = come(&mut dispatch, user(1, 1), 1);
    let mut on_it: Vec<Ticket> =
        (0..64).map(|_| placed(&mut dispatch, Work { size: 64, ..work(flood.1, 0) }).1).collect();
    // One client of the first user fills the queue; seven of its siblings and another user come later.
    (0..50).for_each(|_| _ = deferred(&mut dispatch, Work { size: 64, ..work(flood.1, 0) }));
    let siblings: Vec<_> = (0..7).map(|_| come(&mut dispatch, user(1, 1), 1)).collect();
    let other = come(&mut dispatch, user(2, 1), 1);
    for (_, lane) in siblings.iter().chain([&other]).flat_map(|client| [client; 10]) {
        deferred(&mut dispatch, Work { size: 64, ..work(*lane, 0) });
    }
    let mut begun = Vec::new();
    for now in 0..16 {
        dispatch.complete(on_it.remove(0), None);
        let ticket = dispatch.release(200 + now, 0).unwrap();
        begun.push(dispatch.inflight.get(ticket).unwrap().work.lane);
        on_it.push(ticket);
    }
    let count = |lane: LaneId| begun.iter().filter(|begun| **begun == lane).count();
    assert!((7..=8).contains(&count(other.1)), "half of the time: {begun:?}");
    assert!(siblings.iter().all(|(_, lane)| count(*lane) >= 1), "{begun:?}");
    assert!(count(flood.1) <= 2, "{begun:?}");
}
