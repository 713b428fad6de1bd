//! Prices: the value of each device's time to the arriving requests.
//!
//! Earliest finish alone gives a request to any device that is free soon, also to one that is bad at it and good at
//! another kind. Near capacity that device is then missing for the other kind. The price `y[i]` of a device's time is
//! its dual in the [`Program`] "most load that these devices can carry of this mix". A request with the time `t[i]`
//! on device i uses time worth `y[i] t[i]` there; at the optimum, requests are only on devices where that is least.
//! So a request goes to the device with the least
//!
//! ```text
//! finish[i] + W (y[i] t[i] / min over j of y[j] t[j] - 1)
//! ```
//!
//! with W the mean backlog of the devices. At light load W is 0 and the rule is earliest finish time; the longer the
//! queues, the more a detour must save. Where all are equally good the second term is 0.
//!
//! A device that is no bottleneck has the price 0: its time is free. A request with such a device would never go to
//! any other one, however long it waits. Prices are therefore at least [`FLOOR`] of their mean, which bounds the
//! ratio.
//!
//! A device that is full stays the best one: the request waits for it. On another device it would take longer and
//! fill that one as well, and after a burst capacity would stay at that of earliest finish alone.

use super::mix::{KINDS, Kind, Mix};
use super::{Load, Program, Progress};
use crate::session::Class;
use crate::time::Nanos;
use alloc::vec::Vec;

const PERIOD: Nanos = 10_000_000;
/// Arrivals before the first prices.
const FIRST: f32 = 256.0;
/// Cells that one call may compute anew: about 50 us.
const BUDGET: usize = 100_000;
/// Least price, as a part of the mean.
const FLOOR: f64 = 1.0 / 64.0;
/// Least time of a request, ns: of one that takes none a price says nothing.
const SHORTEST: Nanos = 1;

#[derive(Clone, Debug)]
pub(super) struct Prices {
    mix: Mix,
    program: Program,
    solving: bool,
    members: Vec<usize>,
    /// By device, relative to each other. Empty: unknown.
    by_device: Vec<f64>,
    arrived: u32,
    next: Nanos,
    /// A device changed since the last call of [`Prices::reprice`].
    is_upset: bool,
    /// Times of one request on each device; kept between the two passes of a choice.
    times: Vec<Nanos>,
}

impl Prices {
    pub(super) fn new() -> Self {
        Self {
            mix: Mix::new(),
            program: Program::new(0, KINDS),
            solving: false,
            members: Vec::new(),
            by_device: Vec::new(),
            arrived: 0,
            next: 0,
            is_upset: false,
            times: Vec::new(),
        }
    }

    pub(super) fn devices_changed(&mut self, devices: usize) {
        if devices > self.times.len() {
            self.program = Program::new(devices, KINDS);
            self.times.resize(devices, 0);
            self.members.reserve(devices - self.members.len());
            self.by_device.reserve(devices - self.by_device.len());
        }
        self.by_device.clear();
        self.solving = false;
        self.next = 0;
    }

    /// A device became slower or faster. Prices are unknown until its rates settle, or for one period.
    pub(super) fn rates_changed(&mut self) {
        self.by_device.clear();
        self.solving = false;
        self.is_upset = true;
    }

    /// A rate has enough observations for new prices.
    pub(super) fn rates_settled(&mut self) {
        self.is_upset = false;
        self.next = 0;
    }

    #[inline]
    pub(super) fn known(&self) -> bool {
        !self.by_device.is_empty()
    }

