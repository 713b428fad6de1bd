//! What can be set, and the times that follow from it.

use crate::settings::{Bytes, Count, Ms, Ratio, Us, balance, settings};
use sidecore_core::farm::MAX_NODES;
use sidecore_core::policy::balance::Balance;
use sidecore_core::time::Nanos;

/// Time of a step, at most 10 s.
type Time = Us<0, 10_000_000_000>;
/// A longer time, at most a day.
type Span = Ms<0, 86_400_000_000_000>;

settings! {
    /// The system `farm`.
    Farm {
        /// How events come to nodes.
        hand: Hand {
            #[serde(deserialize_with = "balance")]
            balance: Balance,
            /// Each node pulls for itself and has so many at a time, first come, first served; 0: a dispatcher hands out by `balance`.
            pull: Count<0, 1024>,
            /// Most events with all nodes, and with one.
            in_flight: Count<1, 1_048_576>,
            depth: Count<1, 65_536>,
            /// How often an event may fail.
            tries: Count<1, 255>,
        }
        node: Node {
            count: Count<1, { MAX_NODES as u64 }>,
            slots: Count<1, 1000>,
            /// The last ones of them take so many times as long.
            slow_count: Count<0, { MAX_NODES as u64 }>,
            slower: Ratio<1, 100_000>,
            unit_us: Us<1_000, 10_000_000_000>,
            /// Time of a node around an event, which is not work.
            overhead_us: Time,
            /// By how much work takes longer than it should: a sleeper is late.
            overshoot_us: Time,
        }
        event: Size {
            least_units: Count<1, 1_000_000>,
            most_units: Count<1, 1_000_000>,
            unit_bytes: Bytes<1, 1_000_000>,
            /// The part of its work that its bytes do not tell: this part of it is exponentially distributed.
            stray: Ratio<0, 100>,
            failing_percent: Ratio<0, 10_000>,
        }
        arrivals: Arrivals {
            /// Of what all nodes do; 0: there is always enough to do.
            load: Ratio<0, 150>,
            warm_ms: Span,
            measured_ms: Ms<10_000_000, 3_600_000_000_000>,
        }
        network: Network {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            /// From a program to the server or back: at least, and the mean of what comes on top.
            hop_us: Time,
            spread_us: Time,
            /// Until the server has stored an event or a result.
            store_us: Time,
        }
        /// Time of the dispatcher for each message of an event: one that it hands out, and one that was answered.
        dispatcher: Dispatcher {
            event_us: Time,
        }
        death: Death {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            /// Mean time between two deaths of nodes, and how long a node is away; 0: none dies.
            every_ms: Span,
            away_ms: Span,
            beat_ms: Ms<1_000_000, 10_000_000_000>,
            silence_ms: Ms<1_000_000, 100_000_000_000>,
            grace_ms: Ms<1_000_000, 100_000_000_000>,
            /// Where nodes pull: how long the server waits for an acknowledgement before it gives a message to another.
            ack_wait_ms: Ms<1_000_000, 86_400_000_000_000>,
        }
    }
}

impl Farm {
    /// Whether there is always an event that nobody has.
    pub(super) fn is_saturated(&self) -> bool {
        self.arrivals.load.get() <= 0.0
    }

    /// Time of a unit of work on that node, ns.
    pub(super) fn unit(&self, node: usize) -> f64 {
        let is_slow = node + self.node.slow_count.get() as usize >= self.node.count.get() as usize;
        self.node.unit_us.ns() * if is_slow { self.node.slower.get() } else { 1.0 }
    }

    /// Units a second that all nodes do together.
    pub(super) fn units_per_s(&self) -> f64 {
        let slots = f64::from(self.node.slots.get());
        (0..self.node.count.get() as usize).map(|node| slots * 1e9 / self.unit(node)).sum()
    }

    /// Mean units of an event.
    pub(super) fn mean_units(&self) -> f64 {
        f64::midpoint(f64::from(self.event.least_units.get()), f64::from(self.event.most_units.get()))
    }

    /// Mean time between two events, ns.
    pub(super) fn gap(&self) -> f64 {
        1e9 * self.mean_units() / (self.units_per_s() * self.arrivals.load.get())
    }

    /// When the measurement begins and ends.
    pub(super) fn measured(&self) -> (Nanos, Nanos) {
        let warm = self.arrivals.warm_ms.nanos();
        (warm, warm + self.arrivals.measured_ms.nanos())
    }
}
