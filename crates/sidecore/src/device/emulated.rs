//! A device that is not here: it computes the true result and returns it when the modelled one would.
//!
//! The model is one server with a queue: a request is finished `fixed + per_byte × input` after the later of its
//! arrival and the end of the request before. The sidecore computes the result when the request arrives; it stays in
//! private memory until its time, so that a device killed meanwhile has written nothing.

use super::{Health, Job, Reply};
use crate::engine::execute::{Scratch, compute, deliver};
use sidecore_core::inflight::Ticket;
use sidecore_core::session::Refusal;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

#[derive(Debug)]
struct Pending {
    ticket: Ticket,
    job: Job,
    result: Result<Vec<u8>, Refusal>,
    took: Nanos,
    due: Nanos,
}

/// One emulated device.
#[derive(Debug)]
pub(crate) struct Emulated {
    fixed: Nanos,
    per_byte: f64,
    queue: VecDeque<Pending>,
    scratch: Scratch,
    /// Buffers of results that were delivered, to be used again.
    spare: Vec<Vec<u8>>,
    free_at: Nanos,
    dead: bool,
}

impl Emulated {
    pub(crate) fn new(fixed: Nanos, per_byte: f64, depth: u32, max_request: u32) -> Self {
        let depth = depth as usize;
        Self {
            fixed,
            per_byte,
            queue: VecDeque::with_capacity(depth),
            scratch: Scratch::new(max_request),
            spare: Vec::with_capacity(depth),
            free_at: 0,
            dead: false,
        }
    }

    /// Time that the model takes for so many bytes of input.
    pub(crate) fn time(&self, bytes: u64) -> Nanos {
        self.fixed + (self.per_byte * bytes as f64) as Nanos
    }

    pub(crate) fn submit(&mut self, now: Nanos, ticket: Ticket, job: &Job) {
        if self.dead {
            return;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        let result = compute(&job.session, &job.memory, &job.submission, &mut self.scratch).map(|result| {
            buffer.clear();
            buffer.extend_from_slice(result);
            buffer
        });
        let took = self.time(job.submission.input_len());
        self.free_at = self.free_at.max(now) + took;
        self.queue.push_back(Pending { ticket, job: job.clone(), result, took, due: self.free_at });
    }

    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Reply> {
        if self.due()? > now {
            return None;
        }
        let Pending { ticket, job, result, took, .. } = self.queue.pop_front()?;
        let outcome = result.map(|result| {
            deliver(&job.memory, &job.submission, &result);
            let len = result.len() as u32;
            self.spare.push(result);
            len
        });
        Some(Reply { ticket, outcome, took, _job: job })
    }

    #[inline]
    pub(crate) fn due(&self) -> Option<Nanos> {
        self.queue.front().map(|first| first.due)
    }

    pub(crate) fn health(&self) -> Health {
        if self.dead { Health::Dead } else { Health::Alive }
    }

    pub(crate) fn kill(&mut self) {
        self.dead = true;
        self.queue.clear();
    }
}