    #[inline]
    pub(super) fn arrived(&mut self, class: Class, size: u32) {
        self.mix.arrived(class, size);
        self.arrived = self.arrived.saturating_add(1);
    }

    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.solving || self.is_upset || (now >= self.next && self.arrived > 0)
    }

    #[inline]
    pub(super) fn choose(
        &mut self,
        loads: &[Load],
        capable: impl Fn(usize) -> bool,
        estimate: impl Fn(usize) -> Nanos,
        finish: impl Fn(usize, Nanos) -> Nanos,
    ) -> Option<usize> {
        for i in (0..loads.len()).filter(|&i| loads[i].usable && capable(i)) {
            self.times[i] = estimate(i).max(SHORTEST);
        }
        self.best(loads, capable, |i| self.times[i], finish)
    }

    #[inline]
    pub(super) fn best(
        &self,
        loads: &[Load],
        capable: impl Fn(usize) -> bool,
        time: impl Fn(usize) -> Nanos,
        finish: impl Fn(usize, Nanos) -> Nanos,
    ) -> Option<usize> {
        let time = |i| time(i).max(SHORTEST);
        let (mut least, mut backlog, mut usable) = (f64::MAX, 0.0, 0.0);
        for (i, load) in loads.iter().enumerate().filter(|(_, load)| load.usable) {
            backlog += load.backlog as f64;
            usable += 1.0;
            if capable(i) {
                least = least.min(self.by_device[i] * time(i) as f64);
            }
        }
        let mean = backlog / f64::max(usable, 1.0);
        // No price is below `FLOOR` and no time below `SHORTEST`: nothing here is 0/0.
        let scale = mean / least;
        let score = |i: usize| {
            let time = time(i);
            finish(i, time) as f64 + (self.by_device[i] * time as f64 * scale - mean)
        };
        let usable = (0..loads.len()).filter(|&i| loads[i].usable && capable(i));
        let (_, best) = usable.map(|i| (score(i), i)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(best).filter(|best| loads[*best].has_place())
    }

    pub(super) fn reprice(
        &mut self,
        now: Nanos,
        loads: &[Load],
        estimate: impl Fn(usize, Class, u32) -> Option<Nanos>,
    ) {
        if self.is_upset {
            (self.is_upset, self.next) = (false, now + PERIOD);
            return;
        }
        if !self.solving {
            self.mix.age(now);
            self.begin(loads, estimate);
            self.next = if self.solving { now + PERIOD } else { self.next };
        }
        if self.solving {
            let progress = self.program.advance(BUDGET);
            self.solving = progress == Progress::More;
            if progress == Progress::Optimal {
                self.take(loads.len());
            }
        }
    }

    fn begin(&mut self, loads: &[Load], estimate: impl Fn(usize, Class, u32) -> Option<Nanos>) {
        self.members.clear();
        self.members.extend((0..loads.len()).filter(|&i| loads[i].usable));
        let members = &self.members;
        if members.len() < 2 || loads.len() > self.times.len() || self.mix.total() < FIRST {
            return;
        }
        let fastest = |class, size| members.iter().filter_map(|&i| estimate(i, class, size)).min();
        let mut kinds = [Kind::NONE; KINDS];
        let found = self.mix.heaviest(&mut kinds, fastest);
        let total: f64 = kinds[..found].iter().map(|kind| kind.count).sum();
        let mix = kinds.map(|kind| kind.count / total);
        let time = |kind: usize, member: usize| {
            let Kind { class, size, .. } = kinds[kind];
            estimate(members[member], class, size).map(|time| time.max(SHORTEST) as f64)
        };
        self.program.begin(members.len(), &mix[..found], time);
        (self.solving, self.arrived) = (found > 0, 0);
    }

    fn take(&mut self, devices: usize) {
        let sum: f64 = (0..self.members.len()).map(|member| self.program.price(member)).sum();
        if !sum.is_normal() || sum < 0.0 {
            return;
        }
        let mean = sum / self.members.len() as f64;
        self.by_device.clear();
        self.by_device.resize(devices, 1.0);
        for (member, &device) in self.members.iter().enumerate() {
            self.by_device[device] = (self.program.price(member) / mean).max(FLOOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores that are no numbers would put the first device before all others, however busy it is.
    #[test]
    fn requests_that_take_no_time_have_a_price() {
        let times = [0, 1, 500, 1 << 40];
        let mut prices = Prices::new();
        prices.devices_changed(2);
        for (price, alike) in [([FLOOR, 2.0 - FLOOR], false), ([1.0, 1.0], true), ([2.0 - FLOOR, FLOOR], false)] {
            prices.by_device.clear();
            prices.by_device.extend(price);
            for (here, there) in times.into_iter().flat_map(|here| times.map(|there| (here, there))) {
                for backlog in [[0, 0], [1_000_000, 0], [0, 1_000_000]] {
                    let loads = backlog.map(|backlog| Load { backlog, ..Load::idle(8, 1) });
                    let time = [here, there];
                    let finish = |i: usize, time| loads[i].finish(time);
                    let chosen = prices.choose(&loads, |_| true, |i| time[i], finish).unwrap();
                    if time[0] == time[1] && alike && backlog[0] != backlog[1] {
                        assert!(backlog[chosen] == 0, "{time:?} {backlog:?}: the busy one is chosen");
                    }
                    let again = prices.best(&loads, |_| true, |i| time[i], finish);
                    assert_eq!(again, Some(chosen), "one rule for both");
                }
            }
        }
    }

    #[test]
    fn devices_whose_rates_are_nothing_are_priced_all_the_same() {
        let mut prices = Prices::new();
        prices.devices_changed(2);
        (0..2 * FIRST as u32).for_each(|_| prices.arrived(Class::NOOP, 64));
        let loads = [Load::idle(8, 1); 2];
        for now in 1..100 {
            prices.reprice(now * PERIOD, &loads, |_, _, _| Some(0));
        }
        assert!(prices.by_device.iter().all(|price| price.is_finite() && *price >= FLOOR), "{:?}", prices.by_device);
    }
}
