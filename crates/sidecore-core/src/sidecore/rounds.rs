//! One round after the other, and how a sidecore waits when one found nothing.

use super::{Defect, Host, Next, Sidecore};
use crate::policy::notify::{Forecast, Notify, Step};
use crate::time::Nanos;
use crate::work::LaneId;

/// What the next step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Round,
    /// Takes answers of devices from this place on.
    Replies(usize),
    /// Serves lanes from this place on.
    Lane(usize),
    /// The completions of that lane's turn were written; goes on with the lane of that place.
    Announce(LaneId, usize),
    /// Wakes the devices that were given work.
    Bells,
    RoundOver,
    /// Rings were asked for; what the sidecore was told comes next.
    Told,
    /// Everything else that must not wait for long.
    Timers,
    /// Finds out how to wait.
    Idle,
    /// Arms what is at this place, lanes first and devices behind them, for a sleep that ends by then.
    Arm(usize, Option<Nanos>),
    /// Looks at it once more.
    LookAgain(usize, Option<Nanos>),
    /// Sleeps since then; what was armed is to be disarmed.
    Asleep {
        since: Nanos,
        armed: bool,
    },
}

/// The times at which something is to be looked at again, ns.
#[derive(Debug, Default)]
pub(super) struct Timers {
    housekeeping: Nanos,
    listen: Nanos,
    look: Nanos,
    /// When devices were last looked after.
    pub(super) looked_after: Nanos,
    /// The earliest announcement that was put off.
    pub(super) announce: Option<Nanos>,
}

