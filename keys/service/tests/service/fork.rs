//! Clients that fork. `tests/peer/forks.rs` runs inside them.
//!
//! A child whose first call comes after its parent's death gets a lane. It also gets the parent's sessions if the
//! service has not noticed the death yet; afterwards its requests are refused with `NoSession`.

use crate::common::start;
use crate::peer::{Held, Peer, kill, until};
use sidecore::config::Config;

fn play(scenario: &str) {
    let service = start(Config::default());
    let lines = Peer::start(&["fork", scenario, service.socket().to_str().unwrap()]).finish();
    assert_eq!(lines, ["done"]);
    assert!(service.is_alive());
}

#[test]
fn a_child_gets_a_lane_of_its_own_with_the_parents_sessions() {
    play("child");
}

#[test]
fn fifty_children_at_once_get_theirs() {
    play("children");
}

#[test]
fn a_child_that_drops_its_client_frees_nothing_of_its_own() {
    play("drop");
}

#[test]
fn a_dead_parents_lane_is_freed_while_its_child_lives() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let service = Peer::serve(&socket, "");
    let before = Held::by(service.pid());
    let mut family = Peer::start(&["fork", "orphan", socket.to_str().unwrap()]);
    let parent = family.line().parse().unwrap();
    assert_eq!(Held::by(service.pid()).lanes, 1);
    kill(parent);
    // The child still holds the lane's socket: the service notices the end of the process.
    until("the lane is freed", || Held::by(service.pid()) == before);
    family.say("call");
    family.expect("no session");
    until("the child's own lane is freed", || Held::by(service.pid()) == before);
    service.finish();
}

#[test]
fn a_child_whose_parent_lives_may_call_at_any_time() {
    let service = start(Config::default());
    let mut family = Peer::start(&["fork", "orphan", service.socket().to_str().unwrap()]);
    let parent: u32 = family.line().parse().unwrap();
    assert_eq!(parent, family.pid());
    family.say("call");
    family.expect("the parent's session");
}
