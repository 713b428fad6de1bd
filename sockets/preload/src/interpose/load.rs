//! Preparation when the loader has mapped this library.

use super::catalogue::REAL;
use super::environment;

/// Runs at load: a signal handler must not call the loader, and the program may clear its environment later.
extern "C" fn find_all() {
    REAL.find();
    environment::prepare();
    sidecore_sockets::program::prepare();
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIND_ALL: extern "C" fn() = find_all;
