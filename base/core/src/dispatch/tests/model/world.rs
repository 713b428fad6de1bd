//! Dispatch and its oracle, driven together.

use super::super::*;
use super::oracle::{Channel, Oracle, Request, Tenant, Unit};
use super::{Event, LIMITS};
use crate::policy::admission::Share;
use proptest::sample::Index;

const ALIVE: [DeviceState; 2] = [DeviceState::Active, DeviceState::Draining];

pub(super) struct World {
    now: Nanos,
    dispatch: Dispatch,
    oracle: Oracle,
    deferred: u64,
}

fn pick<T: Copy>(items: &[T], index: Index) -> Option<T> {
    items.get(index.index(items.len().max(1))).copied()
}

fn with<T>(item: Option<T>, act: impl FnOnce(T)) {
    if let Some(item) = item {
        act(item);
    }
}

impl World {
    /// Two clients with a lane each, and two devices that differ.
    pub(super) fn new() -> Self {
        let dispatch = Dispatch::new(LIMITS, Balance::Eft);
        let mut world = Self { now: 0, dispatch, oracle: Oracle::default(), deferred: 0 };
        for credit in [3, 6] {
            world.come(1, credit);
        }
        for client in world.oracle.present() {
            world.open_lane(client, Notify::Park);
            world.refill(client);
        }
        world.join(Classes::all(), 2);
        world.join([Class::NOOP].into_iter().collect(), 3);
        world
    }

    pub(super) fn apply(&mut self, event: Event) {
        let Self { oracle, .. } = self;
        let lane = |index| pick(&oracle.open_lanes(), index);
        let client = |index| pick(&oracle.present(), index);
        let device = |states: &[DeviceState], index| pick(&oracle.devices(states), index);
        let waiting = |index| pick(&oracle.tickets(|request| request.waiting), index);
        match event {
            Event::Place { lane: index, class, size, urgent } => {
                let tag = oracle.answers.len() as u32;
                with(lane(index), |lane| self.place(Work { class, size, urgent, ..work(lane, tag) }));
            }
            Event::Complete(index, took) => {
                let begun = oracle.tickets(|request| !request.waiting && request.held.is_none());
                with(pick(&begun, index), |ticket| self.complete(ticket, took));
            }
            Event::Release(index) => with(device(&ALIVE, index), |device| _ = self.release(device)),
            Event::UseVoid(index) => with(pick(&oracle.void, index), |ticket| self.use_void(ticket)),
            Event::Announce(index) => with(lane(index), |lane| self.announce(lane)),
            Event::Due(index) => with(lane(index), |lane| self.due(lane)),
            Event::Refill(index) => with(client(index), |client| self.refill(client)),
            Event::Idle(index) => with(client(index), |client| self.idle(client)),
            Event::Wait(time) => {
                self.now += time;
                self.dispatch.reprice(self.now);
            }
            Event::Join { classes, depth } => self.join(classes, depth),
            Event::Drain(index) => with(device(&[DeviceState::Active], index), |device| self.drain(device)),
            Event::Activate(index) => with(device(&[DeviceState::Draining], index), |device| self.activate(device)),
            Event::Lose(index) => with(device(&ALIVE, index), |device| self.lose(device)),
            Event::Rescue(index, most) => with(device(&[DeviceState::Gone], index), |device| self.rescue(device, most)),
            Event::Retry(index) => with(waiting(index), |ticket| self.reassign(ticket)),
            Event::SetBalance(balance) => self.dispatch.set_balance(balance),
            Event::OpenLane(index, notify) => with(client(index), |client| self.open_lane(client, notify)),
            Event::CloseLane(index) => with(lane(index), |lane| self.close_lane(lane)),
            Event::Come { weight, credit } => self.come(weight, credit),
            Event::Go(index) => with(client(index), |client| self.go(client)),
            Event::SetNotify(index, notify) => with(lane(index), |lane| self.set_notify(lane, notify)),
        }
    }

    fn with_room(&self, class: Class) -> Vec<usize> {
        self.oracle.with_room(class, self.dispatch.balance())
    }

    fn place(&mut self, work: Work) {
        let client = self.oracle.lanes[&work.lane.0].client;
        if !self.dispatch.may_take(client) {
            return;
        }
        match self.dispatch.place(self.now, work) {
            Placement::Assigned(Assignment { device, ticket, begins: true, .. }) => {
                self.oracle.answers.push(0);
                let cost = self.handed(work, device, ticket, 0, false);
                self.oracle.clients.get_mut(&client.0).unwrap().share.charge(cost);
            }
            Placement::Assigned(Assignment { device, ticket, begins: false, .. }) => {
                self.oracle.answers.push(0);
                let cost = self.handed(work, device, ticket, 0, true);
                self.oracle.clients.get_mut(&client.0).unwrap().share.charge(cost);
            }
            Placement::Full => {
                assert!(self.with_room(work.class).is_empty() && !self.oracle.capable(work.class).is_empty());
            }
            Placement::Now { .. } => unreachable!("no device of this world is immediate"),
            Placement::NoDevice => assert!(self.oracle.capable(work.class).is_empty()),
        }
    }

