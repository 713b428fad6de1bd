//! Finish times of a device that does several requests side by side.
//!
//! Such a device is worth several others when it is full, and one of them to a request that is alone. Occupancy and
//! waiting time are therefore separate. A request occupies its part of a full batch. It is answered when all requests
//! before it and its own batch are done, by the device's measured times. These times are kept as multiples of the
//! part, and [`Rates`](super::Rates) follow the part's current length: a processor that became slower did so for
//! batches of all sizes.
//!
//! The number of requests in progress and their start are not visible from outside. All count as if they began now,
//! as on other devices, but no request joins a running batch ([`BESIDE`]). Requests of other classes on the device
//! count with their parts.

use crate::policy::gather::MAX_BATCH;
use crate::session::Class;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::vec;

/// Least wait on a busy device, in multiples of a single request's time: the running batch is half done on average,
/// and then the request's own batch follows.
const BESIDE: f32 = 1.5;

/// Measured times of requests of one class that a device does side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The class.
    pub class: Class,
    /// Input size of the measurement, bytes.
    pub size: u32,
    /// Requests of fewer bytes are done one by one.
    pub from: u32,
    /// A request's part of a full batch, ns.
    pub part: Nanos,
    /// How long it takes to answer 1, 2, … requests, ns.
    pub ends: [Nanos; MAX_BATCH],
}

#[derive(Clone, Copy, Debug)]
struct Row {
    from: u32,
    /// How long it takes to answer 1, 2, … requests, in parts of a full batch.
    ends: [f32; MAX_BATCH],
    in_flight: u32,
    /// Time that its requests occupy the device, ns.
    backlog: Nanos,
}

#[derive(Clone, Debug)]
pub(crate) struct BatchEstimate {
    /// By class; `None`: done one by one.
    rows: Box<[Option<Row>]>,
}

impl BatchEstimate {
    /// No class is done side by side. Allocates.
    pub(crate) fn new() -> Self {
        Self { rows: vec![None; Class::COUNT].into_boxed_slice() }
    }

    /// Sets one class to side by side. The caller must [enter](Self::entered) its requests on the device again.
    pub(crate) fn set(&mut self, measured: &Measured) {
        let part = measured.part.max(1) as f32;
        let mut ends = measured.ends.map(|end| end as f32 / part);
        let least = ends[0] * BESIDE;
        ends[1..].iter_mut().for_each(|end| *end = end.max(least));
        self.rows[measured.class.index()] = Some(Row { from: measured.from, ends, in_flight: 0, backlog: 0 });
    }

    #[inline]
    pub(crate) fn entered(&mut self, class: Class, size: u32, cost: Nanos) {
        if let Some(row) = self.row(class, size) {
            row.in_flight += 1;
            row.backlog += cost;
        }
    }

    #[inline]
    pub(crate) fn left(&mut self, class: Class, size: u32, cost: Nanos) {
        if let Some(row) = self.row(class, size) {
            row.in_flight -= 1;
            row.backlog -= cost;
        }
    }

    /// Time until the answer to one more request with this cost, ns, given the backlog of all classes.
    #[inline]
    pub(crate) fn finish(&self, class: Class, size: u32, backlog: Nanos, cost: Nanos) -> Nanos {
        match &self.rows[class.index()] {
            Some(row) if size >= row.from => backlog.saturating_sub(row.backlog).saturating_add(row.end(cost)),
            _ => backlog.saturating_add(cost),
        }
    }

    #[inline]
    fn row(&mut self, class: Class, size: u32) -> Option<&mut Row> {
        self.rows[class.index()].as_mut().filter(|row| size >= row.from)
    }
}

impl Row {
    /// Time to answer the requests in flight and one more, for this length of a part, ns.
    #[inline]
    fn end(&self, part: Nanos) -> Nanos {
        let before = self.in_flight as usize;
        let ends = self.ends[before % MAX_BATCH] + self.ends[MAX_BATCH - 1] * (before / MAX_BATCH) as f32;
        (ends * part as f32) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::gather::BatchPolicy;

    fn fours() -> Measured {
        let gather = BatchPolicy::new([120, 120, 120, 120, 240, 240, 240, 240], 100);
        Measured { class: Class::NOOP, size: 0, from: 64, part: gather.part(), ends: gather.ends() }
    }

    fn filled(requests: u32) -> BatchEstimate {
        let mut fills = BatchEstimate::new();
        fills.set(&fours());
        (0..requests).for_each(|_| fills.entered(Class::NOOP, 64, 30));
        fills
    }

    #[test]
    fn a_request_by_itself_is_answered_as_by_other_devices_and_more_within_their_batches() {
        let finish = |before: u32| filled(before).finish(Class::NOOP, 64, Nanos::from(before) * 30, 30);
        let found: [Nanos; 10] = core::array::from_fn(|before| finish(before as u32));
        assert_eq!(found, [100, 150, 150, 150, 220, 240, 240, 240, 340, 390]);
    }

    #[test]
    fn what_others_have_there_comes_before_and_a_slower_device_is_slower_at_every_fill() {
        let mut fills = filled(3);
        assert_eq!(fills.finish(Class::NOOP, 64, 90 + 500, 30), 500 + 150);
        assert_eq!(fills.finish(Class::NOOP, 64, 90, 60), 300);
        fills.left(Class::NOOP, 64, 30);
        fills.left(Class::NOOP, 64, 30);
        fills.left(Class::NOOP, 64, 30);
        assert_eq!(fills.finish(Class::NOOP, 64, 0, 30), 100);
    }

    #[test]
    fn what_is_not_done_side_by_side_takes_what_it_takes() {
        let fills = filled(3);
        assert_eq!(fills.finish(Class::NOOP, 63, 90, 80), 170, "too short");
        let other = Class::all().find(|class| *class != Class::NOOP).unwrap();
        assert_eq!(fills.finish(other, 64, Nanos::MAX, 1), Nanos::MAX);
    }
}
