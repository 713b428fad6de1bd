//! One sidecore: a thread that looks at lanes and devices, does what `dispatch` decides, and waits as it is told to.
//!
//! It takes no lock and allocates nothing per request. Lanes that were quiet for a while are not looked at: they are
//! armed, and their doorbell brings them back, so a thousand idle lanes cost a busy one nothing.

mod devices;
mod keys;
mod lanes;
mod requests;

use super::advice::Advice;
use super::calibrate::Calibration;
use super::closer::Leftover;
use super::command::{ClientKey, Command, Event, LaneKey, Mailbox};
use super::record;
use crate::config::{Config, NotifyConfig, Place, Waiters};
use crate::counters::{Counters, DeviceBlock, KeyBlock, SidecoreBlock, SidecoreCounter};
use crate::device::{Job, Port};
use crate::engine::execute::Scratch;
use crate::sys::poller::Poller;
use crate::sys::{clock, cpu, wake};
use lanes::Lane;
use sidecore_core::dispatch::record::Recorded;
use sidecore_core::dispatch::{ClientId, LaneId, Limits};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::notify::{Forecast, Notify, Step, Waiter};
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Number of the wake-up channel among the poller's sources; lanes have theirs below.
const WAKE: u64 = u64::MAX;
/// So many lanes are looked at without end; of more, the quiet ones go dormant.
const WATCHED_LANES: usize = 8;
/// A lane without traffic for so long is quiet, ns.
const QUIET: Nanos = 1_000_000;
/// How often a busy sidecore looks whether dormant lanes rang, ns.
const RING_CHECK: Nanos = 20_000;
/// How often counters are brought up to date and devices are looked after, ns.
const HOUSEKEEPING: Nanos = 10_000_000;
/// How long a busy sidecore may work, as far as it knows the time, before it looks around, ns.
const LOOK: Nanos = 20_000;
/// Rounds over empty lanes between two looks at the clock.
const SPIN_ROUNDS: u32 = 16;

/// What a sidecore is started with.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) index: usize,
    pub(super) cpu: Option<usize>,
    pub(super) config: Config,
    pub(super) calibration: Arc<Calibration>,
    pub(super) counters: Arc<Counters>,
    pub(super) mailbox: Mailbox,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) events: Sender<Event>,
    /// Wakes the control thread, after an event.
    pub(super) listener: Arc<OwnedFd>,
    pub(super) advice: Advice,
}

/// One device as its sidecore knows it.
#[derive(Debug)]
struct Device {
    name: String,
    port: Port,
    counters: DeviceBlock,
    /// When it last answered, or was given work while it had none.
    progress_at: Nanos,
    /// Taken away as soon as it is empty.
    removing: bool,
    /// Requests handed to it, and bytes of their input.
    handed: (u64, u64),
}

/// The times at which something is to be looked at again.
#[derive(Debug, Default)]
struct Timers {
    housekeeping: Nanos,
    ring_check: Nanos,
    look: Nanos,
    /// When devices were last looked after.
    looked_after: Nanos,
    /// The earliest announcement that was put off.
    announce: Option<Nanos>,
}

/// The thread's state.
#[derive(Debug)]
pub(super) struct Reactor {
    setup: Setup,
    notify: NotifyConfig,
    dispatch: Recorded,
    /// By lane number.
    lanes: Vec<Option<Box<Lane>>>,
    keys: HashMap<LaneKey, LaneId>,
    clients: HashMap<ClientKey, (ClientId, u32)>,
    /// Lanes that are looked at.
    hot: Vec<LaneId>,
    /// Counts rounds.
    round: u64,
    /// Numbers the shares that are handed out, one to each client; by client, which one it had last.
    share: u64,
    refilled: Vec<u64>,
    /// A client within its share found no room on any device that can do its request.
    blocked: bool,
    devices: Vec<Device>,
    /// Cores for workers that are tied to none.
    free: Vec<usize>,
    /// Devices that answer later, by number.
    remote: Vec<usize>,
    /// What remote devices have, by ticket number.
    jobs: Vec<Option<Job>>,
    /// Requests of dead devices that no other has room for yet.
    orphans: VecDeque<Ticket>,
    /// No new shares are handed out in this round.
    withheld: bool,
    scratch: Scratch,
    /// Largest input or output of one request, bytes.
    max_request: u64,
    /// Told to stop.
    stopping: bool,
    poller: Poller,
    waiter: Waiter,
    now: Nanos,
    timers: Timers,
    counters: SidecoreBlock,
    /// Where this sidecore counts for stored keys, by their places.
    stored_keys: Vec<KeyBlock>,
    /// Requests and bytes since the last housekeeping, by class.
    tally: Vec<(u64, u64)>,
}

