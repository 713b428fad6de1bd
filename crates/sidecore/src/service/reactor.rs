//! One sidecore's thread. It carries out what core's `Sidecore` decides, waits as that says, and obeys the control thread.
//!
//! It takes no lock and allocates nothing per request.

mod devices;
mod hands;
mod keys;
mod lanes;

use super::advice::Advice;
use super::calibrate::Calibration;
use super::command::{Command, Event, LaneKey, Leftover, Mailbox};
use super::record;
use crate::config::{Config, NotifyConfig, Place, Waiters};
use crate::counters::{Counters, SidecoreCounter};
use crate::device::Request;
use crate::sys::poller::Poller;
use crate::sys::{clock, cpu};
use hands::Hands;
use lanes::Lane;
use sidecore_core::dispatch::{LaneId, Limits};
use sidecore_core::sidecore::{Hops, Next, Pace, SPIN_ROUNDS, Settings, Sidecore};
use sidecore_core::time::Nanos;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Number of the wake-up channel among the poller's sources; lanes have theirs below.
const WAKE: u64 = u64::MAX;

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

/// The thread's state.
#[derive(Debug)]
pub(super) struct Reactor {
    sidecore: Sidecore<Lane, Request>,
    hands: Hands,
    /// Told to stop.
    stopping: bool,
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
        let poller = Poller::new()?;
        poller.add_edge(&*setup.wake, WAKE)?;
        let place = Place::new(setup.cpu, setup.config.sidecores.owned);
        let sidecore = Sidecore::new(&settings(&setup, place), record::room(&setup.config), clock::now());
        let mut reactor = Self { sidecore, hands: Hands::new(setup, place, free, poller), stopping: false };
        reactor.add_configured_devices()?;
        Ok(reactor)
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) {
        while self.step().is_continue() {}
        let setup = &self.hands.setup;
        if let (Some(tape), Some(path)) = (self.sidecore.end_record(), setup.config.record_path(setup.index))
            && let Err(error) = record::write(&path, *tape)
        {
            // Nobody is left who could be told, and perhaps nobody reads this either.
            let _ = writeln!(io::stderr(), "sidecore: the record {}: {error}", path.display());
        }
    }

    fn step(&mut self) -> ControlFlow<()> {
        match self.sidecore.step(&mut self.hands) {
            Next::Step => {}
            Next::Obey => return self.obey(),
            Next::Listen => self.collect_rings(Some(0)),
            Next::Spin => {
                for _ in 0..SPIN_ROUNDS {
                    if self.sidecore.is_something_ready(&self.hands) {
                        break;
                    }
                    std::hint::spin_loop();
                }
            }
            Next::Sleep { until } => {
                let now = self.sidecore.now();
                self.collect_rings(until.map(|until| until.saturating_sub(now)));
            }
        }
        ControlFlow::Continue(())
    }

    /// Waits for rings, for so long at most (ns), and reports those of lanes.
    fn collect_rings(&mut self, timeout: Option<Nanos>) {
        let Self { sidecore, hands, .. } = self;
        let mut poller = hands.poller.take();
        for number in poller.iter_mut().flat_map(|poller| poller.wait(timeout)) {
            hands.counters.add(SidecoreCounter::WakeupsReceived, u64::from(timeout != Some(0)));
            if number != WAKE {
                sidecore.rang(hands, LaneId(number as u32));
            }
        }
        hands.poller = poller;
    }

    /// Takes commands of the control thread.
    fn obey(&mut self) -> ControlFlow<()> {
        let commands: Vec<Command> = self.hands.setup.mailbox.take().collect();
        for command in commands {
            self.obey_one(command);
        }
        if self.stopping { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn obey_one(&mut self, command: Command) {
        match command {
            Command::AddLane(lane) => self.add_lane(*lane),
            Command::CloseLane(key) => {
                let left = self.close_lane(key).map(|lane| Box::new(lane) as Box<dyn Leftover>);
                self.hands.tell(Event::LaneClosed(key, left));
            }
            Command::AddSession { lane, handle, session } => {
                if let Some(lane) = self.lane_of(lane) {
                    lane.sessions.insert(handle, session);
                }
            }
            Command::CloseSession { lane, handle } => {
                self.close_session(lane, handle);
                self.hands.tell(Event::SessionClosed(lane));
            }
            Command::EndSessions(sessions) => {
                for (lane, handle) in sessions {
                    self.close_session(lane, handle);
                }
            }
            Command::SetNotify(notify) => self.set_notify(notify),
            Command::SetBalance(balance) => self.sidecore.set_balance(balance),
            Command::SetOrder(order) => self.sidecore.set_order(&mut self.hands, order),
            // The asker may have given up waiting; the device is there all the same.
            Command::AddDevice(config, answer) => {
                let _ = answer.send(self.add_device(&config).map_err(|error| error.to_string()));
            }
            Command::Device(name, action, answer) => {
                let _ = answer.send(self.device_action(&name, action));
            }
            Command::EndRecord(answer) => {
                let _ = answer.send(self.sidecore.end_record());
            }
            Command::Stop => self.stopping = true,
        }
    }

    fn close_session(&mut self, lane: LaneKey, handle: u32) {
        if let Some(lane) = self.lane_of(lane) {
            lane.sessions.close(handle);
        }
    }

    fn set_notify(&mut self, notify: NotifyConfig) {
        for port in self.hands.devices.iter().filter_map(|device| device.port.as_ref()) {
            port.set_notify(notify.to_device, notify.from_device);
        }
        for (_, lane) in self.sidecore.lanes() {
            self.hands.setup.advice.give(&lane.memory, notify.client);
        }
        self.sidecore.set_notify(&mut self.hands, hops(notify));
    }
}

fn settings(setup: &Setup, place: Place) -> Settings {
    let Config { limits, balance, order, notify, .. } = &setup.config;
    Settings {
        limits: Limits {
            lanes: limits.lanes,
            clients: limits.lanes,
            in_flight: limits.in_flight,
            quantum: Nanos::from(limits.quantum_us) * 1000,
        },
        balance: *balance,
        order: *order,
        notify: hops(*notify),
        park_cost: setup.calibration.park_cost,
        may_spin: place.may_spin,
        device_timeout: Nanos::from(limits.device_timeout_ms) * 1_000_000,
        pace: Pace::SERVICE,
    }
}

fn hops(notify: NotifyConfig) -> Hops {
    let NotifyConfig { service, to_device, from_device, client } = notify;
    Hops { client, service, to_device, from_device }
}
