//! `sidecore net`: analyses the path between an interface and a program, and tunes it.
//!
//! Everything happens between two *ends*: this process, and another one on this or another machine.

mod account;
mod breakdown;
mod columns;
mod end;
pub(crate) mod error;
mod flow;
mod hardware;
mod link;
mod links;
mod measure;
mod packets;
mod pair;
mod papers;
mod path;
mod peer;
mod protocol;
mod sampling;
mod sections;
mod space;
mod tune;
mod why;

use crate::args::{Net, NetCommand, NetPeer};
use crate::error::LabError;
pub(crate) use end::serve::run as run_end;
pub(crate) use link::check::measure as check_link;
pub(crate) use sections::LINK;
#[cfg(test)]
pub(crate) use sections::SECTIONS;
use sidecore_terminal::output;
use std::net::TcpListener;

#[cfg(test)]
pub(crate) fn columns() -> impl Iterator<Item = &'static crate::report::Column> {
    columns::all()
}

pub(crate) fn run(args: &Net) -> Result<u8, LabError> {
    match &args.command {
        NetCommand::Measure(args) => measure::run(args).map(|()| 0),
        NetCommand::Link(args) => link::command::run(args),
        NetCommand::Peer(args) => serve(args).map(|()| 0),
        NetCommand::Where(args) => breakdown::run(args).map(|()| 0),
        NetCommand::Tune(args) => tune::run(args),
        NetCommand::Papers(args) => papers::run(args).map(|()| 0),
        NetCommand::Why(args) => why::run(args).map(|()| 0),
    }
}

fn serve(args: &NetPeer) -> Result<(), LabError> {
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        let remedy = "name another address and port of this machine with --listen";
        LabError::missing(format!("cannot listen at {}", args.listen), error, remedy)
    })?;
    output::tell(format!("listens at {}", args.listen));
    peer::serve(&listener).map_err(|error| LabError::failed("cannot take near ends any more", error))
}
