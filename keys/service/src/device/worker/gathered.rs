//! A worker's step where it does several requests side by side.

use super::{Loop, POLLS};
use sidecore_core::doorbell::Doorbell;
use sidecore_core::policy::gather::Begin;
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use std::thread;
use std::time::Duration;

/// Answers of a batch that are written within this time share one notification, ns. It is less than a wake-up takes.
const TOGETHER: Nanos = 4_000;

impl Loop {
    pub(super) fn gathered_step(&mut self) -> Option<()> {
        self.gather();
        let begin = self.gathering.as_ref().and_then(|gathering| gathering.next(clock::now()));
        match begin {
            Some(Begin::Now(fill)) => self.serve_batch(fill),
            // Other requests are done meanwhile, one at a time.
            Some(Begin::At(until)) => self.meanwhile(until),
            None => self.single_step(),
        }
    }

    /// Does requests outside batches until then, one at a time. `None`: killed, or the gate is shut.
    fn meanwhile(&mut self, until: Nanos) -> Option<()> {
        if let Ok((ticket, request)) = self.requests.pop() {
            return self.serve(ticket, request);
        }
        self.linger(until);
        Some(())
    }

    fn gather(&mut self) {
        let Some(gathering) = &mut self.gathering else { return };
        while gathering.has_room()
            && let Some(kind) = self.requests.peek().ok().and_then(|(_, request)| gathering.kind_of(request))
            && let Ok((ticket, request)) = self.requests.pop()
        {
            let now = clock::now();
            if self.waits.waiter.is_waiting() {
                self.waits.waiter.end(now);
            }
            gathering.push(ticket, request, kind, now);
        }
    }

    fn serve_batch(&mut self, fill: usize) -> Option<()> {
        let gathering = self.gathering.as_mut()?;
        let start = clock::now();
        gathering.begin(fill, &mut self.scratch, &self.shared.batches);
        let took = clock::now() - start;
        // Each has its share of the time; for the balancing policies it counts as if the batch had been full.
        let times = (took / fill.max(1) as Nanos, gathering.part_of(took));
        let (mut since, mut count, mut any_urgent) = (start + took, 0, false);
        while let Some((done, result)) = gathering.finished() {
            let urgent = done.request.submission.is_urgent();
            let now = self.answers.put(done.ticket, done.request, result, |_| times)?;
            (count, any_urgent) = (count + 1, any_urgent || urgent);
            // A sleeping sidecore is woken once for answers written in quick succession, and need not wait for long
            // messages.
            if now - since >= TOGETHER || gathering.is_finished() {
                self.answers.completed(now, count, any_urgent);
                (since, count, any_urgent) = (now, 0, false);
            }
        }
        Some(())
    }

    fn linger(&self, until: Nanos) {
        let is_over = || !self.requests.is_empty() || self.shared.is_killed();
        if self.options.place.may_spin {
            while !is_over() && clock::now() < until {
                (0..POLLS).for_each(|_| std::hint::spin_loop());
            }
            return;
        }
        let doorbell = Doorbell(&self.shared.worker_armed);
        doorbell.arm();
        if !is_over() {
            thread::park_timeout(Duration::from_nanos(until.saturating_sub(clock::now())));
        }
        doorbell.disarm();
    }
}
