//! The other process of the integration tests: a service, a program, or an attacker, as its arguments say.
//!
//! It answers on stdout, one line for each command. A failure panics, and the exit code shows it.

mod attempt;
mod churn;
mod impostor;
mod lend;
mod sys;
mod user;

use sidecore_sockets_service::Config;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", socket, config] => lend::serve(socket, config),
        ["attempt", what, how, directory, victim] => attempt::run(what, how, directory.as_ref(), victim),
        ["churn", socket, what, uid] => churn::run(socket, what, number(uid)),
        ["hold-up", socket, uid] => lend::hold_up(socket, number(uid)),
        ["impostor", socket, uid] => impostor::run(socket, number(uid)),
        ["lend", socket, uid] => lend::run(socket, number(uid)),
        _ => panic!("no such part to play: {arguments:?}"),
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}

fn config(text: &str) -> Config {
    Config::parse(text).expect("a good configuration")
}

fn wait_for_line() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).expect("a pipe") > 0).then(|| line.trim().to_owned())
}