impl Reactor {
    /// Called on the sidecore's own thread.
    pub(super) fn start(setup: Setup) -> io::Result<Self> {
        // Before this thread is tied to its core: threads that it starts would be tied to the same one.
        let allowed = cpu::allowed();
        let free = Waiters::of(&setup.config, &allowed).free(&allowed);
        if let Some(cpu) = setup.cpu {
            cpu::pin(cpu)?;
        }
        cpu::precise_sleep();
        let limits = &setup.config.limits;
        let tables = Limits {
            lanes: limits.lanes,
            clients: limits.lanes,
            in_flight: limits.in_flight,
            quantum: Nanos::from(limits.quantum_us) * 1000,
        };
        let poller = Poller::new()?;
        poller.add_edge(&*setup.wake, WAKE)?;
        let counters = setup.counters.sidecore(setup.index);
        let stored_keys = (0..limits.keys as usize).map(|place| setup.counters.key(setup.index, place)).collect();
        let place = Place::new(setup.cpu, setup.config.sidecores.owned);
        counters.open(place);
        let notify = setup.config.notify;
        let mut reactor = Self {
            notify,
            dispatch: Recorded::new(tables, setup.config.balance, record::room(&setup.config)),
            lanes: Vec::with_capacity(limits.lanes as usize),
            keys: HashMap::new(),
            clients: HashMap::new(),
            hot: Vec::with_capacity(limits.lanes as usize),
            round: 0,
            share: 0,
            blocked: false,
            refilled: vec![0; limits.lanes as usize],
            devices: Vec::new(),
            free,
            remote: Vec::new(),
            jobs: (0..limits.in_flight).map(|_| None).collect(),
            orphans: VecDeque::with_capacity(limits.in_flight as usize),
            withheld: false,
            scratch: Scratch::new(limits.max_request_bytes),
            max_request: u64::from(limits.max_request_bytes),
            stopping: false,
            poller,
            waiter: Waiter::new(notify.service, setup.calibration.park_cost, place.may_spin),
            now: clock::now(),
            timers: Timers::default(),
            counters,
            stored_keys,
            tally: vec![(0, 0); Class::COUNT],
            setup,
        };
        reactor.dispatch.set_order(reactor.setup.config.order);
        reactor.add_configured_devices()?;
        Ok(reactor)
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) {
        while self.turn().is_continue() {}
        if let (Some(tape), Some(path)) = (self.dispatch.end_record(), self.setup.config.record_path(self.setup.index))
            && let Err(error) = record::write(&path, *tape)
        {
            // Nobody is left who could be told, and perhaps nobody reads this either.
            let _ = writeln!(io::stderr(), "sidecore: the record {}: {error}", path.display());
        }
    }

    /// One round, and a wait if it found nothing.
    fn turn(&mut self) -> ControlFlow<()> {
        if self.serve_round() {
            if self.waiter.is_waiting() {
                self.now = clock::now();
                self.waiter.end(self.now);
            }
            self.busy_turn()
        } else {
            self.idle_turn()
        }
    }

    /// Between two rounds that found work. The clock is read after the work was announced, off its path; long operations
    /// are sampled and bring the time along.
    fn busy_turn(&mut self) -> ControlFlow<()> {
        if !self.round.is_multiple_of(8) && self.now < self.timers.look {
            return ControlFlow::Continue(());
        }
        self.now = clock::now();
        self.timers.look = self.now + LOOK;
        self.look_around()
    }