impl<L, J> Sidecore<L, J> {
    /// One step.
    #[inline]
    pub(super) fn advance<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H) -> Next {
        match self.at {
            At::Round => self.begin_round(host),
            At::Replies(from) => return self.collect(host, from),
            At::Lane(from) => return self.serve_lanes(host, from),
            At::Announce(id, next) => {
                self.announce(host, id);
                self.at = At::Lane(next);
            }
            At::Bells => {
                self.ring_devices(host);
                self.at = At::RoundOver;
            }
            At::RoundOver => return self.end_round(host),
            At::Told => {
                // After the rings: what was rung for is not rung for again.
                self.at = At::Timers;
                if host.has_mail() {
                    return Next::Obey;
                }
            }
            At::Timers => self.look_around(host),
            At::Idle => return self.idle(host),
            At::Arm(place, until) => return self.arm(host, place, until),
            At::LookAgain(place, until) => self.look_again(host, place, until),
            At::Asleep { since, armed } => {
                self.now = host.now();
                self.waiter.parked(since, self.now);
                if armed {
                    self.disarm(host);
                }
                self.at = At::Round;
            }
        }
        Next::Step
    }

    #[inline]
    fn begin_round<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H) {
        self.round += 1;
        self.withheld = self.blocked && !self.is_room_wasted(host);
        self.share += u64::from(!self.withheld);
        (self.blocked, self.busy, self.round_end) = (false, false, self.watched.len());
        self.at = At::Lane(0);
        if !self.remote.is_empty() || !self.orphans.is_empty() {
            self.busy = self.retry_orphans(host);
            self.now = host.now();
            self.at = At::Replies(0);
        }
    }

    /// The clock is read after the work was announced, off its path; long operations are sampled and bring the time along.
    #[inline]
    fn end_round<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H) -> Next {
        if self.busy && self.waiter.is_waiting() {
            self.now = host.now();
            self.waiter.end(self.now);
        }
        if self.busy && !self.round.is_multiple_of(8) && self.now < self.timers.look {
            self.at = At::Round;
            return Next::Step;
        }
        self.now = host.now();
        self.timers.look = self.now + self.pace.look;
        self.at = At::Told;
        if self.now >= self.timers.listen && self.watched.len() < self.open_lanes {
            self.timers.listen = self.now + self.pace.listen;
            return Next::Listen;
        }
        Next::Step
    }

    /// Everything that is not the hot path but must not wait for long.
    fn look_around<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H) {
        self.announce_due(host);
        self.dispatch.reprice(self.now);
        if self.now >= self.timers.housekeeping {
            self.timers.housekeeping = self.now + self.pace.housekeeping;
            self.keep_house(host);
        }
        self.at = if self.busy { At::Round } else { At::Idle };
    }

    fn keep_house<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H) {
        self.look_after_devices(host);
        self.rest_quiet_lanes(host);
        host.keep_house(&self.house());
    }

    fn idle<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H) -> Next {
        let predicts = self.notify.service == Notify::Predict;
        self.waiter.begin(self.now);
        if let Some(at) = self.device_due(host).filter(|_| predicts) {
            self.waiter.expect(Forecast { at, sigma: 0 });
        }
        match self.waiter.step(self.now) {
            Step::Spin => {
                self.at = At::Round;
                return Next::Spin;
            }
            // A device may be waited for at a known time, a request may come before: it rings.
            Step::Nap { until } if predicts => self.at = At::Arm(0, Some(until)),
            Step::Nap { until } => return self.sleep(host, Some(until), false),
            Step::Park => {
                if self.wake_at(host, None).is_none() {
                    // Nothing is going on: the counters are true until something does. Before arming, for this disarms.
                    self.keep_house(host);
                }
                self.at = At::Arm(0, None);
            }
        }
        Next::Step
    }

    /// Arms the next lane that does not wait for a device, then each device, and sleeps when all are armed.
    fn arm<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H, from: usize, until: Option<Nanos>) -> Next {
        let (lanes, watched) = (&self.lanes, &self.watched);
        for (place, id) in watched.iter().enumerate().skip(from) {
            if let Some(lane) = lanes[id.0 as usize].as_ref().filter(|lane| !lane.waits_for_device) {
                host.arm(&lane.end);
                self.at = At::LookAgain(place, until);
                return Next::Step;
            }
        }
        let place = from.max(watched.len());
        match self.remote.get(place - watched.len()) {
            // Under a timer it is the sidecore that looks at its devices.
            Some(device) if self.device_period().is_none() => {
                host.arm_device(*device);
                self.at = At::LookAgain(place, until);
                Next::Step
            }
            _ => self.sleep(host, until, true),
        }
    }

    /// What is armed is looked at once more: what came before the arming was not rung for.
    fn look_again<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H, place: usize, until: Option<Nanos>) {
        let lane = self.watched.get(place).and_then(|id| self.lanes[id.0 as usize].as_ref());
        let found = match lane {
            Some(lane) => lane.is_ready(host),
            None => self.remote.get(place - self.watched.len()).is_some_and(|device| host.is_device_ready(*device)),
        };
        self.at = At::Arm(place + 1, until);
        if found && !host.has(Defect::ArmAfterLook) {
            self.disarm(host);
            self.at = At::Round;
        }
    }

    fn disarm<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H) {
        for lane in self.watched.iter().filter_map(|id| self.lanes[id.0 as usize].as_ref()) {
            host.disarm(&lane.end);
        }
        for device in &self.remote {
            host.disarm_device(*device);
        }
    }

    /// Sleeps until something rings or it is time for something.
    fn sleep<H: Host<Lane = L, Job = J>>(&mut self, host: &mut H, until: Option<Nanos>, armed: bool) -> Next {
        let until = self.wake_at(host, until);
        self.at = At::Asleep { since: self.now, armed };
        Next::Sleep { until }
    }

    /// Whether the next round would find work. Reads one word for each lane that is looked at.
    #[inline]
    pub fn is_something_ready<H: Host<Lane = L, Job = J>>(&self, host: &H) -> bool {
        let ready = |id: &LaneId| self.lanes[id.0 as usize].as_ref().is_some_and(|lane| lane.is_ready(host));
        self.watched.iter().any(ready) || !self.remote.is_empty()
    }

    /// How often devices are looked at that do not wake their sidecore.
    fn device_period(&self) -> Option<Nanos> {
        match self.notify.from_device {
            Notify::Timer { period } => Some(period),
            _ => None,
        }
    }

    /// The next instant at which there is something to do, whether something rings or not.
    fn wake_at<H: Host<Lane = L, Job = J>>(&self, host: &H, until: Option<Nanos>) -> Option<Nanos> {
        let busy = self.dispatch.total_in_flight() > 0;
        let housekeeping = busy.then_some(self.timers.housekeeping);
        let look = self.device_period().filter(|_| busy).map(|period| self.now.saturating_add(period));
        [until, housekeeping, look, self.device_due(host), self.timers.announce].into_iter().flatten().min()
    }

    /// When the next answer of a device is due, as far as that is known and wakes: under a timer nobody wakes.
    fn device_due<H: Host<Lane = L, Job = J>>(&self, host: &H) -> Option<Nanos> {
        if self.device_period().is_some() {
            return None;
        }
        self.remote.iter().filter_map(|device| host.due(*device)).min()
    }
}
