//! The service: the sidecore's loop step by step around core's own `Dispatch`, as the reactor drives it.
//!
//! Each step does what the reactor does between two points at which somebody else may act: it takes one answer, places
//! one request, writes the completions of a turn, rings, arms one doorbell, looks at one ring, or goes to sleep.

mod devices;
mod requests;
mod rounds;

use super::Invariant;
use super::client::{End, PARK_COST};
use super::device::{Device, Reply};
use super::hop::Thread;
use super::sabotage::Sabotage;
use super::scenario::{DevicePlan, Hops, Kind, Scenario};
use super::world::{Clock, Event, Who, World};
use sidecore_core::dispatch::record::Recorded;
use sidecore_core::dispatch::{Capability, ClientId, LaneId, Limits};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::{Balance, Rates};
use sidecore_core::policy::notify::{Ring, Waiter};
use sidecore_core::policy::order::Order;
use sidecore_core::ring::Message;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use sidecore_core::wire::Submission;
use std::collections::VecDeque;

const MAX_LANES: u32 = 64;
const HOUSEKEEPING: Nanos = 30_000;
/// A device with work that shows no progress for so long is taken away, ns.
const DEVICE_TIMEOUT: Nanos = 2_000_000;

/// What the control thread tells the sidecore.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    AddLane(u32),
    CloseLane(u32),
    SetNotify(Hops),
    SetBalance(Balance),
    SetOrder(Order),
    AddDevice(DevicePlan),
    Drain(u8),
    Remove(u8),
    Kill(u8),
    /// An answer of a device that is gone already.
    Late(u32, Reply),
}

/// A lane as its service knows it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) link: u32,
    pub(super) client: ClientId,
    pending: VecDeque<Submission>,
    outbox: Vec<Message>,
    pub(super) waits_for_device: bool,
    /// An announcement that was put off.
    pub(super) announce_at: Option<Nanos>,
}

/// What the world itself remembers of a request in flight, beside dispatch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) ticket: Ticket,
    pub(super) lane: LaneId,
    /// Number of the device; `None` while the request waits for another one.
    pub(super) device: Option<usize>,
    pub(super) cost: Nanos,
    pub(super) losses: u8,
    /// It has not been handed to its device yet.
    pub(super) kept_back: bool,
    link: u32,
    tag: u32,
    size: u32,
    class: Class,
    urgent: bool,
}

/// Where the sidecore's thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pc {
    Round,
    /// Takes answers of devices from this one on.
    Collect(usize),
    /// Serves lanes from this one on.
    Lane(usize),
    /// The completions of that lane's turn were written; goes on with the lane of that place.
    Announce(LaneId, usize),
    RingDevices,
    LookAround,
    Idle,
    /// Arms the lane of this place.
    ArmLane(usize),
    /// Looks at that lane once more.
    LookLane(usize),
    ArmDevice(usize),
    LookDevice(usize),
    /// Woke from a sleep that began then.
    Woken(Nanos),
}

/// The sidecore's state while it lives.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) thread: Thread,
    pub(super) dispatch: Recorded,
    pub(super) hops: Hops,
    pub(super) lanes: Vec<Option<Lane>>,
    pub(super) hot: Vec<LaneId>,
    /// By plan of the client: its number and lanes.
    pub(super) clients: Vec<Option<(ClientId, u32)>>,
    /// Devices of the world by number in dispatch: the latest that had it.
    pub(super) devices: Vec<u32>,
    /// Numbers of the devices that answer later.
    pub(super) remote: Vec<usize>,
    /// By place in dispatch's table.
    pub(super) held: Vec<Option<Held>>,
    pub(super) mailbox: VecDeque<Command>,
    /// When each device last answered, or was given work while it had none.
    progress: Vec<Nanos>,
    removing: Vec<bool>,
    orphans: VecDeque<Ticket>,
    waiter: Waiter,
    pc: Pc,
    /// When the sleep under way ends by itself, where the policy says so.
    nap: Option<Nanos>,
    busy: bool,
    blocked: bool,
    withheld: bool,
    share: u64,
    refilled: Vec<u64>,
    /// Requests taken in this lane's turn; `None` between turns.
    turn: Option<u32>,
    /// What an immediate device took in this step, ns.
    worked: Nanos,
    housekeeping: Nanos,
    looked_after: Nanos,
    announce: Option<Nanos>,
}

