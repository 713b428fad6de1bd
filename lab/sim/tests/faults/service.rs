//! The service: core's own `Sidecore`, one step after the other in simulated time.
//!
//! Between two steps another actor may run: after taking an answer, placing a request, writing the completions of a turn,
//! notifying a client, arming a doorbell, checking a ring.

mod faulty;
mod host;

use super::Invariant;
use super::client::{End, Link, PARK_COST};
use super::device::Device;
use super::hop::Thread;
use super::mutation::Mutation;
use super::scenario::{DEVICE_TIMEOUT, DevicePlan, Fault, Kind, Scenario};
use super::world::{Actor, Clock, SimEvent, Watch, World, pick};
use faulty::Injection;
use host::SimHost;
use sidecore_core::dispatch::{Capability, DeviceState, LaneId, Limits, UserShare, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Rates;
use sidecore_core::sidecore::{Action, Lanes, LoopLimits, NewLane, Reply, Settings, Sidecore, WaitPolicies};
use sidecore_core::time::Nanos;
use sidecore_sim::engine;
use std::collections::VecDeque;

const MAX_LANES: u32 = 64;
/// Limit, exclusive, of requests deferred for a full device under `priced`.
const MAX_DEFERRED: u32 = 8;
/// Factor of the first user's weight under [`Mutation::IgnoreShare`].
const FAVOUR: u32 = 100;
/// Names of users under [`Mutation::ShareByClient`] begin above those of the plan.
const CLIENTS: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    AddLane(u32),
    CloseLane(u32),
    Set(Fault),
    Late(u32, Reply),
}

/// A request on a device, or one that waits for a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) link: u32,
    pub(super) tag: u32,
    pub(super) size: u32,
    pub(super) urgent: bool,
}

/// The world's own record of a request in flight, apart from dispatch's.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    ticket: Ticket,
    pub(super) work: Work,
    /// Number of the device; `None` while the request waits for another one.
    pub(super) device: Option<usize>,
    pub(super) cost: Nanos,
    losses: u8,
    handed: bool,
}

#[derive(Debug)]
pub(super) struct Service {
    pub(super) thread: Thread,
    pub(super) hops: WaitPolicies,
    /// Devices of the world by number in dispatch: the latest that had it.
    pub(super) devices: Vec<u32>,
    /// By place in dispatch's table.
    pub(super) in_flight: Vec<Option<InFlight>>,
    pub(super) mailbox: VecDeque<Command>,
    pub(super) rung: Vec<u32>,
    /// It sleeps, or was woken: its next step reads notifications.
    listens: bool,
    /// Time of an immediate device in this step, ns.
    worked: Nanos,
}

impl Service {
    pub(super) fn new(plan: &Scenario, incarnation: u32) -> Self {
        Self {
            thread: Thread { incarnation, ..Thread::default() },
            hops: plan.hops,
            devices: Vec::new(),
            in_flight: vec![None; plan.in_flight as usize],
            mailbox: VecDeque::new(),
            rung: Vec::new(),
            listens: false,
            worked: 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) sidecore: Sidecore<u32, Request>,
    injection: Injection,
    pub(super) world: World<'a>,
}

impl engine::World for Run<'_> {
    type Event = SimEvent;

