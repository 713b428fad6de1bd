//! The thread of one user: it reads its programs' messages, and moves the bytes of their streams.
//!
//! A user's sockets that block in the kernel delay this thread and no other. It looks at the programs that rang since
//! its last sleep. Before it sleeps it arms their doorbells, and looks once more.

use super::ledger::{Ledger, Permit};
use super::meter::Meter;
use super::program::{MAX_LAST_MESSAGES, MAX_MESSAGES, Program};
use super::reports::Bell;
use super::shared::Shared;
use super::source::{Source, WAKE, What};
use super::user_context::{ClosedObject, UserContext};
use sidecore_core::policy::notify::{Notify, Wait, WaitLoop, Waiter};
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::cpu;
use sidecore_daemon::sys::park::ParkTimes;
use sidecore_daemon::sys::poller::Poller;
use sidecore_ipc::sys::clock;
use sidecore_streams::sweep::{ClientId, Outcome, Sweep};
use std::convert::Infallible;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Most requests for a report in a row.
const MAX_REPORT_REQUESTS: usize = 64;
/// Streams that are served before the programs are looked at again.
const MAX_SERVED_STREAMS: usize = 8;
/// Time of serving streams, or looking at programs, between two polls of connections and full sockets, ns.
const LISTEN_EVERY: Nanos = 20_000;
/// Looks of a thread that spins before it reads the clock.
const SPIN_LOOKS: usize = 64;

#[derive(Debug)]
pub(super) struct User {
    pub(super) ledger: Arc<Ledger>,
    /// Connections for it; `None`: it has ended.
    inbox: Mutex<Option<Vec<(OwnedFd, Permit)>>>,
    bell: Arc<Bell>,
}

/// Held by each thread for its lifetime.
pub(super) type Alive = Sender<Infallible>;

impl User {
    /// Starts the threads of a user.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn start(uid: u32, shared: &Arc<Shared>, alive: &Alive) -> io::Result<Arc<Self>> {
        let ledger = Ledger::new(shared.limits.clone());
        let user = Arc::new(Self { ledger, inbox: Mutex::new(Some(Vec::new())), bell: Arc::new(Bell::new()?) });
        let poller = Poller::new()?;
        poller.add_edge(user.bell.wake(), WAKE)?;
        let (closing, remains) = mpsc::channel();
        let (closes, running) = (user.clone(), alive.clone());
        let builder = thread::Builder::new().name(format!("closes-{uid}"));
        builder.spawn(move || closes.close(&remains, &running))?;
        let (ledger, bell) = (user.ledger.clone(), user.bell.clone());
        let (shared, sweep, meter) = (shared.clone(), Sweep::new(), Meter::new());
        let context =
            UserContext { shared, uid, bell, ledger, poller, sweep, meter, spins: false, held: Vec::new(), closing };
        let (serves, running) = (user.clone(), alive.clone());
        thread::Builder::new()
            .name(format!("sockets-{uid}"))
            .spawn(move || Serving::new(serves, context).run(&running))?;
        Ok(user)
    }

    /// Hands over a connection.
    ///
    /// # Errors
    /// The thread has ended: returns the connection.
    pub(super) fn hand(&self, socket: OwnedFd, permit: Permit) -> Result<(), OwnedFd> {
        let first = match self.inbox.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(inbox) => {
                inbox.push((socket, permit));
                inbox.len() == 1
            }
            None => return Err(socket),
        };
        // The thread takes all of them together.
        if first {
            self.ring();
        }
        Ok(())
    }

    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn received(&self) -> Vec<(OwnedFd, Permit)> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// `true`: it accepts no further connections.
    fn end_if_idle(&self) -> bool {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        // Each connection takes its permit before the handover.
        if inbox.as_ref().is_some_and(Vec::is_empty) && self.ledger.is_empty() {
            *inbox = None;
        }
        inbox.is_none()
    }

    pub(super) fn dismiss_if_idle(&self) -> bool {
        let ends = self.end_if_idle();
        if ends {
            self.ring();
        }
        ends
    }

    fn close(&self, remains: &Receiver<ClosedObject>, _running: &Alive) {
        for remains in remains {
            drop(remains);
            if self.ledger.is_empty() {
                self.ring();
            }
        }
    }
}

/// Time for the rings of left streams when the service ends.
pub(super) const DRAIN: Duration = Duration::from_secs(10);
/// Lifetime of a user's threads without programs, ns: programs in sequence start none each.
const LINGER: Nanos = 250_000_000;
/// Retry interval for rings that a program holds, ns.
const LOOK_INTERVAL_NS: Nanos = 20_000_000;