    fn idle_turn(&mut self) -> ControlFlow<()> {
        self.now = clock::now();
        self.look_around()?;
        self.waiter.begin(self.now);
        self.expect_devices();
        match self.waiter.step(self.now) {
            Step::Spin => {
                for _ in 0..SPIN_ROUNDS {
                    if self.something_ready() {
                        break;
                    }
                    std::hint::spin_loop();
                }
            }
            // A device may be waited for at a known time, a request may come before: it rings.
            Step::Nap { until } if self.notify.service == Notify::Predict => self.sleep_armed(Some(until)),
            Step::Nap { until } => self.sleep(Some(until)),
            Step::Park => {
                if self.wake_at(None).is_none() {
                    // Nothing is going on: the counters are true until something does. Before arming, for this disarms.
                    self.keep_house();
                }
                self.sleep_armed(None);
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells the waiter when the next answer of a device is due, where that is known.
    fn expect_devices(&mut self) {
        if self.notify.service == Notify::Predict
            && let Some(at) = self.device_due()
        {
            self.waiter.expect(Forecast { at, sigma: 0 });
        }
    }

    /// Everything that is not the hot path but must not wait for long.
    fn look_around(&mut self) -> ControlFlow<()> {
        if self.now >= self.timers.ring_check && self.hot.len() < self.keys.len() {
            self.timers.ring_check = self.now + RING_CHECK;
            self.collect_rings(Some(0));
        }
        // After that: what was rung for is not rung for again.
        self.obey()?;
        if self.timers.announce.is_some_and(|due| self.now >= due) {
            self.announce_due();
        }
        self.dispatch.reprice(self.now);
        if self.now >= self.timers.housekeeping {
            self.timers.housekeeping = self.now + HOUSEKEEPING;
            self.keep_house();
        }
        ControlFlow::Continue(())
    }

    /// Takes commands of the control thread.
    fn obey(&mut self) -> ControlFlow<()> {
        if self.setup.mailbox.has_mail() {
            let commands: Vec<Command> = self.setup.mailbox.take().collect();
            for command in commands {
                self.obey_one(command);
            }
        }
        if self.stopping { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn obey_one(&mut self, command: Command) {
        match command {
            Command::AddLane(lane) => self.add_lane(*lane),
            Command::CloseLane(key) => {
                let left = self.close_lane(key).map(|lane| lane as Box<dyn Leftover>);
                self.tell(Event::LaneClosed(key, left));
            }
            Command::AddSession { lane, handle, session } => {
                if let Some(lane) = self.lane_of(lane) {
                    lane.sessions.insert(handle, session);
                }
            }
            Command::CloseSession { lane, handle } => {
                if let Some(lane) = self.lane_of(lane) {
                    lane.sessions.close(handle);
                }
                self.tell(Event::SessionClosed(lane));
            }
            Command::EndSessions(sessions) => {
                for (lane, handle) in sessions {
                    if let Some(lane) = self.lane_of(lane) {
                        lane.sessions.close(handle);
                    }
                }
            }
            Command::SetNotify(notify) => self.set_notify(notify),
            Command::SetBalance(balance) => self.dispatch.set_balance(balance),
            Command::SetOrder(order) => self.set_order(order),
            // The asker may have given up waiting; the device is there all the same.
            Command::AddDevice(config, answer) => {
                let _ = answer.send(self.add_device(&config).map_err(|error| error.to_string()));
            }
            Command::Device(name, action, answer) => {
                let _ = answer.send(self.device_action(&name, action));
            }
            Command::EndRecord(answer) => {
                let _ = answer.send(self.dispatch.end_record());
            }
            Command::Stop => self.stopping = true,
        }
    }

    fn set_notify(&mut self, notify: NotifyConfig) {
        self.notify = notify;
        self.waiter.set_policy(notify.service);
        for device in &self.devices {
            device.port.set_notify(notify.to_device, notify.from_device);
        }
        for index in 0..self.lanes.len() {
            if let Some(lane) = &self.lanes[index] {
                self.setup.advice.give(&lane.memory, notify.client);
                self.dispatch.set_notify(LaneId(index as u32), notify.client);
                self.announce(LaneId(index as u32));
            }
        }
    }

    /// Whether the next round would find work. Reads one word for each lane that is looked at.
    #[inline]
    fn something_ready(&mut self) -> bool {
        let lanes = &self.lanes;
        let ready = |id: &LaneId| lanes[id.0 as usize].as_ref().is_some_and(|lane| lane.ready());
        self.hot.iter().any(ready) || !self.remote.is_empty()
    }

    /// Arms every doorbell. `false`: something is there already.
    fn arm(&mut self) -> bool {
        for id in &self.hot {
            if let Some(lane) = &self.lanes[id.0 as usize]
                && !lane.waits_for_device
                && !lane.arm()
            {
                return false;
            }
        }
        // Under a timer it is the sidecore that looks at its devices.
        self.device_period().is_some() || self.remote.iter().all(|device| self.devices[*device].port.arm())
    }

    /// How often devices are looked at that do not wake their sidecore.
    fn device_period(&self) -> Option<Nanos> {
        match self.notify.from_device {
            Notify::Timer { period } => Some(period),
            _ => None,
        }
    }

    fn disarm(&mut self) {
        for id in &self.hot {
            if let Some(lane) = &self.lanes[id.0 as usize] {
                lane.disarm();
            }
        }
        for device in &self.remote {
            self.devices[*device].port.disarm();
        }
    }

    fn sleep_armed(&mut self, until: Option<Nanos>) {
        if self.arm() {
            self.sleep(until);
        }
        self.disarm();
    }

    /// Sleeps until something rings or it is time for something.
    fn sleep(&mut self, until: Option<Nanos>) {
        let before = self.now;
        let timeout = self.wake_at(until).map(|at| at.saturating_sub(before));
        self.collect_rings(timeout);
        self.now = clock::now();
        self.waiter.parked(before, self.now);
    }

    /// The next instant at which there is something to do, whether something rings or not.
    fn wake_at(&self, until: Option<Nanos>) -> Option<Nanos> {
        let busy = self.dispatch.total_in_flight() > 0;
        let housekeeping = busy.then_some(self.timers.housekeeping);
        let look = self.device_period().filter(|_| busy).map(|period| self.now.saturating_add(period));
        [until, housekeeping, look, self.device_due(), self.timers.announce].into_iter().flatten().min()
    }

    /// When the next answer of a device is due, as far as that is known and wakes: under a timer nobody wakes.
    fn device_due(&self) -> Option<Nanos> {
        if self.device_period().is_some() {
            return None;
        }
        self.remote.iter().filter_map(|device| self.devices[*device].port.due()).min()
    }

    /// Takes back the dormant lanes that rang.
    fn collect_rings(&mut self, timeout: Option<Nanos>) {
        let (lanes, hot, now) = (&mut self.lanes, &mut self.hot, self.now);
        for number in self.poller.wait(timeout) {
            self.counters.add(SidecoreCounter::WakeupsReceived, u64::from(timeout != Some(0)));
            if number == WAKE {
                continue;
            }
            if let Some(lane) = lanes.get_mut(number as usize).and_then(Option::as_mut)
                && lane.waken(now)
            {
                hot.push(LaneId(number as u32));
            }
        }
    }

    fn keep_house(&mut self) {
        self.look_after_devices();
        self.rest_quiet_lanes();
        let counters = &self.counters;
        counters.audit(self.waiter.audit());
        counters.set(SidecoreCounter::CpuNs, clock::thread_cpu());
        counters.set(SidecoreCounter::Rounds, self.round);
        counters.set(SidecoreCounter::Lanes, self.keys.len() as u64);
        counters.set(SidecoreCounter::DormantLanes, (self.keys.len() - self.hot.len()) as u64);
        for (device, state) in self.devices.iter().enumerate() {
            state.publish(&self.dispatch, device);
        }
        self.publish_tally();
    }

    /// Reports an event to the control thread.
    fn tell(&self, event: Event) {
        // Without a control thread the service is ending.
        if self.setup.events.send(event).is_ok() {
            wake::ring(&*self.setup.listener);
        }
    }
}
