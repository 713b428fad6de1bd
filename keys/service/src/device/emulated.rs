//! An emulated device: it computes the true result and returns it at the modelled time.
//!
//! The model is one server: a request takes it `fixed + per_byte × input`, one after the other. The sidecore computes the result when the request arrives; it stays
//! in private memory until its time, so that a device killed meanwhile has written nothing.

mod server;

use super::{Port, Request};
use crate::config::DeviceConfig;
use crate::engine::execute::{Scratch, compute, deliver};
use server::Server;
use sidecore_core::inflight::Ticket;
use sidecore_core::session::Refusal;
use sidecore_core::sidecore::{Health, Reply};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;

#[derive(Debug)]
struct Pending {
    ticket: Ticket,
    request: Request,
    result: Result<Vec<u8>, Refusal>,
    took: Nanos,
}

#[derive(Debug)]
pub(crate) struct Emulated {
    fixed: Nanos,
    per_byte: f64,
    server: Server<Pending>,
    scratch: Scratch,
    spare: Vec<Vec<u8>>,
    dead: bool,
}

impl Emulated {
    pub(crate) fn new(config: &DeviceConfig, max_request: u32) -> Self {
        let depth = config.depth() as usize;
        Self {
            fixed: config.fixed_ns,
            per_byte: config.per_byte_ns,
            server: Server::new(depth),
            scratch: Scratch::new(max_request),
            spare: Vec::with_capacity(depth),
            dead: false,
        }
    }

    /// Modelled time of a request, ns: `fixed` ns and `per_byte` ns for each byte of input.
    pub(crate) fn time(fixed: Nanos, per_byte: f64, bytes: u64) -> Nanos {
        fixed + (per_byte * bytes as f64) as Nanos
    }
}

impl Port for Emulated {
    fn submit(&mut self, ticket: Ticket, request: Request) {
        if self.dead {
            return;
        }
        // The model begins its work at the arrival of the request, not at the sidecore's last known time.
        let begun = clock::now();
        let mut buffer = self.spare.pop().unwrap_or_default();
        let result = compute(&request.session, &request.memory, &request.submission, &mut self.scratch).map(|result| {
            buffer.clear();
            buffer.extend_from_slice(result);
            buffer
        });
        let took = Self::time(self.fixed, self.per_byte, request.submission.input_len());
        self.server.submit(begun, took, Pending { ticket, request, result, took });
    }

    fn poll(&mut self, now: Nanos) -> Option<(Reply, Request)> {
        let Pending { ticket, request, result, took } = self.server.poll(now)?;
        let outcome = result.map(|result| {
            deliver(&request.memory, &request.submission, &result);
            let len = result.len() as u32;
            self.spare.push(result);
            len
        });
        Some((Reply { ticket, outcome, took, part: took }, request))
    }

    fn due(&self) -> Option<Nanos> {
        self.server.due()
    }

    fn health(&self) -> Health {
        if self.dead { Health::Dead } else { Health::Alive }
    }

    fn kill(&mut self) {
        self.dead = true;
        self.server.clear();
    }

    fn revoke(&mut self) -> Health {
        self.kill();
        Health::Dead
    }
}
