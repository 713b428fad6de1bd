//! The other process of the integration tests: a service, a client, or an attacker, as its arguments say.
//!
//! It answers on stdout, one line for each command. A failure panics, and the exit code shows it.

mod attempt;
#[path = "../service/busy.rs"]
mod busy;
#[path = "../service/checked.rs"]
mod checked;
mod churn;
mod claim;
mod connect;
mod descriptors;
mod forks;
mod greedy;
mod hostile;
mod impostor;
mod neighbour;
mod older;
mod owner;
mod raw;
mod signals;

use checked::Load;
use rustix::process::{Resource, Rlimit, setrlimit};
use sidecore::client::Options;
use sidecore::config::Config;
use sidecore::service::Service;
use std::path::PathBuf;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", socket, config] => serve(socket, config),
        ["serve-with", descriptors, socket] => {
            let most = Some(number(descriptors));
            setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).expect("a lower limit");
            serve(socket, "");
        }
        ["serve-older", descriptors, socket, config] => {
            older::without_pass_rights();
            let most = Some(number(descriptors));
            setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).expect("a lower limit");
            serve(socket, config);
        }
        ["besiege", socket, connections, uid] => {
            neighbour::besiege(socket, number(connections), number(uid) as u32);
        }
        ["churn", socket, what, uid] => churn::run(socket, what, number(uid) as u32),
        ["claim", socket] => claim::run(socket),
        ["load", socket, seed] => keep_loading(socket, number(seed)),
        ["greedy", socket, op, size, lanes, uid] => {
            greedy::run(socket, op, number(size) as usize, number(lanes), number(uid) as u32);
        }
        ["fill", socket, op, lanes, uid] => greedy::fill(socket, op, number(lanes), number(uid) as u32),
        ["cheat", socket] => greedy::cheat(socket),
        ["connect", socket] => println!("{}", connect::once(socket)),
        ["linger", socket] => neighbour::send_lingering(socket),
        ["neighbour", socket, uid] => neighbour::answer(socket, number(uid) as u32),
        ["throng", socket, lanes, uid] => neighbour::throng(socket, number(lanes), number(uid) as u32),
        ["hoard", socket, what, uid] => neighbour::hoard(socket, what, number(uid) as u32),
        ["inherit", socket] => neighbour::inherit(socket),
        ["tied", socket, cpu] => connect::tied(socket, number(cpu) as usize),
        ["interrupted", socket] => signals::run(socket),
        ["foreign", socket] => descriptors::use_foreign(socket),
        ["bare", socket] => descriptors::begin_without(socket),
        ["knock", socket, seed] => connect::attack(socket, number(seed)),
        ["scribble", socket, seed, mutations] => hostile::run(socket, number(seed), number(mutations)),
        ["faults", socket] => hostile::break_each_rule(socket),
        ["flood", socket] => hostile::flood(socket),
        ["attempt", what, how, directory, victim] => attempt::run(what, how, directory.as_ref(), victim),
        ["owner", socket, uid, gids] => owner::run(socket, uid, gids),
        ["impostor", socket, uid] => impostor::run(socket, uid),
        ["visit", socket] => impostor::visit(socket),
        ["fork", scenario, socket] => forks::run(scenario, socket),
        _ => panic!("no such part to play: {arguments:?}"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn options(socket: &str) -> Options {
    Options { socket: socket.into(), name: "peer".to_owned(), ..Options::default() }
}

fn serve(socket: &str, config: &str) {
    let config = Config { socket: PathBuf::from(socket), ..Config::parse(config).expect("a good configuration") };
    let service = Service::start(config).expect("a service");
    println!("serving");
    wait_for_line();
    assert!(service.is_alive(), "a thread of the service ended");
}

fn wait_for_line() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).expect("a pipe") > 0).then(|| line.trim().to_owned())
}

fn keep_loading(socket: &str, seed: u64) {
    let mut load = Load::new(&options(socket), 32, seed).expect("a lane");
    println!("loading");
    loop {
        load.step().expect("an answer");
    }
}
