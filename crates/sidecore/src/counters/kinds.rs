//! What is counted: one enum for each kind of block, dense numbers with names.

use sidecore_core::session::Op;

/// Defines an enum whose variants number the words of a block, with their names for exporters.
macro_rules! counters {
    ($(#[$doc:meta])* $kind:ident { $($(#[$each:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $kind {
            $($(#[$each])* $variant,)*
        }

        impl $kind {
            /// All of them in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Name in exports.
            pub fn name(self) -> &'static str {
                [$($name),*][self as usize]
            }
        }
    };
}

counters! {
    /// What is counted for a lane. From `ClientReceived` on it is the client's own report: an allegation.
    LaneCounter {
        /// Requests taken from the lane.
        Submitted = "submitted",
        /// Requests done.
        Done = "done",
        /// Requests refused with a reason.
        Refused = "refused",
        /// Requests given up because their devices died.
        Failed = "failed",
        /// Bytes of input of the requests taken.
        BytesIn = "bytes_in",
        /// Bytes of results written.
        BytesOut = "bytes_out",
        /// Requests in flight now: a level, no sum.
        InFlight = "in_flight",
        /// Wake-ups sent to the client.
        WakeupsSent = "wakeups_sent",
        /// Completions announced without a wake-up, because the client was awake or woken already.
        WakeupsSaved = "wakeups_saved",
        /// Number of the `wire::Fault` that ended the lane plus 1, or 0: a level, no sum.
        Fault = "fault",
        /// Completions that the client received.
        ClientReceived = "client_received",
        /// Finished waits of the client.
        ClientWaits = "client_waits",
        /// Looks of the client that found nothing.
        ClientEmptyPolls = "client_empty_polls",
        /// Sleeps of the client until woken.
        ClientParks = "client_parks",
        /// Sleeps of the client to a given time.
        ClientNaps = "client_naps",
        /// Time that the client polled, ns.
        ClientSpunNs = "client_spun_ns",
        /// Time that the client slept, ns.
        ClientSleptNs = "client_slept_ns",
        /// What the client's waits cost, ns of CPU time.
        ClientCostNs = "client_cost_ns",
        /// What they would have cost had their lengths been known, ns of CPU time.
        ClientOptimumNs = "client_optimum_ns",
        /// CPU time of the client, ns.
        ClientCpuNs = "client_cpu_ns",
    }
}

counters! {
    /// What is counted for a sidecore.
    SidecoreCounter {
        /// Rounds over its lanes and devices.
        Rounds = "rounds",
        /// Requests taken.
        Requests = "requests",
        /// Finished waits.
        Waits = "waits",
        /// Rounds that found nothing and were answered with another.
        EmptyPolls = "empty_polls",
        /// Sleeps until woken.
        Parks = "parks",
        /// Sleeps to a given time.
        Naps = "naps",
        /// Time spent polling, ns.
        SpunNs = "spun_ns",
        /// Time spent asleep, ns.
        SleptNs = "slept_ns",
        /// What the waits cost, ns of CPU time.
        CostNs = "cost_ns",
        /// What they would have cost had their lengths been known, ns of CPU time.
        OptimumNs = "optimum_ns",
        /// CPU time of the sidecore's thread, ns.
        CpuNs = "cpu_ns",
        /// Open lanes: a level, no sum.
        Lanes = "lanes",
        /// Open lanes that are not looked at until they ring: a level, no sum.
        DormantLanes = "dormant_lanes",
        /// Wake-ups received from clients and devices.
        WakeupsReceived = "wakeups_received",
        /// Lanes that ended because their client broke the protocol.
        Faults = "faults",
        /// Requests refused with a reason.
        Refused = "refused",
        /// Requests replayed on another device.
        Replayed = "replayed",
    }
}

counters! {
    /// What is counted for a device.
    DeviceCounter {
        /// Requests handed to it.
        Requests = "requests",
        /// Bytes of input of these requests.
        Bytes = "bytes",
        /// Requests that it has now: a level, no sum.
        InFlight = "in_flight",
        /// Estimated work given to it and not done, ns: a level, no sum.
        BacklogNs = "backlog_ns",
        /// Requests lost with it and given up.
        Failed = "failed",
        /// Requests lost with it and replayed elsewhere.
        Replayed = "replayed",
    }
}

counters! {
    /// What is counted for a stored key.
    KeyCounter {
        /// Requests taken.
        Submitted = "submitted",
        /// Requests done.
        Done = "done",
        /// Requests refused with a reason.
        Refused = "refused",
        /// Requests given up because their devices died.
        Failed = "failed",
        /// Requests that devices have now: a level, no sum.
        InFlight = "in_flight",
        /// Signatures among the requests taken.
        Sign = "sign",
        /// Decryptions among them.
        Decrypt = "decrypt",
        /// Shared secrets among them: key agreement and decapsulation.
        Derive = "derive",
        /// What is done with the public part of the key among them: verification, encapsulation.
        Public = "public",
    }
}

impl LaneCounter {
    /// Whether it says how much there is now; otherwise it only grows.
    pub fn is_level(self) -> bool {
        matches!(self, Self::InFlight | Self::Fault)
    }
}

impl SidecoreCounter {
    /// Whether it says how much there is now; otherwise it only grows.
    pub fn is_level(self) -> bool {
        matches!(self, Self::Lanes | Self::DormantLanes)
    }
}

impl KeyCounter {
    /// Whether it says how much there is now; otherwise it only grows.
    pub fn is_level(self) -> bool {
        matches!(self, Self::InFlight)
    }

    /// The counter of the family that an operation belongs to.
    #[inline]
    pub fn of(op: Op) -> Self {
        match op {
            Op::Sign | Op::SignDigest => Self::Sign,
            Op::Decrypt => Self::Decrypt,
            Op::Derive | Op::Decapsulate => Self::Derive,
            _ => Self::Public,
        }
    }
}

impl DeviceCounter {
    /// Whether it says how much there is now; otherwise it only grows.
    pub fn is_level(self) -> bool {
        matches!(self, Self::InFlight | Self::BacklogNs)
    }
}