    /// Checks that the device may have a request that was given to it or deferred for it. Returns its estimated cost
    /// there.
    fn handed(&mut self, work: Work, device: usize, ticket: Ticket, losses: u8, held: bool) -> Nanos {
        assert!(self.with_room(work.class).contains(&device));
        assert!(self.oracle.is_new(ticket) && ticket.index() < LIMITS.in_flight as usize);
        let cost = self.dispatch.estimate(device, work.class, work.size);
        assert_eq!(held, self.oracle.defers(device) || !self.oracle.has_room(device));
        self.deferred += 1;
        let held = held.then_some(self.deferred);
        let request = Request { ticket, work, device, waiting: false, held, handed: self.now, cost, losses };
        self.oracle.requests.push(request);
        cost
    }

    fn complete(&mut self, ticket: Ticket, took: Option<Nanos>) {
        let request = self.oracle.take(ticket);
        assert_eq!(self.dispatch.complete(ticket, took), Some(self.oracle.answered(&request)));
    }

    /// `false`: the device may begin with none of its deferred requests.
    fn release(&mut self, device: usize) -> bool {
        let released = self.dispatch.release(self.now, device);
        // Whose turn it is the shares say, which have tests of their own; no client's own request passes another.
        assert_eq!(released.is_some(), self.oracle.has_room(device) && self.oracle.defers(device));
        assert!(released.is_none_or(|ticket| self.oracle.is_first_of_its_client(device, ticket)));
        for request in self.oracle.requests.iter_mut().filter(|request| Some(request.ticket) == released) {
            (request.held, request.handed) = (None, self.now);
        }
        released.is_some()
    }

    fn use_void(&mut self, ticket: Ticket) {
        assert_eq!(self.dispatch.complete(ticket, Some(1)), None);
        assert_eq!(self.dispatch.reassign(self.now, ticket), None);
    }

    fn reassign(&mut self, ticket: Ticket) {
        let mut request = self.oracle.take(ticket);
        request.losses += u8::from(!request.waiting);
        let Request { work, losses, .. } = request;
        let place = ticket.index();
        let spent = !request.waiting && request.held.is_none() && !work.class.may_be_replayed();
        let hopeless = spent || losses > MAX_LOSSES || self.oracle.capable(work.class).is_empty();
        match self.dispatch.reassign(self.now, ticket).expect("the ticket counts") {
            Reassigned::Now(_) => unreachable!("no device of this world is immediate"),
            Reassigned::Abandoned(done) => {
                let expected = self.oracle.answered(&request);
                assert!(hopeless || !expected.lane_open);
                assert_eq!(done, expected);
            }
            Reassigned::Assigned(Assignment { device, ticket, begins: true, .. }) => {
                assert!(!hopeless && self.oracle.lanes[&work.lane.0].open && ticket.index() == place);
                self.handed(work, device, ticket, losses, false);
            }
            Reassigned::Assigned(Assignment { device, ticket, begins: false, .. }) => {
                assert!(!hopeless && self.oracle.lanes[&work.lane.0].open && ticket.index() == place);
                self.handed(work, device, ticket, losses, true);
            }
            Reassigned::Wait(ticket) => {
                assert!(!hopeless && self.with_room(work.class).is_empty());
                assert!(self.oracle.is_new(ticket) && ticket.index() == place);
                self.oracle.requests.push(Request { ticket, waiting: true, held: None, ..request });
            }
        }
    }

    fn rescue(&mut self, device: usize, most: usize) {
        let mut from = 0;
        for _ in 0..most {
            let Some(ticket) = self.dispatch.next_orphan(device, from) else { return };
            from = ticket.index() + 1;
            self.reassign(ticket);
        }
    }

    fn announce(&mut self, lane: LaneId) {
        assert_eq!(self.dispatch.announce(self.now, lane), self.oracle.announce(self.now, lane));
    }

    fn due(&mut self, lane: LaneId) {
        assert_eq!(self.dispatch.due(self.now, lane), self.oracle.due(self.now, lane));
    }

    fn join(&mut self, classes: Classes, depth: u32) {
        let number = self.dispatch.add_device(Capability { classes, ..capability(depth) });
        assert_eq!(number, self.oracle.next_unit());
        let Some(number) = number else { return };
        let unit = Unit { state: DeviceState::Active, classes, depth };
        if number == self.oracle.units.len() {
            self.oracle.units.push(unit);
        } else {
            self.oracle.units[number] = unit;
        }
    }

    fn drain(&mut self, device: usize) {
        self.dispatch.drain(device);
        self.oracle.units[device].state = DeviceState::Draining;
    }

