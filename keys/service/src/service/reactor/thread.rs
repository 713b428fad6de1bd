//! The loop of a sidecore's thread, and commands of the control thread to it.

use super::Setup;
use super::host::ReactorHost;
use crate::config::{Config, NotifyConfig};
use crate::device::Request;
use crate::events;
use crate::service::command::{Event, Lane, LaneKey, Mailbox};
use crate::service::sessions::Sessions;
use sidecore_core::dispatch::record::Tape;
use sidecore_core::dispatch::{LaneId, Limits};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::ThreadCore;
use sidecore_core::sidecore::{Action, LoopLimits, NewLane, SPIN_ROUNDS, Settings, Sidecore, WaitPolicies};
use sidecore_core::time::Nanos;
use sidecore_counters::SidecoreCounter;
use sidecore_daemon::sys::cpu;
use sidecore_daemon::sys::poller::Poller;
use sidecore_ipc::sys::clock;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Number of the wake-up channel among the poller's sources; lanes have smaller ones.
const WAKE: u64 = u64::MAX;

#[derive(Debug)]
pub(in crate::service) struct Reactor {
    pub(super) sidecore: Sidecore<Lane, Request>,
    pub(super) host: ReactorHost,
    mailbox: Mailbox<Self>,
    stopping: bool,
}

impl Reactor {
    /// Called on the sidecore's own thread.
    pub(in crate::service) fn start(setup: Setup, mailbox: Mailbox<Self>) -> io::Result<Self> {
        // Before this thread is tied to its core: threads that it starts would be tied to the same one.
        let allowed = cpu::allowed();
        let free = setup.config.waiters(&allowed).free(&allowed);
        if let Some(cpu) = setup.cpu {
            cpu::pin(cpu)?;
        }
        cpu::precise_sleep();
        let poller = Poller::new()?;
        poller.add_edge(&*setup.wake, WAKE)?;
        let place = ThreadCore::new(setup.cpu, setup.config.sidecores.owned);
        // Words of tape.
        let room = setup.config.record.as_ref().map(|_| (setup.config.record_mib as usize) << 20 >> 3);
        let sidecore = Sidecore::new(&settings(&setup, place), room, clock::now());
        let host = ReactorHost::new(setup, place, free, poller);
        let mut reactor = Self { sidecore, host, mailbox, stopping: false };
        reactor.host.publish_park();
        reactor.add_configured_devices().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        Ok(reactor)
    }

    pub(in crate::service) fn run(mut self) {
        while self.step().is_continue() {}
        let setup = &self.host.setup;
        if let (Some(tape), Some(path)) = (self.sidecore.end_record(), setup.config.record_path(setup.index))
            && let Err(error) = write_record(&path, *tape)
        {
            events::record_not_written(&path, &error);
        }
    }

    fn step(&mut self) -> ControlFlow<()> {
        match self.sidecore.advance(&mut self.host, u32::MAX) {
            Action::Step => {}
            Action::Obey => return self.obey(),
            Action::Listen => self.collect_rings(Some(0)),
            Action::Spin => {
                for _ in 0..SPIN_ROUNDS {
                    if self.sidecore.is_something_ready(&self.host) {
                        break;
                    }
                    std::hint::spin_loop();
                }
            }
            Action::Sleep { until } => {
                let now = self.sidecore.now();
                self.collect_rings(until.map(|until| until.saturating_sub(now)));
            }
        }
        ControlFlow::Continue(())
    }

    /// Waits for rings, for at most `timeout` ns, and reports those of lanes.
    fn collect_rings(&mut self, timeout: Option<Nanos>) {
        let Self { sidecore, host, .. } = self;
        let mut poller = host.poller.take();
        for number in poller.iter_mut().flat_map(|poller| poller.wait(timeout)) {
            host.counters.add(SidecoreCounter::WakeupsReceived, u64::from(timeout != Some(0)));
            if number != WAKE {
                sidecore.rang(host, LaneId(number as u32));
            }
        }
        host.poller = poller;
    }

