//! One of several services that want the same socket.

use crate::wait_for_line;
use sidecore::config::Config;
use sidecore::service::Service;
use sidecore_ipc::sys::clock;
use std::hint::spin_loop;

/// Starts a service at each given time, ns of the monotonic clock; prints the result; ends the service on command.
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
