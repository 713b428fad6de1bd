//! A service among many that want one socket.

use crate::wait_for_line;
use sidecore::config::Config;
use sidecore::service::Service;
use sidecore::sys::clock;
use std::hint::spin_loop;

/// Starts a service at each time, ns of the monotonic clock, that it is told; says what became of it; ends it when told.
pub(crate) fn run(socket: &str) {
    println!("ready");
    while let Some(time) = wait_for_line() {
        let time: u64 = time.parse().expect("a time");
        while clock::now() < time {
            spin_loop();
        }
        let service = Service::start(Config { socket: socket.into(), ..Config::default() });
        match &service {
            Ok(_) => println!("serving"),
            Err(error) => println!("{error}"),
        }
        wait_for_line();
        drop(service);
        println!("ended");
    }
}