struct Serving {
    user: Arc<User>,
    context: UserContext,
    programs: Vec<Option<Program>>,
    /// Programs that are polled without a ring.
    watched: Vec<ClientId>,
    waits: WaitLoop,
    now: Nanos,
    listened: Nanos,
    /// Time since when the user has no resources.
    idle_since: Option<Nanos>,
    events: Vec<u64>,
}

impl Serving {
    fn new(user: Arc<User>, context: UserContext) -> Self {
        let waiter = Waiter::new(context.shared.notify, ParkTimes::ASSUMED.cost, false);
        let now = clock::now();
        Self {
            user,
            context,
            programs: Vec::new(),
            watched: Vec::new(),
            waits: WaitLoop::new(waiter),
            now,
            listened: now,
            idle_since: None,
            events: Vec::new(),
        }
    }

    fn run(mut self, _running: &Alive) {
        let shared = self.context.shared.clone();
        let core = shared.cores.take();
        if let Some(cpu) = core.cpu() {
            // Without its core the thread still serves, on another one.
            let _ = cpu::pin(cpu);
        }
        cpu::precise_sleep();
        while self.step().is_continue() {
            let may_spin = core.may_spin();
            self.waits.waiter.set_may_spin(may_spin);
            self.context.spins = may_spin && shared.notify == Notify::Spin;
        }
    }

    fn step(&mut self) -> ControlFlow<()> {
        self.collect();
        let found = self.context.sweep.waits();
        match self.waits.next(self.now, found) {
            Wait::Look if found => self.serve(),
            Wait::Look => {}
            Wait::Spin => self.spin(),
            Wait::Arm => return self.each_watched(Program::arm),
            Wait::Disarm => return self.each_watched(Program::disarm),
            Wait::Sleep { until, armed } => {
                if armed {
                    // All of them were armed just now, and ring.
                    self.watched.clear();
                }
                return self.listen(until.map(|until| until.saturating_sub(self.now)));
            }
        }
        if self.now.saturating_sub(self.listened) < LISTEN_EVERY {
            return ControlFlow::Continue(());
        }
        self.listen(Some(0))
    }

    fn each_watched(&self, act: impl Fn(&Program)) -> ControlFlow<()> {
        self.watched.iter().filter_map(|client| self.programs.get(*client)?.as_ref()).for_each(act);
        ControlFlow::Continue(())
    }

    fn collect(&mut self) {
        let Self { context, programs, watched, .. } = self;
        for program in watched.iter().filter_map(|client| programs.get(*client)?.as_ref()) {
            program.collect(context);
        }
    }

    fn serve(&mut self) {
        self.waits.waiter.end(self.now);
        for _ in 0..MAX_SERVED_STREAMS {
            let Some((client, stream)) = self.context.sweep.take() else { return };
            let before = self.now;
            let served = |program: &mut Program| program.serve(&mut self.context, stream);
            let (outcome, moved) = self.programs[client].as_mut().map_or((Outcome::Empty, 0), served);
            self.now = clock::now();
            self.context.sweep.served(client, stream, self.now.saturating_sub(before), moved, outcome);
            self.forget_if_over(client);
        }
    }

    fn tell(&self) {
        let break_even = self.context.break_even();
        self.programs.iter().flatten().for_each(|program| program.tell(break_even));
    }

    fn spin(&mut self) {
        for _ in 0..SPIN_LOOKS {
            std::hint::spin_loop();
        }
        self.now = clock::now();
    }

