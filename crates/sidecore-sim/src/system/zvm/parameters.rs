//! What can be set, and what a run makes of it.

use crate::part::cpu;
use crate::settings::{Kind, Parameter, Settings};
use crate::system::Impossible;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;

/// Spellings of notify policies that a plan may use.
const POLICIES: &[&str] = &[
    "spin",
    "park",
    "break-even",
    "learn",
    "predict",
    "timer(50us)",
    "timer(250us)",
    "timer(1.5ms)",
    "coalesce(4,50us)",
    "coalesce(8,100us)",
];

/// Accounts of CPU time.
pub(super) const GUEST: usize = 0;
pub(super) const CP: usize = 1;

const fn count(name: &'static str, least: u64, most: u64) -> Parameter {
    Parameter { name, unit: "1", kind: Kind::Count(least, most) }
}

const fn us(name: &'static str, least: f64, most: f64) -> Parameter {
    Parameter { name, unit: "us", kind: Kind::Number(least, most) }
}

const fn ratio(name: &'static str, least: f64, most: f64) -> Parameter {
    Parameter { name, unit: "1", kind: Kind::Number(least, most) }
}

const fn choice(name: &'static str, words: &'static [&'static str]) -> Parameter {
    Parameter { name, unit: "1", kind: Kind::Choice(words) }
}

pub(super) const PARAMETERS: &[Parameter] = &[
    choice("host.mode", &["baseline", "polling", "interrupts"]),
    count("guest.count", 1, 100),
    count("guest.threads", 1, 1000),
    us("guest.poll_us", 10.0, 2_000.0),
    ratio("guest.poll_scale", 0.1, 100.0),
    count("guest.queue_depth", 1, 64),
    us("guest.request_us", 0.1, 1_000.0),
    us("guest.wake_us", 0.0, 100.0),
    count("host.cores", 1, 64),
    choice("host.smt", &["off", "on"]),
    ratio("host.smt_speed", 0.1, 1.0),
    us("host.instruction_us", 0.0, 100.0),
    us("host.dispatch_us", 0.0, 100.0),
    us("host.enqueue_us", 0.01, 100.0),
    us("host.dequeue_us", 0.01, 100.0),
    us("host.poll_cost_us", 0.0, 100.0),
    us("host.poll_least_us", 1.0, 10_000.0),
    us("host.poll_most_us", 1.0, 1_000_000.0),
    ratio("host.poll_growth", 1.0, 16.0),
    us("host.post_us", 0.0, 100.0),
    us("host.interrupt_us", 0.0, 100.0),
    count("adapter.count", 1, 16),
    count("adapter.depth", 1, 64),
    count("adapter.engines", 1, 64),
    us("adapter.sign_us", 0.1, 10_000.0),
    us("adapter.verify_us", 0.1, 10_000.0),
    choice("service.software", &["zvm", "sidecore"]),
    choice("service.balance", &["round-robin", "sed", "eft"]),
    choice("notify.host", POLICIES),
    choice("notify.device", POLICIES),
    choice("notify.guest", POLICIES),
    us("notify.inject_us", 0.0, 100.0),
];

/// How one of the host's tasks comes to look for work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    /// By a timer whose interval grows while nothing is found.
    Adaptive,
    /// It is told of each piece of work, whether it sleeps or not: posted for a request, interrupted for a reply.
    Told,
    /// As this policy of the service says.
    Notify(Notify),
}

/// How a guest comes to look for replies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pickup {
    /// By the poll timer of its kernel, which ticks on a grid of its own.
    Kernel,
    /// As this policy of the service says.
    Notify(Notify),
}

/// Settings of a run, times in ns.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) guests: u32,
    pub(super) threads: u32,
    /// From one tick of a guest's poll timer to the next.
    pub(super) tick: Nanos,
    pub(super) queue_depth: u32,
    pub(super) costs: Costs,
    pub(super) cpu: cpu::Shape,
    pub(super) poll: Poll,
    pub(super) adapters: u32,
    pub(super) adapter_depth: u32,
    pub(super) engines: u32,
    pub(super) sign: Nanos,
    pub(super) verify: Nanos,
    pub(super) balance: Balance,
    pub(super) enqueue: Look,
    pub(super) dequeue: Look,
    pub(super) pickup: Pickup,
}