    fn handle(&mut self, clock: &mut Clock, event: SimEvent) {
        let world = &mut self.world;
        world.now = clock.now();
        match event {
            SimEvent::Step(actor) if !world.begin_step(actor) => {}
            SimEvent::Step(Actor::Service) => self.step(clock),
            SimEvent::Step(Actor::Client(link)) => world.step_client(clock, link),
            SimEvent::Step(Actor::Device(device)) => world.step_device(clock, device),
            SimEvent::Wake(actor, incarnation) => world.arrive(clock, actor, incarnation),
            SimEvent::Fault(number) => world.strike(clock, usize::from(number)),
            SimEvent::HangUp(link) => world.hang_up(clock, link),
            SimEvent::Closed(link) => world.connection_closed(clock, link),
            SimEvent::Late(device) => world.answer_late(clock, device),
            SimEvent::Hang(device) => world.devices[device as usize].stall(clock.now(), None),
            SimEvent::Restart => self.restart(clock),
        }
        self.world.check(&self.sidecore);
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(plan: &'a Scenario, mutation: Option<Mutation>, watch: Watch, clock: &mut Clock) -> Self {
        let mut run = Self {
            sidecore: sidecore(plan, mutation, watch.tape, 0),
            injection: Injection::new(mutation, plan.seed),
            world: World::new(plan, mutation, watch),
        };
        for (number, (at, _)) in plan.faults.iter().enumerate() {
            clock.schedule(*at, SimEvent::Fault(number as u16));
        }
        run.start(clock);
        for (tenant, client) in plan.clients.iter().enumerate() {
            for (lane, lane_plan) in client.lanes.iter().enumerate() {
                run.world.connect(clock, tenant as u32, lane as u32, lane_plan.requests);
            }
        }
        run
    }

    fn start(&mut self, clock: &mut Clock) {
        for plan in &self.world.plan.devices {
            self.add_device(clock, *plan);
        }
        self.world.go_on(clock, Actor::Service);
    }

    fn restart(&mut self, clock: &mut Clock) {
        let World { plan, mutation, tape, .. } = self.world;
        self.sidecore = sidecore(plan, mutation, tape, clock.now());
        self.injection = Injection::new(mutation, plan.seed);
        self.world.service = Service::new(plan, self.world.service.thread.incarnation + 1);
        self.world.say(|| "the service starts again".to_owned());
        self.start(clock);
        for (tenant, lane, left) in std::mem::take(&mut self.world.reconnecting) {
            self.world.connect(clock, tenant, lane, left);
        }
    }

    fn step(&mut self, clock: &mut Clock) {
        if std::mem::take(&mut self.world.service.listens) {
            self.hear(clock);
        }
        let next = self.sidecore.advance(&mut self.injection.around(SimHost { world: &mut self.world, clock }), 1);
        let worked = std::mem::take(&mut self.world.service.worked);
        match next {
            Action::Step if worked > 0 => return self.world.go_on_after(clock, Actor::Service, worked),
            Action::Step => {}
            Action::Obey => self.obey(clock),
            Action::Listen => self.hear(clock),
            Action::Spin => return self.world.spin(clock, Actor::Service, self.world.plan.owned),
            Action::Sleep { until } => {
                self.world.service.listens = true;
                return self.world.doze(clock, Actor::Service, until);
            }
        }
        self.world.go_on(clock, Actor::Service);
    }

    fn hear(&mut self, clock: &mut Clock) {
        let mutation = self.world.mutation;
        for link in std::mem::take(&mut self.world.service.rung) {
            let Some(id) = self.lane_of(link) else { continue };
            let mut host = self.injection.around(SimHost { world: &mut self.world, clock });
            if mutation == Some(Mutation::SleepThroughRing) {
                host.disarm(&link);
            } else {
                self.sidecore.rang(&mut host, id);
            }
        }
    }

    fn lane_of(&self, link: u32) -> Option<LaneId> {
        self.sidecore.lanes().find(|(_, own)| **own == link).map(|(id, _)| id)
    }

    fn obey(&mut self, clock: &mut Clock) {
        while let Some(command) = self.world.service.mailbox.pop_front() {
            match command {
                Command::AddLane(link) => self.add_lane(link),
                Command::CloseLane(link) => {
                    if let Some(id) = self.lane_of(link) {
                        self.sidecore.close_lane(id);
                    }
                }
                Command::Set(fault) => self.set(clock, fault),
                Command::Late(device, reply) => {
                    self.world.say(|| format!("device {device}, which is gone, answers"));
                    let reply = self.injection.renew(reply);
                    self.sidecore.finish(&mut self.injection.around(SimHost { world: &mut self.world, clock }), &reply);
                }
            }
        }
    }

    fn set(&mut self, clock: &mut Clock, fault: Fault) {
        match fault {
            Fault::SetNotify(hops) => self.set_notify(clock, hops),
            Fault::SetBalance(balance) => self.sidecore.set_balance(balance),
            Fault::DeviceJoin(plan) => self.add_device(clock, plan),
            Fault::DeviceDrain(number) => {
                if let Some(device) = self.picked(number) {
                    self.sidecore.drain(device);
                    self.world.device_mut(device).leaving = true;
                }
            }
            Fault::DeviceRemove(number) => {
                if let Some(device) = self.picked(number) {
                    self.world.device_mut(device).leaving = true;
                    self.sidecore.remove(&mut self.injection.around(SimHost { world: &mut self.world, clock }), device);
                }
            }
            Fault::DeviceDeath { device, .. } => {
                let remote = |device: &usize| self.world.device(*device).plan.kind != Kind::Inline;
                if let Some(device) = self.picked(device).filter(remote) {
                    self.sidecore.kill(&mut self.injection.around(SimHost { world: &mut self.world, clock }), device);
                }
            }
            // They strike without being told.
            Fault::DeviceStall { .. }
            | Fault::DeviceSlow { .. }
            | Fault::IdleThenHang { .. }
            | Fault::ClientDeath { .. }
            | Fault::ClientDeaf { .. }
            | Fault::ClientHostile { .. }
            | Fault::ServiceDeath { .. } => {}
        }
    }

    fn add_lane(&mut self, link: u32) {
        let World { plan, links, service, mutation, .. } = &mut self.world;
        let of = &mut links[link as usize];
        let client = &plan.clients[of.tenant as usize];
        let slots = of.plan.slots;
        // Checks go by the plan.
        let credit = if *mutation == Some(Mutation::IgnoreCredit) { u32::MAX } else { client.credit };
        let is_favoured = *mutation == Some(Mutation::IgnoreShare) && client.user == 0;
        let weight = if is_favoured { client.weight * FAVOUR } else { client.weight };
        let name = match mutation {
            Some(Mutation::ShareByClient) => CLIENTS + u64::from(of.tenant),
            _ => client.user.into(),
        };
        let user = UserShare { name: Some(name), weight };
        let lane = NewLane { client: of.tenant.into(), user, weight: 1, credit, slots, end: link };
        of.advice = service.hops.client;
        // There is room for every connection that a run can make.
        if let Ok(id) = self.sidecore.add_lane(lane) {
            self.world.links[link as usize].accepted = true;
            self.world.say(|| format!("the service takes link {link} as lane {}", id.0));
        }
    }

    fn set_notify(&mut self, clock: &mut Clock, hops: WaitPolicies) {
        self.world.service.hops = hops;
        for device in self.world.service.devices.clone() {
            self.world.devices[device as usize].hops = hops;
            self.world.wake(clock, Actor::Device(device));
        }
        for (_, link) in self.sidecore.lanes() {
            self.world.links[*link as usize].advice = hops.client;
        }
        self.sidecore.set_notify(&mut self.injection.around(SimHost { world: &mut self.world, clock }), hops);
    }

    fn add_device(&mut self, clock: &mut Clock, plan: DevicePlan) {
        let mut rates = Rates::new();
        for class in plan.classes().iter() {
            for size in [64, 4_096] {
                rates.observe(class, size, plan.time(size));
            }
        }
        let world = &mut self.world;
        let depth = if world.mutation == Some(Mutation::Overcommit) { plan.depth * 2 } else { plan.depth };
        let immediate = plan.kind == Kind::Inline;
        let capability =
            Capability { classes: plan.classes(), immediate, remote_keys: false, depth, weight: plan.weight, rates };
        let Some(number) = self.sidecore.add_device(capability) else { return };
        let index = world.devices.len() as u32;
        let may_spin = plan.owned || world.mutation == Some(Mutation::SpinUnowned);
        let incarnation = world.service.thread.incarnation;
        world.devices.push(Device::new(plan, incarnation, world.service.hops, may_spin));
        if number == world.service.devices.len() {
            world.service.devices.push(index);
        }
        let before = std::mem::replace(&mut world.service.devices[number], index);
        if before != index && !world.devices[before as usize].leaving {
            let what = format!("device {index} gets the number of device {before}, which is there");
            world.fail(Invariant::Accounting, what);
        }
        if plan.kind == Kind::Worker {
            world.go_on(clock, Actor::Device(index));
        }
        world.say(|| format!("device {index} joins: {plan}"));
    }

    fn picked(&self, number: u8) -> Option<usize> {
        let dispatch = self.sidecore.dispatch();
        let count = self.world.service.devices.len();
        pick(number, (0..count).filter(|device| dispatch.device_state(*device) != DeviceState::Gone))
    }

    pub(super) fn is_finished(&self) -> bool {
        let World { service, reconnecting, links, .. } = &self.world;
        let at_rest = !service.thread.ended && service.mailbox.is_empty() && reconnecting.is_empty();
        at_rest && links.iter().all(Link::is_settled) && self.sidecore.dispatch().total_in_flight() == 0
    }
}

fn sidecore(plan: &Scenario, mutation: Option<Mutation>, tape: Option<usize>, now: Nanos) -> Sidecore<u32, Request> {
    let settings = Settings {
        limits: Limits {
            lanes: MAX_LANES,
            clients: MAX_LANES,
            in_flight: plan.in_flight,
            quantum: plan.quantum,
            deferred: plan.in_flight % MAX_DEFERRED,
        },
        balance: plan.balance,
        notify: plan.hops,
        park_cost: PARK_COST,
        wake_time: PARK_COST,
        may_spin: plan.owned || mutation == Some(Mutation::SpinUnowned),
        device_timeout: DEVICE_TIMEOUT,
        loop_limits: LoopLimits {
            turn: 16,
            watched_lanes: plan.watched_lanes,
            quiet: 10_000,
            listen: 3_000,
            housekeeping: 30_000,
            look: 1_000,
        },
    };
    Sidecore::new(&settings, tape, now)
}

impl World<'_> {
    pub(super) fn kill_service(&mut self, clock: &mut Clock, down: Nanos) {
        self.say(|| "the service dies".to_owned());
        self.end(clock, Actor::Service);
        let incarnation = self.service.thread.incarnation;
        for device in 0..self.devices.len() {
            if self.devices[device].service == incarnation {
                self.end(clock, Actor::Device(device as u32));
            }
        }
        for link in 0..self.links.len() {
            if self.links[link].ended.is_none() && self.links[link].service == incarnation {
                let delay = clock.random().below(5_000);
                clock.after(delay, SimEvent::HangUp(link as u32));
            }
        }
        clock.after(down, SimEvent::Restart);
    }

    pub(super) fn tell(&mut self, clock: &mut Clock, command: Command) {
        if !self.service.thread.ended {
            self.service.mailbox.push_back(command);
            self.wake(clock, Actor::Service);
        }
    }

    /// A client rings: its lane's pipe remembers it until the service listens.
    pub(super) fn ring(&mut self, clock: &mut Clock, link: u32) {
        if !self.service.thread.ended {
            self.service.rung.push(link);
            self.wake(clock, Actor::Service);
        }
    }

    pub(super) fn connection_closed(&mut self, clock: &mut Clock, index: u32) {
        let link = &mut self.links[index as usize];
        let of_this = link.service == self.service.thread.incarnation;
        link.ended.get_or_insert(End::Died);
        if of_this {
            self.tell(clock, Command::CloseLane(index));
        }
    }
}