    /// Waits for at most `timeout` ns (`None`: no limit) for events outside shared memory.
    fn listen(&mut self, timeout: Option<Nanos>) -> ControlFlow<()> {
        let park = self.context.shared.park_times();
        self.waits.waiter.set_park_cost(park.cost);
        self.waits.waiter.set_wake_time(park.wake);
        // The cost of waking another thread: half of a sleep and a wake-up.
        if self.context.meter.learn(park.cost / 2) {
            self.tell();
        }
        let soon = (!self.context.held.is_empty()).then_some(LOOK_INTERVAL_NS);
        let lingers = self.idle_since.map(|since| (since + LINGER).saturating_sub(self.now));
        self.take_events(timeout.into_iter().chain(soon).chain(lingers).min());
        for (client, stream) in self.context.held.drain(..) {
            self.context.sweep.announce(client, stream);
        }
        if self.context.shared.stop.load(Ordering::Acquire) {
            // An earlier death is noticed before the rest.
            self.take_events(Some(0));
            self.leave();
            return ControlFlow::Break(());
        }
        if self.has_lingered() && self.user.end_if_idle() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Whether the user has no resources, for long enough or while another user needs the place.
    fn has_lingered(&mut self) -> bool {
        let idle = self.user.ledger.is_empty();
        self.idle_since = idle.then(|| self.idle_since.unwrap_or(self.now));
        self.idle_since.is_some_and(|since| self.now >= since + LINGER || self.user.has_ended())
    }

    fn take_events(&mut self, timeout: Option<Nanos>) {
        let mut events = std::mem::take(&mut self.events);
        events.extend(self.context.poller.wait(timeout));
        for number in events.drain(..) {
            if number == WAKE {
                self.receive();
                self.ask_for_reports();
            } else {
                self.happened(Source::of(number));
            }
        }
        self.events = events;
        self.now = clock::now();
        self.listened = self.now;
    }

    fn receive(&mut self) {
        for (socket, permit) in self.user.received() {
            let serial = self.context.shared.serials.fetch_add(1, Ordering::Relaxed);
            let Ok(program) = Program::new(socket, permit, serial, &mut self.context) else { continue };
            let client = program.client();
            self.programs.resize_with(self.programs.len().max(client + 1), || None);
            self.programs[client] = Some(program);
        }
    }

    fn ask_for_reports(&mut self) {
        if !self.context.bell.asks() {
            return;
        }
        let asked = self.programs.iter().flatten().filter(|program| program.ask_for_report());
        if asked.take(MAX_REPORT_REQUESTS).count() == MAX_REPORT_REQUESTS {
            self.context.bell.ask();
        }
    }

    fn happened(&mut self, Source { client, serial, what }: Source) {
        let program = self.programs.get_mut(client).and_then(Option::as_mut);
        let Some(program) = program.filter(|program| program.serial == serial) else { return };
        match what {
            What::Control => program.hear(&mut self.context, MAX_MESSAGES),
            What::Doorbell => {
                program.disarm();
                self.context.meter.woken();
                if !self.watched.contains(&client) {
                    self.watched.push(client);
                }
            }
            What::Process => {
                // Messages from before its end count.
                program.hear(&mut self.context, MAX_LAST_MESSAGES);
                program.bereave(&mut self.context, true);
            }
            What::Stream(place) => program.resume(&mut self.context, place),
        }
        self.forget_if_over(client);
    }

    fn forget_if_over(&mut self, client: ClientId) {
        if let Some(program) = self.programs[client].take_if(|program| program.is_over()) {
            program.dismiss(&mut self.context);
        }
    }

    /// The service ends: programs continue alone. Rings of left streams are drained for [`DRAIN`], then their
    /// connections are reset.
    fn leave(&mut self) {
        *self.user.inbox.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.each_program(Program::part);
        let until = self.now.saturating_add(DRAIN.as_nanos() as Nanos);
        while self.now < until && self.programs.iter().any(Option::is_some) {
            if self.context.sweep.waits() {
                self.serve();
            } else {
                self.take_events(Some(LOOK_INTERVAL_NS));
                self.each_program(|program, context| program.look_again(context));
            }
        }
        for mut program in self.programs.drain(..).flatten() {
            program.cut(&mut self.context);
            program.dismiss(&mut self.context);
        }
    }

    fn each_program(&mut self, act: impl Fn(&mut Program, &mut UserContext)) {
        for client in 0..self.programs.len() {
            if let Some(program) = &mut self.programs[client] {
                act(program, &mut self.context);
            }
            self.forget_if_over(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketsConfig;
    use crate::ledger::Kind;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn threads_that_only_linger_end_when_another_user_needs_the_place() {
        let shared = Arc::new(Shared::of(SocketsConfig::default()));
        let (alive, running) = mpsc::channel();
        let user = User::start(1, &shared, &alive).unwrap();
        drop(alive);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let permit = user.ledger.take(Kind::Programs, 1).unwrap();
        if user.hand(here, permit).is_ok() {
            assert!(!user.dismiss_if_idle());
        }
        drop(there);
        while !user.ledger.is_empty() {
            thread::yield_now();
        }
        assert!(user.dismiss_if_idle() && user.has_ended());
        assert!(matches!(running.recv_timeout(TIMEOUT), Err(mpsc::RecvTimeoutError::Disconnected)));
    }
}