impl Service {
    pub(super) fn new(plan: &Scenario, sabotage: Option<Sabotage>, incarnation: u32, tape: Option<usize>) -> Self {
        let clients = plan.clients.len();
        let limits = Limits { lanes: MAX_LANES, clients: MAX_LANES, in_flight: plan.in_flight, quantum: plan.quantum };
        let may_spin = plan.owned || sabotage == Some(Sabotage::SpinUnowned);
        Self {
            thread: Thread { incarnation, ..Thread::default() },
            dispatch: Recorded::new(limits, plan.balance, tape),
            hops: plan.hops,
            lanes: Vec::new(),
            hot: Vec::new(),
            clients: vec![None; clients],
            devices: Vec::new(),
            remote: Vec::new(),
            held: vec![None; plan.in_flight as usize],
            mailbox: VecDeque::new(),
            progress: Vec::new(),
            removing: Vec::new(),
            orphans: VecDeque::new(),
            waiter: Waiter::new(plan.hops.service, PARK_COST, may_spin),
            pc: Pc::Round,
            nap: None,
            busy: false,
            blocked: false,
            withheld: false,
            share: 0,
            refilled: vec![0; MAX_LANES as usize],
            turn: None,
            worked: 0,
            housekeeping: 0,
            looked_after: 0,
            announce: None,
        }
    }

    /// Nothing is on its way in it.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.thread.ended && self.dispatch.total_in_flight() == 0 && self.mailbox.is_empty()
    }

    fn lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.lanes.get_mut(id.0 as usize)?.as_mut()
    }

    fn lane_of_link(&self, link: u32) -> Option<LaneId> {
        let found = self.lanes.iter().position(|lane| lane.as_ref().is_some_and(|lane| lane.link == link));
        found.map(|index| LaneId(index as u32))
    }
}

