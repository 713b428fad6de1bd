//! The dependencies of the commands for sockets, from cargo.

use sidecore_testing::tree::knows_no_keys;

#[test]
fn the_commands_for_sockets_link_nothing_of_keys() {
    knows_no_keys("sidecore-sockets-command");
}