    fn activate(&mut self, device: usize) {
        self.dispatch.activate(device);
        self.oracle.units[device].state = DeviceState::Active;
    }

    fn lose(&mut self, device: usize) {
        self.dispatch.lose(device);
        self.oracle.units[device].state = DeviceState::Gone;
    }

    fn come(&mut self, weight: u32, credit: u32) {
        let room = self.oracle.clients.len() < LIMITS.clients as usize;
        let client = self.dispatch.add_client(weight, credit);
        assert_eq!(client.is_some(), room);
        if let Some(client) = client {
            let tenant = Tenant { present: true, share: Share::new(weight), credit };
            assert!(self.oracle.clients.insert(client.0, tenant).is_none(), "the number is taken");
        }
    }

    fn go(&mut self, client: ClientId) {
        for lane in self.oracle.lanes_of(client.0) {
            self.close_lane(lane);
        }
        self.dispatch.remove_client(client);
        if let Some(tenant) = self.oracle.clients.get_mut(&client.0) {
            tenant.present = false;
        }
        self.oracle.free_numbers();
    }

    fn refill(&mut self, client: ClientId) {
        self.dispatch.refill(client);
        self.oracle.clients.get_mut(&client.0).unwrap().share.refill(LIMITS.quantum);
    }

    fn idle(&mut self, client: ClientId) {
        self.dispatch.idle(client);
        self.oracle.clients.get_mut(&client.0).unwrap().share.idle();
    }

    fn open_lane(&mut self, client: ClientId, notify: Notify) {
        let room = self.oracle.lanes.len() < LIMITS.lanes as usize;
        let lane = self.dispatch.add_lane(client, notify);
        assert_eq!(lane.is_some(), room);
        if let Some(lane) = lane {
            let channel = Channel { client, open: true, moderator: Moderator::new(notify), finished: Vec::new() };
            assert!(self.oracle.lanes.insert(lane.0, channel).is_none(), "the number is taken");
        }
    }

    fn close_lane(&mut self, lane: LaneId) {
        self.dispatch.close_lane(lane);
        self.oracle.lanes.get_mut(&lane.0).unwrap().open = false;
        self.oracle.free_numbers();
    }

    fn set_notify(&mut self, lane: LaneId, notify: Notify) {
        self.dispatch.set_notify(lane, notify);
        self.oracle.lanes.get_mut(&lane.0).unwrap().moderator.set_policy(notify);
    }

    pub(super) fn check(&mut self) {
        assert_eq!(self.dispatch.total_in_flight(), self.oracle.requests.len());
        for &lane in self.oracle.lanes.keys() {
            assert_eq!(self.dispatch.in_flight(LaneId(lane)), self.oracle.of_lane(lane));
        }
        for (&id, tenant) in &self.oracle.clients {
            let in_flight = self.dispatch.clients.client_mut(ClientId(id)).in_flight;
            assert_eq!(in_flight, self.oracle.of_client(id));
            assert!(in_flight <= tenant.credit);
            if tenant.present {
                assert_eq!(self.dispatch.may_take(ClientId(id)), self.oracle.may_take(id));
            }
        }
        for device in 0..self.oracle.units.len() {
            self.check_device(device);
        }
    }

    fn check_device(&self, device: usize) {
        let Unit { state, depth, .. } = self.oracle.units[device];
        let load = self.dispatch.device_load(device);
        assert_eq!((self.dispatch.device_state(device), load.usable), (state, state == DeviceState::Active));
        assert_eq!(load.in_flight as usize, self.oracle.on(device).count());
        assert_eq!(load.backlog, self.oracle.backlog(device));
        assert!(load.in_flight <= depth + LIMITS.deferred);
        let mut has: Vec<Ticket> = self.oracle.on(device).map(|request| request.ticket).collect();
        has.sort_by_key(|ticket| ticket.index());
        let mut from = 0;
        for ticket in has {
            assert_eq!(self.dispatch.next_orphan(device, from), Some(ticket));
            from = ticket.index() + 1;
        }
        assert_eq!(self.dispatch.next_orphan(device, from), None);
    }

    pub(super) fn settle(&mut self) {
        while !self.oracle.requests.is_empty() {
            for device in self.oracle.devices(&[DeviceState::Gone]) {
                self.rescue(device, usize::MAX);
            }
            for device in self.oracle.devices(&ALIVE) {
                while self.release(device) {}
            }
            for ticket in self.oracle.tickets(|request| !request.waiting && request.held.is_none()) {
                self.complete(ticket, None);
            }
            for ticket in self.oracle.tickets(|request| request.waiting) {
                self.reassign(ticket);
            }
            self.check();
        }
        assert!(self.oracle.answers.iter().all(|&answers| answers == 1));
        for ticket in core::mem::take(&mut self.oracle.void) {
            self.use_void(ticket);
        }
    }
}