    fn obey(&mut self) -> ControlFlow<()> {
        let commands: Vec<_> = self.mailbox.take().collect();
        for command in commands {
            command(self);
        }
        if self.stopping { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(in crate::service) fn stop(&mut self) {
        self.stopping = true;
    }

    pub(in crate::service) fn add_lane(&mut self, new: NewLane<Lane>) {
        let key = new.end.key;
        // Its maker may have written to it before this machine was measured.
        self.host.setup.advice.give(&new.end.memory, self.sidecore.notify().client);
        let id = match self.sidecore.add_lane(new) {
            Ok(id) => id,
            Err(lane) => return self.host.tell(Event::NoRoom(key, Box::new(lane))),
        };
        self.host.keys.insert(key, id);
        let (Some(lane), Some(poller)) = (self.sidecore.lane_mut(id), &self.host.poller) else { return };
        // Adding a pipe of our own fails only for lack of memory; then the lane cannot be served.
        if poller.add_edge(&lane.doorbell, u64::from(id.0)).is_err()
            && let Some(lane) = self.close_lane(key)
        {
            self.host.tell(Event::NoRoom(key, Box::new(lane)));
        }
    }

    /// The rest of the lane is freed on another thread: unmapping can take long.
    fn close_lane(&mut self, key: LaneKey) -> Option<Lane> {
        let id = *self.host.keys.get(&key)?;
        let lane = self.sidecore.close_lane(id)?;
        self.host.ignore_doorbell(&lane);
        Some(lane)
    }

    pub(in crate::service) fn end_lane(&mut self, key: LaneKey) {
        let left = self.close_lane(key).map(Box::new);
        self.host.tell(Event::LaneClosed(key, left));
    }

    pub(in crate::service) fn sessions(&mut self, lane: LaneKey) -> Option<&mut Sessions> {
        let id = *self.host.keys.get(&lane)?;
        self.sidecore.lane_mut(id).map(|lane| &mut lane.sessions)
    }

    pub(in crate::service) fn close_session(&mut self, lane: LaneKey, handle: u32) {
        self.sessions(lane).and_then(|sessions| sessions.close(handle));
        self.host.tell(Event::SessionClosed(lane));
    }

    pub(in crate::service) fn calibrated(&mut self) {
        let park = self.host.setup.calibration.park();
        self.host.publish_park();
        self.sidecore.set_park_times(park.cost, park.wake);
        for (_, lane) in self.sidecore.lanes() {
            self.host.setup.advice.give(&lane.memory, self.sidecore.notify().client);
        }
        self.calibrate_devices(park);
    }

    pub(in crate::service) fn set_balance(&mut self, balance: Balance) {
        self.sidecore.set_balance(balance);
    }

    pub(in crate::service) fn end_record(&mut self) -> Option<Box<Tape>> {
        self.sidecore.end_record()
    }

    pub(in crate::service) fn set_notify(&mut self, notify: NotifyConfig) {
        for port in self.host.devices.iter().filter_map(|device| device.port.as_ref()) {
            port.set_notify(notify.to_device, notify.from_device);
        }
        for (_, lane) in self.sidecore.lanes() {
            self.host.setup.advice.give(&lane.memory, notify.client);
        }
        self.sidecore.set_notify(&mut self.host, wait_policies(notify));
    }
}

fn settings(setup: &Setup, place: ThreadCore) -> Settings {
    let Config { limits, balance, notify, .. } = &setup.config;
    Settings {
        limits: Limits {
            lanes: limits.lanes,
            clients: limits.lanes,
            in_flight: limits.in_flight,
            quantum: Nanos::from(limits.quantum_us) * 1000,
            deferred: Limits::usually_deferred(limits.in_flight),
        },
        balance: *balance,
        notify: wait_policies(*notify),
        park_cost: setup.calibration.park().cost,
        wake_time: setup.calibration.park().wake,
        may_spin: place.may_spin,
        device_timeout: Nanos::from(limits.device_timeout_ms) * 1_000_000,
        loop_limits: LoopLimits::SERVICE,
    }
}

fn wait_policies(notify: NotifyConfig) -> WaitPolicies {
    let NotifyConfig { service, to_device, from_device, client } = notify;
    WaitPolicies { client, service, to_device, from_device }
}

pub(in crate::service) fn write_record(path: &Path, tape: Tape) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut file = BufWriter::new(file);
    for word in tape.into_words() {
        file.write_all(&word.to_le_bytes())?;
    }
    file.flush()
}