impl World<'_> {
    /// Devices and the first step of a service that was just made.
    pub(super) fn start_service(&mut self, clock: &mut Clock) {
        self.service.dispatch.set_order(self.plan.order);
        for plan in &self.plan.devices {
            self.add_device(clock, *plan);
        }
        self.go_on(clock, Who::Service);
    }

    pub(super) fn restart(&mut self, clock: &mut Clock) {
        let incarnation = self.service.thread.incarnation + 1;
        self.service = Service::new(self.plan, self.sabotage, incarnation, self.tape);
        self.say(clock.now(), || "the service starts again".to_owned());
        self.start_service(clock);
        for (tenant, lane, left) in std::mem::take(&mut self.reconnecting) {
            self.connect(clock, tenant, lane, left);
        }
    }

    /// The service's process dies, with its workers; each connection hangs up.
    pub(super) fn kill_service(&mut self, clock: &mut Clock, down: Nanos) {
        self.say(clock.now(), || "the service dies".to_owned());
        self.end(clock, Who::Service);
        let incarnation = self.service.thread.incarnation;
        for device in 0..self.devices.len() {
            if self.devices[device].service == incarnation {
                self.end(clock, Who::Device(device as u32));
            }
        }
        for link in 0..self.links.len() {
            if self.links[link].ended.is_none() && self.links[link].service == incarnation {
                let delay = clock.random().below(5_000);
                clock.after(delay, Event::HangUp(link as u32));
            }
        }
        clock.after(down, Event::Restart);
    }

    /// The control thread tells the sidecore something, and rings.
    pub(super) fn tell(&mut self, clock: &mut Clock, command: Command) {
        if !self.service.thread.ended {
            self.service.mailbox.push_back(command);
            self.wake(clock, Who::Service);
        }
    }

    /// A client's connection is closed.
    pub(super) fn connection_closed(&mut self, clock: &mut Clock, index: u32) {
        let link = &mut self.links[index as usize];
        let of_this = link.service == self.service.thread.incarnation;
        link.ended.get_or_insert(End::Died);
        if of_this {
            self.tell(clock, Command::CloseLane(index));
        }
    }

    /// Does what the control thread said.
    fn obey(&mut self, clock: &mut Clock) {
        while let Some(command) = self.service.mailbox.pop_front() {
            match command {
                Command::AddLane(link) => self.add_lane(clock, link),
                Command::CloseLane(link) => self.close_lane(link),
                Command::SetNotify(hops) => self.set_notify(clock, hops),
                Command::SetBalance(balance) => self.service.dispatch.set_balance(balance),
                Command::SetOrder(order) => self.set_order(clock, order),
                Command::AddDevice(plan) => self.add_device(clock, plan),
                Command::Drain(device) => self.drain(device),
                Command::Remove(device) => self.remove(device),
                Command::Kill(device) => self.kill(clock, device),
                Command::Late(device, reply) => self.finish_late(clock, device, reply),
            }
        }
    }

    fn add_lane(&mut self, clock: &mut Clock, link: u32) {
        let tenant = self.links[link as usize].tenant as usize;
        let plan = &self.plan.clients[tenant];
        let service = &mut self.service;
        let (client, lanes) = match service.clients[tenant] {
            Some(known) => known,
            // There is room for every connection that a run can make.
            None => (service.dispatch.add_client(plan.weight, plan.credit).unwrap_or(ClientId(0)), 0),
        };
        service.clients[tenant] = Some((client, lanes + 1));
        let Some(id) = service.dispatch.add_lane(client, service.hops.client) else { return };
        let index = id.0 as usize;
        if service.lanes.len() <= index {
            service.lanes.resize_with(index + 1, || None);
        }
        service.lanes[index] = Some(Lane {
            link,
            client,
            pending: VecDeque::new(),
            outbox: Vec::new(),
            waits_for_device: false,
            announce_at: None,
        });
        service.hot.push(id);
        self.links[link as usize].advice = service.hops.client;
        self.say(clock.now(), || format!("the service takes link {link} as lane {index}"));
    }

    fn close_lane(&mut self, link: u32) {
        let Some(id) = self.service.lane_of_link(link) else { return };
        let tenant = self.links[link as usize].tenant as usize;
        let service = &mut self.service;
        service.lanes[id.0 as usize] = None;
        service.dispatch.close_lane(id);
        service.hot.retain(|hot| *hot != id);
        if let Some((client, lanes)) = service.clients[tenant] {
            service.clients[tenant] = Some((client, lanes - 1)).filter(|(_, lanes)| *lanes > 0);
            if lanes == 1 {
                service.dispatch.remove_client(client);
            }
        }
    }

    fn set_notify(&mut self, clock: &mut Clock, hops: Hops) {
        self.service.hops = hops;
        self.service.waiter.set_policy(hops.service);
        for device in self.service.devices.clone() {
            self.set_device_hops(clock, device, hops);
        }
        for index in 0..self.service.lanes.len() {
            let Some(lane) = &self.service.lanes[index] else { continue };
            self.links[lane.link as usize].advice = hops.client;
            let id = LaneId(index as u32);
            self.service.dispatch.set_notify(id, hops.client);
            let ring = self.service.dispatch.due(clock.now(), id);
            self.ring_client(clock, id, ring);
        }
    }

    /// Wakes a lane's client now, later, or not at all.
    fn ring_client(&mut self, clock: &mut Clock, id: LaneId, ring: Ring) {
        let forget = self.sabotage == Some(Sabotage::ForgetAnnouncement);
        let service = &mut self.service;
        let Some(lane) = service.lanes.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let link = lane.link;
        lane.announce_at = None;
        match ring {
            Ring::Now => {
                let must_wake = self.links[link as usize].completion.must_wake();
                if must_wake && !self.sabotaged(clock, Sabotage::DropServiceRing, 4) {
                    self.say(clock.now(), || format!("the service rings link {link}"));
                    self.wake(clock, Who::Client(link));
                }
            }
            Ring::At(at) => {
                self.links[link as usize].completion.unrung = false;
                lane.announce_at = Some(at);
                if !forget {
                    service.announce = Some(service.announce.map_or(at, |due| due.min(at)));
                }
            }
            Ring::Nothing => self.links[link as usize].completion.unrung = false,
        }
    }

    /// Completions of a lane were written: tells its client when it is time.
    fn announce(&mut self, clock: &mut Clock, id: LaneId) {
        let ring = self.service.dispatch.announce(clock.now(), id);
        self.ring_client(clock, id, ring);
    }

    /// The time of a put-off announcement has come.
    fn announce_due(&mut self, clock: &mut Clock) {
        let now = clock.now();
        self.service.announce = None;
        for id in self.service.hot.clone() {
            let Some(at) = self.service.lane(id).and_then(|lane| lane.announce_at) else { continue };
            let ring = if at > now { Ring::At(at) } else { self.service.dispatch.due(now, id) };
            self.ring_client(clock, id, ring);
        }
    }

    fn add_device(&mut self, clock: &mut Clock, plan: DevicePlan) {
        let mut rates = Rates::new();
        for class in Class::all().filter(|class| plan.classes() >> class.index() & 1 != 0) {
            for size in [64, 4_096] {
                rates.observe(class, size, plan.time(size));
            }
        }
        let depth = if self.sabotage == Some(Sabotage::Overcommit) { plan.depth * 2 } else { plan.depth };
        let immediate = plan.kind == Kind::Inline;
        let capability = Capability { classes: plan.classes(), immediate, depth, weight: plan.weight, rates };
        let Some(number) = self.service.dispatch.add_device(capability) else { return };
        let index = self.devices.len() as u32;
        let may_spin = plan.owned || self.sabotage == Some(Sabotage::SpinUnowned);
        let incarnation = self.service.thread.incarnation;
        self.devices.push(Device::new(plan, incarnation, self.service.hops, may_spin));
        let service = &mut self.service;
        if number == service.devices.len() {
            service.devices.push(index);
            service.progress.push(0);
            service.removing.push(false);
        }
        let before = std::mem::replace(&mut service.devices[number], index);
        (service.progress[number], service.removing[number]) = (clock.now(), false);
        if !immediate {
            service.remote.push(number);
        }
        if before != index && !self.devices[before as usize].leaving {
            let what = || format!("device {index} gets the number of device {before}, which is there");
            self.fail(clock.now(), Invariant::Accounting, what);
        }
        if plan.kind == Kind::Worker {
            self.go_on(clock, Who::Device(index));
        }
        self.say(clock.now(), || format!("device {index} joins: {plan}"));
    }
}