/// CPU time of each step, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Guest: a thread's part of a request.
    pub(super) request: Nanos,
    /// Guest: its timer or interrupt, until it looks at the queue.
    pub(super) guest_wake: Nanos,
    /// Host: an instruction of a guest to its queue.
    pub(super) instruction: Nanos,
    /// Host: dispatch of a virtual CPU that was idle.
    pub(super) dispatch: Nanos,
    pub(super) enqueue: Nanos,
    pub(super) dequeue: Nanos,
    /// Host: a look of a task by its timer.
    pub(super) poll: Nanos,
    /// Host: the enqueue task is told of a request.
    pub(super) post: Nanos,
    /// Host: an adapter's interrupt.
    pub(super) interrupt: Nanos,
    /// Host: a virtual interrupt for a guest.
    pub(super) inject: Nanos,
}

/// The timer of the host's tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) least: Nanos,
    pub(super) most: Nanos,
    pub(super) growth: f64,
}

/// Shortest time before and during measurement, ns.
const SHORTEST: Nanos = 3_000_000;

impl Shape {
    pub(super) fn of(settings: &Settings) -> Self {
        let count = |name: &str| settings.count(name) as u32;
        let smt = settings.word("host.smt") == "on";
        let (enqueue, dequeue, pickup) = looks(settings);
        Self {
            guests: count("guest.count"),
            threads: count("guest.threads"),
            tick: (settings.exact_nanos("guest.poll_us") * settings.number("guest.poll_scale")).round() as Nanos,
            queue_depth: count("guest.queue_depth"),
            costs: Costs::of(settings),
            cpu: cpu::Shape {
                cores: count("host.cores"),
                threads: if smt { 2 } else { 1 },
                shared_speed: settings.number("host.smt_speed"),
                switch: 0,
                accounts: 2,
            },
            poll: Poll {
                least: settings.nanos("host.poll_least_us"),
                most: settings.nanos("host.poll_most_us"),
                growth: settings.number("host.poll_growth"),
            },
            adapters: count("adapter.count"),
            adapter_depth: count("adapter.depth"),
            engines: count("adapter.engines"),
            sign: settings.nanos("adapter.sign_us"),
            verify: settings.nanos("adapter.verify_us"),
            balance: Balance::parse(settings.word("service.balance")).unwrap_or(Balance::Sed),
            enqueue,
            dequeue,
            pickup,
        }
    }

    /// Time before measurement.
    pub(super) fn warm_up(&self) -> Nanos {
        SHORTEST.div_ceil(self.tick).max(2) * self.tick
    }

    /// Time of measurement: whole ticks, so that a guest that is served once in each is counted right.
    pub(super) fn measured(&self) -> Nanos {
        self.warm_up()
    }
}

impl Costs {
    fn of(settings: &Settings) -> Self {
        Self {
            request: settings.nanos("guest.request_us"),
            guest_wake: settings.nanos("guest.wake_us"),
            instruction: settings.nanos("host.instruction_us"),
            dispatch: settings.nanos("host.dispatch_us"),
            enqueue: settings.nanos("host.enqueue_us"),
            dequeue: settings.nanos("host.dequeue_us"),
            poll: settings.nanos("host.poll_cost_us"),
            post: settings.nanos("host.post_us"),
            interrupt: settings.nanos("host.interrupt_us"),
            inject: settings.nanos("notify.inject_us"),
        }
    }
}

/// How the three hops are waited at.
fn looks(settings: &Settings) -> (Look, Look, Pickup) {
    let policy = |name: &str| Notify::parse(settings.word(name)).unwrap_or(Notify::Park);
    match (settings.word("service.software"), settings.word("host.mode")) {
        ("sidecore", _) => (
            Look::Notify(policy("notify.host")),
            Look::Notify(policy("notify.device")),
            Pickup::Notify(policy("notify.guest")),
        ),
        (_, "interrupts") => (Look::Told, Look::Told, Pickup::Kernel),
        (_, "polling") => (Look::Told, Look::Adaptive, Pickup::Kernel),
        _ => (Look::Adaptive, Look::Adaptive, Pickup::Kernel),
    }
}

/// What contradicts itself.
pub(super) fn check(settings: &Settings) -> Result<(), Impossible> {
    let number = |name: &str| settings.number(name);
    let (least, most) = (number("host.poll_least_us"), number("host.poll_most_us"));
    if least > most {
        let message = format!("the host's shortest interval, {least} us, is above its longest, {most} us");
        return Err(Impossible { parameter: "host.poll_least_us", message });
    }
    let tick = number("guest.poll_us") * number("guest.poll_scale");
    if tick < 10.0 {
        let message = format!("with guest.poll_us a guest looks every {tick} us; it cannot below 10 us");
        return Err(Impossible { parameter: "guest.poll_scale", message });
    }
    if number("adapter.engines") > number("adapter.depth") {
        let message = "an adapter has more engines than requests: adapter.depth is the most it holds".to_owned();
        return Err(Impossible { parameter: "adapter.engines", message });
    }
    Ok(())
}
