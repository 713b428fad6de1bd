//! Nodes that pull, without a dispatcher: each has a fixed number of places, and requests an event from the server for
//! each empty one. The server knows nothing of the nodes; requests are served in order of arrival.

use super::event::{Answer, FarmEvent, Parcel};
use super::field::{Field, Job};
use crate::engine::Engine;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Pull {
    asking: VecDeque<(usize, u32)>,
}

impl Pull {
    pub(super) fn hand_out(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field) {
        field.refill(engine);
        while !field.held.is_empty()
            && let Some((node, life)) = self.asking.pop_front()
        {
            // The server knows whether the requester still waits for an answer.
            if !field.nodes[node].is(life) {
                continue;
            }
            let Some(job) = field.held.pop_front() else { return };
            let Job { handed, work, .. } = field.jobs[job as usize];
            let attempt = u64::from(handed) + 1;
            field.send(engine, 1, Parcel { node, life, job, attempt, work, reports_start: false });
            engine.after(field.set.death.ack_wait_ms.nanos(), FarmEvent::Expires(job, attempt));
            field.refill(engine);
        }
    }

    pub(super) fn asks(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field, node: usize, life: u32) {
        self.asking.push_back((node, life));
        self.hand_out(engine, field);
    }

    pub(super) fn worked(engine: &mut Engine<FarmEvent>, field: &mut Field, parcel: Parcel, answer: Answer) {
        let Parcel { node, life, job, attempt, .. } = parcel;
        field.take_from(node, job);
        if answer.failed {
            let hop = field.hop(engine);
            engine.after(hop, FarmEvent::Asks(node, life));
            if attempt >= u64::from(field.set.hand.tries.get()) {
                return field.give_up(job);
            }
            // The node reports the failure.
            engine.after(hop, FarmEvent::Expires(job, attempt));
            return;
        }
        let stored = field.store(engine, job);
        let asked = stored + field.hop(engine) + field.hop(engine);
        engine.schedule(asked, FarmEvent::Asks(node, life));
    }

    pub(super) fn expires(&mut self, engine: &mut Engine<FarmEvent>, field: &mut Field, job: u32, attempt: u64) {
        let Job { stored, handed, given_up, .. } = field.jobs[job as usize];
        if stored == 0 && !given_up && u64::from(handed) == attempt {
            field.held.push_front(job);
            self.hand_out(engine, field);
        }
    }
}
