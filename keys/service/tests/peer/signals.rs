//! A client in a program whose work is interrupted all the time.

use crate::options;
use sidecore::client::Client;
use sidecore::core::session::Class;
use sidecore::engine::crypto::sample::sample;
use std::fmt::Display;

const ROUNDS: usize = 100;
/// Microseconds between two signals.
const PERIOD: i64 = 300;

mod ffi {
    use std::ptr::null_mut;

    extern "C" fn nothing(_signal: libc::c_int) {}

    /// Interrupts all blocking calls every `period` us.
    pub(super) fn interrupt_every(period: i64) {
        // SAFETY: the handler does nothing, and the structures are plain numbers for which zero is a value.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, null_mut()), 0);
            let time = libc::timeval { tv_sec: 0, tv_usec: period };
            let timer = libc::itimerval { it_interval: time, it_value: time };
            assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()), 0);
        }
    }
}

pub(crate) fn run(socket: &str) {
    ffi::interrupt_every(PERIOD);
    let done = (0..ROUNDS).filter(|_| first_request(socket).inspect_err(|error| println!("{error}")).is_ok());
    println!("{} of {ROUNDS}", done.count());
}

fn first_request(socket: &str) -> Result<(), String> {
    let told = |error: &dyn Display| error.to_string();
    let mut client = Client::connect(&options(socket)).map_err(|error| told(&error))?;
    let signing = sample(Class::from_name("rsa-2048-sign").expect("a class of this name"), 64, 1);
    let session = client.open_session(&signing.spec).map_err(|error| told(&error))?;
    client.call(session, signing.op, 0, &signing.input, signing.output_len as u32).map_err(|error| told(&error))?;
    client.close_session(session).map_err(|error| told(&error))
}
