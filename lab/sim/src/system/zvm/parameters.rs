//! Parameters, and the values derived from them.

use crate::part::cpu;
use crate::settings::{Count, Rate, Ratio, Us, balance, notify, settings};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;

settings! {
    Zvm {
        guest: Guest {
            count: Count<1, 100>,
            threads: Count<1, 1000>,
            poll_us: Us<10_000, 20_000_000>,
            queue_depth: Count<1, 64>,
            /// Rate of all guests together; 0: each thread sends its next request after the answer.
            rate_per_s: Rate<0, 1_000_000_000>,
            request_us: Us<100, 1_000_000>,
            /// Time from its timer or interrupt until it looks at the queue.
            wake_us: Us<0, 100_000>,
        }
        host: Host {
            mode: Mode,
            cores: Count<1, 64>,
            instruction_us: Us<0, 100_000>,
            dispatch_us: Us<0, 100_000>,
            enqueue_us: Us<10, 100_000>,
            dequeue_us: Us<10, 100_000>,
            poll_cost_us: Us<0, 100_000>,
            poll_least_us: Us<1_000, 10_000_000>,
            poll_most_us: Us<1_000, 1_000_000_000>,
            poll_growth: Ratio<100, 1_600>,
            /// Delay of the tasks' timers.
            poll_late_us: Us<0, 1_000_000>,
            post_us: Us<0, 100_000>,
            interrupt_us: Us<0, 100_000>,
        }
        adapter: Adapter {
            count: Count<1, 16>,
            depth: Count<1, 64>,
            engines: Count<1, 64>,
            sign_us: Us<100, 10_000_000>,
            verify_us: Us<100, 10_000_000>,
        }
        service: Service {
            software: Software,
            #[serde(deserialize_with = "balance")]
            balance: Balance,
        }
        /// Wait policies at each hop, if the service's policies decide.
        notify: Hops {
            #[serde(deserialize_with = "notify")]
            host: Notify,
            #[serde(deserialize_with = "notify")]
            device: Notify,
            #[serde(deserialize_with = "notify")]
            guest: Notify,
            inject_us: Us<0, 100_000>,
        }
    }
    Mode = Baseline | Polling | Interrupts;
    Software = Zvm | Sidecore;
}

pub(super) const GUEST: usize = 0;
pub(super) const CP: usize = 1;

#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    /// By a timer whose interval grows while it finds nothing.
    Adaptive,
    /// By notification of each piece of work, asleep or not: a post for a request, an interrupt for a reply.
    Told,
    Notify(Notify),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) least: Nanos,
    pub(super) most: Nanos,
    pub(super) growth: f64,
    /// Added to each interval, ns.
    pub(super) late: Nanos,
}

/// Shortest time before and during measurement, ns; and the same for open load, which needs time to queue.
const SHORTEST: Nanos = 3_000_000;
const SHORTEST_OPEN: Nanos = 30_000_000;

impl Zvm {
    /// Interval of a guest's poll timer, ns.
    pub(super) fn tick(&self) -> Nanos {
        self.guest.poll_us.nanos()
    }

    /// Mean time between two arrivals at a guest, ns; `None`: its threads send their next requests after the answers.
    pub(super) fn gap(&self) -> Option<f64> {
        let rate = self.guest.rate_per_s.get();
        (rate > 0.0).then(|| 1e9 * f64::from(self.guest.count.get()) / rate)
    }

    /// Time before measurement, and of measurement. Whole ticks count a guest correctly that is served once per tick.
    pub(super) fn span(&self) -> Nanos {
        let shortest = if self.gap().is_some() { SHORTEST_OPEN } else { SHORTEST };
        shortest.div_ceil(self.tick()).max(2) * self.tick()
    }

    pub(super) fn cpu(&self) -> cpu::Shape {
        cpu::Shape { cores: self.host.cores.get(), switch: 0, accounts: 2 }
    }

    pub(super) fn poll(&self) -> Poll {
        let Host { poll_least_us, poll_most_us, poll_growth, poll_late_us, .. } = &self.host;
        let (least, most) = (poll_least_us.nanos(), poll_most_us.nanos());
        Poll { least, most, growth: poll_growth.get(), late: poll_late_us.nanos() }
    }

    /// How the host's two tasks find work, and the service's policy for guests that wait for replies. `None`: guests
    /// use their kernel's poll timer, which ticks on a grid of its own.
    pub(super) fn looks(&self) -> (Look, Look, Option<Notify>) {
        let Hops { host, device, guest, .. } = &self.notify;
        match (self.service.software, self.host.mode) {
            (Software::Sidecore, _) => (Look::Notify(*host), Look::Notify(*device), Some(*guest)),
            (_, Mode::Interrupts) => (Look::Told, Look::Told, None),
            (_, Mode::Polling) => (Look::Told, Look::Adaptive, None),
            (_, Mode::Baseline) => (Look::Adaptive, Look::Adaptive, None),
        }
    }
}
