//! Rounds of a sidecore, and its wait after a round without work.

use super::{Action, Devices, Event, Host, Lanes, Sidecore};
use crate::policy::notify::{Notify, Wait};
use crate::time::Nanos;
use crate::work::LaneId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundPhase {
    Round,
    Replies(usize),
    Lane(usize),
    /// The completions of that lane's turn were written; goes on with the lane of that place.
    Announce(LaneId, usize),
    Bells,
    RoundOver,
    Commands,
    Timers,
    Idle,
    Arm(usize),
    LookAgain,
    Asleep,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    housekeeping: Nanos,
    listen: Nanos,
    look: Nanos,
    pub(super) looked_after: Nanos,
    pub(super) announce: Option<Nanos>,
}

impl<L, R> Sidecore<L, R> {
    #[inline]
    pub(super) fn step<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, budget: u32) -> Action {
        match self.phase {
            RoundPhase::Round => self.begin_round(host),
            RoundPhase::Replies(from) => return self.collect(host, from),
            RoundPhase::Lane(from) => return self.serve_lanes(host, from, budget),
            RoundPhase::Announce(id, next) => {
                self.announce(host, id);
                self.phase = RoundPhase::Lane(next);
            }
            RoundPhase::Bells => {
                self.ring_devices(host);
                self.phase = RoundPhase::RoundOver;
            }
            RoundPhase::RoundOver => return self.end_round(host),
            RoundPhase::Commands => {
                // After the rings: a lane just reported is not reported again.
                self.phase = RoundPhase::Timers;
                if host.has_commands() {
                    return Action::Obey;
                }
            }
            RoundPhase::Timers => self.look_around(host),
            RoundPhase::Idle => return self.wait(host, false),
            RoundPhase::Arm(place) => self.arm(host, place),
            RoundPhase::LookAgain => {
                let found = self.rings_for_something(host);
                return self.wait(host, found);
            }
            RoundPhase::Asleep => {
                self.now = host.now();
                return self.wait(host, false);
            }
        }
        Action::Step
    }

    #[inline]
    fn begin_round<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H) {
        self.round += 1;
        self.withheld = self.blocked && !self.is_room_wasted(host);
        let rounds = self.spent.begin(self.round);
        // A user in credit whose clients have used up their parts goes on within its share of this round.
        if !self.withheld && !self.dispatch.next_turns() {
            self.share += rounds;
        }
        (self.blocked, self.busy, self.round_end) = (false, false, self.watched.len());
        self.phase = RoundPhase::Lane(0);
        if !self.remote.is_empty() || !self.orphans.is_empty() {
            self.busy = self.retry_orphans(host);
            self.now = host.now();
            self.phase = RoundPhase::Replies(0);
        }
    }

    /// The clock is read after the announcements, off the path of requests. Sampled long operations provide the time
    /// as well.
    #[inline]
    fn end_round<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H) -> Action {
        self.watched.close_gaps();
        if self.busy && self.waits.waiter.is_waiting() {
            self.now = host.now();
            self.waits.waiter.end(self.now);
        }
        if self.busy && !self.round.is_multiple_of(8) && self.now < self.timers.look {
            self.phase = RoundPhase::Round;
            return Action::Step;
        }
        self.now = host.now();
        self.timers.look = self.now + self.loop_limits.look;
        self.phase = RoundPhase::Commands;
        if self.now >= self.timers.listen && self.watched.len() < self.open_lanes {
            self.timers.listen = self.now + self.loop_limits.listen;
            return Action::Listen;
        }
        Action::Step
    }

    fn look_around<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H) {
        self.announce_due(host);
        self.dispatch.reprice(self.now);
        if self.now >= self.timers.housekeeping {
            self.timers.housekeeping = self.now + self.loop_limits.housekeeping;
            self.publish_gauges(host);
        }
        self.phase = if self.busy { RoundPhase::Round } else { RoundPhase::Idle };
    }

    fn publish_gauges<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H) {
        self.look_after_devices(host);
        self.rest_quiet_lanes(host);
        host.on(Event::Gauges(&self.gauges()));
    }

    /// One more step of the wait. `found`: something has arrived.
    fn wait<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, found: bool) -> Action {
        self.phase = RoundPhase::Round;
        match self.waits.next(self.now, found) {
            Wait::Look => {}
            Wait::Spin => return Action::Spin,
            Wait::Arm => {
                if self.wake_at(host, None).is_none() {
                    // Before a long sleep the counters are updated, and stay valid until work arrives. Before arming,
                    // since this disarms.
                    self.publish_gauges(host);
                }
                self.phase = RoundPhase::Arm(0);
            }
            Wait::Sleep { until, .. } => {
                self.phase = RoundPhase::Asleep;
                return Action::Sleep { until: self.wake_at(host, until) };
            }
            Wait::Disarm => self.disarm(host),
        }
        Action::Step
    }

    fn arm(&mut self, host: &mut impl Devices<Lane = L>, place: usize) {
        self.phase = RoundPhase::Arm(place + 1);
        if let Some(id) = self.watched.get(place) {
            if let Some(lane) = self.lanes[id.0 as usize].as_ref().filter(|lane| !lane.waits_for_device) {
                host.arm(&lane.end);
            }
        } else if let Some(device) = self.ringing_devices().get(place - self.watched.len()) {
            host.arm_device(*device);
        } else {
            self.phase = RoundPhase::LookAgain;
        }
    }

    fn rings_for_something(&self, host: &impl Devices<Lane = L>) -> bool {
        let lanes = self.watched.iter().filter_map(|id| self.lanes[id.0 as usize].as_ref());
        lanes.filter(|lane| !lane.waits_for_device).any(|lane| lane.is_ready(host))
            || self.ringing_devices().iter().any(|device| host.is_device_ready(*device))
    }

    fn disarm(&mut self, host: &mut impl Devices<Lane = L>) {
        for lane in self.watched.iter().filter_map(|id| self.lanes[id.0 as usize].as_ref()) {
            host.disarm(&lane.end);
        }
        for device in &self.remote {
            host.disarm_device(*device);
        }
    }

    /// Whether the next round would find work. Reads one word for each watched lane.
    #[inline]
    pub fn is_something_ready(&self, host: &impl Lanes<Lane = L>) -> bool {
        let ready = |id: &LaneId| self.lanes[id.0 as usize].as_ref().is_some_and(|lane| lane.is_ready(host));
        self.watched.iter().any(ready) || !self.remote.is_empty()
    }

    fn ringing_devices(&self) -> &[usize] {
        if self.device_period().is_some() { &[] } else { &self.remote }
    }

    /// Interval of looks at devices that do not wake their sidecore.
    fn device_period(&self) -> Option<Nanos> {
        match self.notify.from_device {
            Notify::Timer { period } => Some(period),
            _ => None,
        }
    }

    fn wake_at(&self, host: &impl Devices, until: Option<Nanos>) -> Option<Nanos> {
        let busy = self.dispatch.total_in_flight() > 0;
        let housekeeping = busy.then_some(self.timers.housekeeping);
        let look = self.device_period().filter(|_| busy).map(|period| self.now.saturating_add(period));
        [until, housekeeping, look, self.device_due(host), self.timers.announce].into_iter().flatten().min()
    }

    /// The time of a device's next answer, if it is known and wakes the sidecore. Under a timer there are no
    /// wake-ups.
    fn device_due(&self, host: &impl Devices) -> Option<Nanos> {
        if self.device_period().is_some() {
            return None;
        }
        self.remote.iter().filter_map(|device| host.due(*device)).min()
    }
}
