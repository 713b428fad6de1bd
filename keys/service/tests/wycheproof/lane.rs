//! Wycheproof's vectors through a lane: client, shared memory, service.

use crate::vectors::{self, Failure};
use sidecore::client::{Client, Error, Options, Session};
use sidecore::config::Config;
use sidecore::engine::crypto::SessionSpec;
use sidecore::service::Service;
use sidecore_core::session::Op;
use std::collections::VecDeque;
use std::time::Instant;

/// Sessions kept open: vectors of one key follow each other, some alternate with those of another.
const OPEN: usize = 4;
/// Most bytes of a result beyond the length of its input: a signature, an encapsulation.
const EXTRA: usize = 8 * 1024;

struct Lane {
    client: Client,
    open: VecDeque<(SessionSpec, Session)>,
    opened: usize,
    calls: usize,
}

impl Lane {
    fn session(&mut self, spec: &SessionSpec) -> Result<Session, Failure> {
        if let Some((_, session)) = self.open.iter().find(|(known, _)| known == spec) {
            return Ok(*session);
        }
        let session = self.client.open_session(spec).map_err(|error| Failure::NotOpened(error.to_string()))?;
        self.opened += 1;
        if self.open.len() == OPEN
            && let Some((_, oldest)) = self.open.pop_front()
        {
            self.client.close_session(oldest).unwrap();
        }
        self.open.push_back((spec.clone(), session));
        Ok(session)
    }

    fn execute(&mut self, spec: &SessionSpec, op: Op, head_len: usize, input: &[u8]) -> Result<Vec<u8>, Failure> {
        let session = self.session(spec)?;
        self.calls += 1;
        let room = (input.len() + EXTRA) as u32;
        self.client.call(session, op, head_len as u32, input, room).map_err(|error| match error {
            Error::Refused(refusal) => Failure::Refused(refusal),
            other => panic!("{other}"),
        })
    }
}

#[test]
fn a_lane_agrees_with_wycheproof() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    let client = Client::connect(&Options { socket, ..Options::default() }).unwrap();
    let mut lane = Lane { client, open: VecDeque::new(), opened: 0, calls: 0 };
    let start = Instant::now();
    let rows = vectors::run_all(&mut |spec, op, head_len, input| lane.execute(spec, op, head_len, input));
    println!("{} requests on {} sessions in {:?}", lane.calls, lane.opened, start.elapsed());
    vectors::are_complete(&rows);
}
