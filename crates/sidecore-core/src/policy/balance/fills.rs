//! When a request is answered by a device that does several side by side.
//!
//! Such a device is worth several others when it is full, and to a request that comes alone no more than one of them. So what
//! it takes is told apart from how long a request waits: a request takes its part of a full batch, and is answered when
//! those that are before it and the batch that it joins are done, by the times that the device measured. They are kept as multiples of the
//! part, of which [`Rates`](super::Rates) follow what it is now: a processor that became slower did so for batches of all sizes.
//!
//! Nobody sees from outside how many of the requests are being computed and for how long already. All count as if they began now, as
//! they do on other devices, but that nobody joins a batch which runs ([`BESIDE`]). Requests of other classes on the device count with their parts.

use crate::policy::gather::MOST;
use crate::session::Class;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::vec;

/// A request that comes to a device which computes is answered no sooner than after so many times what one takes by itself: what is
/// computed is half done on average, and then comes its own batch.
const BESIDE: f32 = 1.5;

/// What a device measured of requests of one class that it does side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The class.
    pub class: Class,
    /// Bytes of input of what was measured.
    pub size: u32,
    /// Those of fewer bytes are done one by one.
    pub from: u32,
    /// A request's part of a full batch, ns.
    pub part: Nanos,
    /// How long it takes to answer 1, 2, … requests, ns.
    pub ends: [Nanos; MOST],
}

/// One class on one device.
#[derive(Clone, Copy, Debug)]
struct Row {
    from: u32,
    /// How long it takes to answer 1, 2, … requests, in parts of a full batch.
    ends: [f32; MOST],
    in_flight: u32,
    /// What these take of the device, ns.
    backlog: Nanos,
}

/// What one device measured, and what it has of it.
#[derive(Clone, Debug)]
pub(crate) struct Fills {
    /// By class; `None`: not done side by side.
    rows: Box<[Option<Row>]>,
}

impl Fills {
    /// No class is done side by side. Allocates.
    pub(crate) fn new() -> Self {
        Self { rows: vec![None; Class::COUNT].into_boxed_slice() }
    }

    /// A class is, from now on. Requests of it that the device has are to be [entered](Self::entered) anew.
    pub(crate) fn set(&mut self, measured: &Measured) {
        let part = measured.part.max(1) as f32;
        let mut ends = measured.ends.map(|end| end as f32 / part);
        let least = ends[0] * BESIDE;
        ends[1..].iter_mut().for_each(|end| *end = end.max(least));
        self.rows[measured.class.index()] = Some(Row { from: measured.from, ends, in_flight: 0, backlog: 0 });
    }

    /// The device was given a request that takes so much of it, ns.
    #[inline]
    pub(crate) fn entered(&mut self, class: Class, size: u32, cost: Nanos) {
        if let Some(row) = self.row(class, size) {
            row.in_flight += 1;
            row.backlog += cost;
        }
    }

    /// A request that [had entered](Self::entered) has left.
    #[inline]
    pub(crate) fn left(&mut self, class: Class, size: u32, cost: Nanos) {
        if let Some(row) = self.row(class, size) {
            row.in_flight -= 1;
            row.backlog -= cost;
        }
    }

    /// When one more request would be answered that takes so much of the device, with that backlog of all classes, ns from now.
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
    /// How long it takes to answer those in flight and one more, if a part of a full batch takes so long, ns.
    #[inline]
    fn end(&self, part: Nanos) -> Nanos {
        let before = self.in_flight as usize;
        let ends = self.ends[before % MOST] + self.ends[MOST - 1] * (before / MOST) as f32;
        (ends * part as f32) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::gather::Gather;

    /// Four lanes that take a fifth longer than one request by itself.
    fn fours() -> Measured {
        let gather = Gather::new([120, 120, 120, 120, 240, 240, 240, 240], 100);
        Measured { class: Class::NOOP, size: 0, from: 64, part: gather.part(), ends: gather.ends() }
    }

    fn filled(requests: u32) -> Fills {
        let mut fills = Fills::new();
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
