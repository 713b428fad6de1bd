//! Counters of what a sidecore did.

use super::ReactorHost;
use crate::device::{Port, Request};
use crate::service::command::Lane;
use sidecore_core::dispatch::{Done, Reassigned, Work};
use sidecore_core::session::Class;
use sidecore_core::sidecore::{Event, Gauges, Observer, Plan, TurnStats};
use sidecore_core::stage::{Stage, Stamps};
use sidecore_core::time::Nanos;
use sidecore_core::wire::Status;
use sidecore_counters::{DeviceCounter, KeyCounter, LaneBlock, LaneCounter, SidecoreCounter};
use sidecore_ipc::sys::clock;

impl Observer for ReactorHost {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each caller has one kind of event, and keeps only its branch")]
    fn on(&mut self, event: Event<'_, Lane, Request>) {
        match event {
            Event::Ran { device, work, count, .. } => {
                let bytes = u64::from(count) * u64::from(work.size);
                self.devices[device].count(count, bytes);
                self.count(work.class, count, bytes);
            }
            Event::Sampled { lane, device, work, plan, stamps } => self.sampled(lane, device, work, plan, stamps),
            Event::Refused { lane, submission, refusal } => {
                let session = lane.sessions.get(submission.session());
                if let Some(key) = self.key(session) {
                    key.add(KeyCounter::Submitted, 1);
                    key.add(KeyCounter::Refused, 1);
                }
                self.tell_refusal(lane, session.and_then(|session| session.key()), refusal);
            }
            Event::Submitted { work, request, .. } => self.submitted(work, request),
            Event::Finished { reply, done } => {
                if let Some(done) = done {
                    self.devices[usize::from(done.device)].counters.record(reply.took);
                }
            }
            Event::Answered { lane, done, request, status, stamps } => {
                self.answered(lane, done, request, status, stamps);
            }
            Event::Reassigned { lost, reassigned, .. } => {
                if let Reassigned::Now(_) | Reassigned::Assigned(_) = reassigned {
                    self.counters.add(SidecoreCounter::Replayed, 1);
                    self.devices[lost].counters.add(DeviceCounter::Replayed, 1);
                }
            }
            Event::TurnEnded { lane, turn, in_flight } => self.turn_ended(lane, turn, in_flight),
            Event::Gauges(gauges) => self.publish_gauges(gauges),
        }
    }
}

impl ReactorHost {
    fn sampled(&mut self, lane: &Lane, device: usize, work: &Work, plan: &Plan, stamps: &Stamps) {
        self.devices[device].counters.record(stamps.device());
        self.record(work.class, &lane.counters, stamps);
        if let Some(key) = self.key(lane.sessions.at(plan.token)) {
            for (stage, time) in times(stamps) {
                key.record(stage, time);
            }
        }
    }

    #[inline]
    fn submitted(&mut self, work: &Work, request: &Request) {
        self.count(work.class, 1, u64::from(work.size));
        if let Some(key) = self.key(Some(&request.session)) {
            key.add(KeyCounter::Submitted, 1);
            key.add(KeyCounter::of(work.class.op()), 1);
            key.add(KeyCounter::InFlight, 1);
        }
    }

    fn answered(
        &mut self,
        lane: Option<(&Lane, u32)>,
        done: &Done,
        request: Option<&Request>,
        status: Status,
        stamps: Option<&Stamps>,
    ) {
        let (of_lane, of_key) = match status {
            Status::Done { .. } => (LaneCounter::Done, KeyCounter::Done),
            Status::Refused(_) => (LaneCounter::Refused, KeyCounter::Refused),
            Status::DeviceFailed { .. } => (LaneCounter::Failed, KeyCounter::Failed),
        };
        if let Some(key) = self.key(request.map(|request| &request.session)) {
            key.sub(KeyCounter::InFlight, 1);
            key.add(of_key, 1);
            for (stage, time) in stamps.into_iter().flat_map(times) {
                key.record(stage, time);
            }
        }
        if let Status::DeviceFailed { .. } = status {
            self.devices[usize::from(done.device)].counters.add(DeviceCounter::Failed, 1);
        }
        let Some((lane, in_flight)) = lane else { return };
        if let Status::Refused(refusal) = status {
            self.tell_refusal(lane, request.and_then(|request| request.session.key()), refusal);
        }
        if let Some(stamps) = stamps {
            self.record(done.work.class, &lane.counters, stamps);
        }
        if let Status::Done { len } = status {
            lane.counters.add(LaneCounter::BytesOut, u64::from(len));
        }
        lane.counters.add(of_lane, 1);
        lane.counters.add(LaneCounter::BytesIn, u64::from(done.work.size));
        lane.counters.set(LaneCounter::InFlight, u64::from(in_flight));
    }

    #[inline]
    fn turn_ended(&mut self, lane: &Lane, turn: &TurnStats, in_flight: u32) {
        let counters = &lane.counters;
        counters.set(LaneCounter::InFlight, u64::from(in_flight));
        counters.add(LaneCounter::Submitted, u64::from(turn.taken));
        counters.add(LaneCounter::Done, u64::from(turn.done));
        counters.add(LaneCounter::BytesIn, turn.bytes_in);
        counters.add(LaneCounter::BytesOut, turn.bytes_out);
        if turn.refused > 0 {
            counters.add(LaneCounter::Refused, u64::from(turn.refused));
            self.counters.add(SidecoreCounter::Refused, u64::from(turn.refused));
        }
    }

    fn publish_gauges(&mut self, gauges: &Gauges) {
        let counters = &self.counters;
        counters.audit(gauges.audit);
        counters.set(SidecoreCounter::CpuNs, clock::thread_cpu());
        counters.set(SidecoreCounter::Rounds, gauges.rounds);
        counters.set(SidecoreCounter::Lanes, gauges.lanes as u64);
        counters.set(SidecoreCounter::DormantLanes, gauges.dormant as u64);
        for (number, (device, loss)) in self.devices.iter().zip(&self.losses).enumerate() {
            device.publish(gauges.dispatch, number, *loss);
        }
        self.tell_blamed();
        self.publish_tally();
    }

    fn tell_blamed(&mut self) {
        for number in 0..self.devices.len() {
            while let Some(blame) = self.port(number).and_then(Port::blamed) {
                self.tell(self.devices[number].wrong(blame));
            }
        }
    }

    #[inline]
    fn count(&mut self, class: Class, count: u32, bytes: u64) {
        let (requests, total) = &mut self.tally[class.index()];
        *requests += u64::from(count);
        *total += bytes;
    }

    fn publish_tally(&mut self) {
        for (class, (requests, bytes)) in Class::all().zip(&mut self.tally) {
            if *requests > 0 {
                self.counters.add(SidecoreCounter::Requests, *requests);
                self.counters.class(class, std::mem::take(requests), std::mem::take(bytes));
            }
        }
    }

    fn record(&self, class: Class, lane: &LaneBlock, stamps: &Stamps) {
        for (stage, time) in times(stamps) {
            self.counters.record(class, stage, time);
            lane.record(stage, time);
        }
    }
}

#[inline]
fn times(stamps: &Stamps) -> [(Stage, Nanos); 3] {
    [(Stage::Queue, stamps.queue()), (Stage::Device, stamps.device()), (Stage::Host, stamps.host())]
}
