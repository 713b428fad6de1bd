//! What one user does is felt by no other.

use crate::common::{OTHER, Program, config, connection, got, held_up, open_to_all, own_user, rows, start};
use crate::skipped::skipped;
use sidecore::core::streams::place::State;

#[test]
fn a_user_whose_socket_holds_its_thread_up_is_alone_with_that() {
    if own_user() != 0 {
        skipped("only root can: have another user wait for pages that never come");
        return;
    }
    let mut service = start(config());
    open_to_all(&service);
    let Some(mut holding) = held_up(service.socket(), OTHER) else {
        skipped("userfaultfd, which this kernel does not have");
        return;
    };
    let program = Program::attach(&service);
    let (here, mut there) = connection();
    let mut stream = program.promote(0, 1, &here);
    for _ in 0..3 {
        stream.until_armed();
        assert!(stream.write(b"not held up"));
        assert_eq!(got(&mut there, 11), b"not held up");
    }
    let told = rows(service.socket());
    assert_eq!(told.len(), 1, "{told:?}");
    // It ends all the same, and leaves its place to the next.
    service.end();
    assert_eq!(stream.state(), Some(State::Ended));
    service.again();
    assert!(Program::attach(&service).promote(0, 1, &here).write(b"next"));
    assert_eq!(got(&mut there, 4), b"next");
    holding.kill().unwrap();
    holding.wait().unwrap();
}
