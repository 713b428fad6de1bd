//! Parameters, and the times derived from them.

use crate::settings::{Bytes, Count, Ms, Ratio, Us, balance, settings};
use sidecore_core::policy::balance::Balance;
use sidecore_core::time::Nanos;
use sidecore_nodes::MAX_NODES;

/// Time of a step, at most 10 s.
type Time = Us<0, 10_000_000_000>;
/// A longer time, at most a day.
type Span = Ms<0, 86_400_000_000_000>;

settings! {
    Farm {
        hand: Hand {
            #[serde(deserialize_with = "balance")]
            balance: Balance,
            /// Each node pulls by itself, up to this number at a time, first come, first served; 0: a dispatcher
            /// assigns by `balance`.
            pull: Count<0, 1024>,
            in_flight: Count<1, 1_048_576>,
            depth: Count<1, 65_536>,
            tries: Count<1, 255>,
        }
        node: Node {
            count: Count<1, { MAX_NODES as u64 }>,
            slots: Count<1, 1000>,
            /// Number of slow nodes, the last ones, and the factor on their times.
            slow_count: Count<0, { MAX_NODES as u64 }>,
            slower: Ratio<1, 100_000>,
            unit_us: Us<1_000, 10_000_000_000>,
            /// A node's time around an event, without the work.
            overhead_us: Time,
            /// Delay of the end of work: a sleeper wakes late.
            overshoot_us: Time,
        }
        event: Size {
            least_units: Count<1, 1_000_000>,
            most_units: Count<1, 1_000_000>,
            unit_bytes: Bytes<1, 1_000_000>,
            /// Fraction of an event's work that its bytes do not determine: it is exponentially distributed.
            stray: Ratio<0, 100>,
            failing_percent: Ratio<0, 10_000>,
        }
        arrivals: Arrivals {
            /// Fraction of the capacity of all nodes; 0: saturation.
            load: Ratio<0, 150>,
            warm_ms: Span,
            measured_ms: Ms<10_000_000, 3_600_000_000_000>,
        }
        network: Network {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            /// Time from a program to the server or back: the minimum, and the mean of the random rest.
            hop_us: Time,
            spread_us: Time,
            /// Time until the server has stored an event or a result.
            store_us: Time,
        }
        /// Time of the dispatcher per message of an event: sending it, and its answer.
        dispatcher: Dispatcher {
            event_us: Time,
        }
        death: Death {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            /// Mean time between two deaths of nodes, and the time that a node is away; 0: none dies.
            every_ms: Span,
            away_ms: Span,
            beat_ms: Ms<1_000_000, 10_000_000_000>,
            silence_ms: Ms<1_000_000, 100_000_000_000>,
            grace_ms: Ms<1_000_000, 100_000_000_000>,
            /// With pull: time that the server waits for an acknowledgement before it gives the message to another
            /// node.
            ack_wait_ms: Ms<1_000_000, 86_400_000_000_000>,
        }
    }
}

impl Farm {
    pub(super) fn is_saturated(&self) -> bool {
        self.arrivals.load.get() <= 0.0
    }

    /// Time of a unit of work on this node, ns.
    pub(super) fn unit(&self, node: usize) -> f64 {
        let is_slow = node + self.node.slow_count.get() as usize >= self.node.count.get() as usize;
        self.node.unit_us.ns() * if is_slow { self.node.slower.get() } else { 1.0 }
    }

    pub(super) fn units_per_s(&self) -> f64 {
        let slots = f64::from(self.node.slots.get());
        (0..self.node.count.get() as usize).map(|node| slots * 1e9 / self.unit(node)).sum()
    }

    pub(super) fn mean_units(&self) -> f64 {
        f64::midpoint(f64::from(self.event.least_units.get()), f64::from(self.event.most_units.get()))
    }

    /// Mean time between two events, ns.
    pub(super) fn gap(&self) -> f64 {
        1e9 * self.mean_units() / (self.units_per_s() * self.arrivals.load.get())
    }

    pub(super) fn measured(&self) -> (Nanos, Nanos) {
        let warm = self.arrivals.warm_ms.nanos();
        (warm, warm + self.arrivals.measured_ms.nanos())
    }
}
