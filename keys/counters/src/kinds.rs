//! Tables of counters: one for each kind of block. The numbers in the file, the metrics and the headings are made of
//! them.

use super::about::{ClassAbout, DeviceAbout, KeyAbout, LaneAbout, SidecoreAbout};
use sidecore_core::session::Op;
use sidecore_core::stage::Stage;
use std::fmt::Debug;

/// Kind of a number, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count that only grows.
    Count,
    /// Bytes, a sum that only grows.
    Bytes,
    /// Nanoseconds, a sum that only grows.
    Time,
    /// A present amount.
    Level,
    /// A present amount of nanoseconds.
    TimeLevel,
    /// A code; 0 means none. A merge keeps the first that is not 0.
    Code,
    /// A histogram of durations.
    Times,
}

impl Kind {
    /// Whether it is a present amount; otherwise it only grows.
    pub fn is_level(self) -> bool {
        matches!(self, Self::Level | Self::TimeLevel | Self::Code)
    }
}

/// Properties of one counter.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Kind and unit.
    pub kind: Kind,
    /// Heading of its column; `/S` at the end: its rate is shown. Empty: it has no column.
    pub heading: &'static str,
    /// Name of its metric after [`Counter::PREFIX`]. Empty: it has no metric.
    pub metric: &'static str,
    /// Its meaning, a sentence.
    pub help: &'static str,
}

/// The counters of one kind of block. Its values have dense numbers.
pub trait Counter: Copy + Debug + 'static {
    /// The description of such a block.
    type About: Clone + Debug;
    /// The rows in the order of the numbers.
    const ROWS: &'static [Row];
    /// Before the name of each metric.
    const PREFIX: &'static str;
    /// The stages whose times are kept.
    const STAGES: &'static [Stage];
    /// Name after the prefix and meaning of the metric of these times.
    const TIMES: (&'static str, &'static str);

    /// Its number.
    fn index(self) -> usize;
}

/// Defines the enum and its table. After its metrics' prefix: the metric of its stages' times, and the stages; then
/// for each counter its [`Row`]. The help text is the counter's documentation too.
macro_rules! counters {
    (
        $(#[$doc:meta])*
        $name:ident of $about:ident, $prefix:literal, $times:literal: $meaning:literal [$($stage:ident)*];
        $($variant:ident: $kind:ident, $heading:literal, $metric:literal, $help:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $help] $variant,)*
        }

        impl $name {
            /// All of them in the order of their numbers.
            pub const ALL: [Self; [$($metric),*].len()] = [$(Self::$variant),*];
            /// Number of counters.
            pub const COUNT: usize = Self::ALL.len();
        }

        impl Counter for $name {
            type About = $about;
            const ROWS: &'static [Row] =
                &[$(Row { kind: Kind::$kind, heading: $heading, metric: $metric, help: $help }),*];
            const PREFIX: &'static str = $prefix;
            const STAGES: &'static [Stage] = &[$(Stage::$stage),*];
            const TIMES: (&'static str, &'static str) = ($times, $meaning);

            #[inline]
            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

counters! {
    /// Counters of a sidecore.
    SidecoreCounter of SidecoreAbout, "", "": "" [];
    Rounds: Count, "", "", "Rounds over its lanes and devices.";
    Requests: Count, "REQ/S", "requests", "Requests taken from lanes.";
    Waits: Count, "", "waits", "Finished waits of the sidecore.";
    EmptyPolls: Count, "EMPTY/S", "empty_polls", "Rounds that found nothing and were answered with another.";
    Parks: Count, "PARKS/S", "parks", "Sleeps until woken.";
    Naps: Count, "NAPS/S", "naps", "Sleeps to a given time.";
    SpunNs: Time, "", "spin", "Time spent polling.";
    SleptNs: Time, "", "sleep", "Time spent asleep.";
    CostNs: Time, "", "wait_cost", "CPU time that the waits cost.";
    OptimumNs: Time, "", "wait_optimum", "CPU time that the waits would have cost had their lengths been known.";
    CpuNs: Time, "CPU", "cpu", "CPU time of the sidecore's thread.";
    Lanes: Level, "", "lanes", "Open lanes.";
    DormantLanes: Level, "", "dormant_lanes", "Open lanes that are not looked at until they ring.";
    ParkCostNs: TimeLevel, "", "park_cost", "CPU time of a sleep and its wake-up, measured once after the start: what policies count with.";
    WakeTimeNs: TimeLevel, "", "wake_time", "How long a wake-up took, measured once after the start.";
    WakeupsReceived: Count, "", "wakeups_received", "Wake-ups received from clients and devices.";
    Faults: Count, "FAULTS", "protocol_faults", "Lanes that ended because their client broke the protocol.";
    Refused: Count, "REFUSED", "refused_requests", "Requests refused with a reason.";
    Replayed: Count, "REPLAYED", "replayed_requests", "Requests done again on another device because theirs died.";
    WrongAnswers: Count, "", "wrong_answers", "Answers of gateways that were not what was asked for: signatures that do not verify.";
}

/// State of a device that an administrator removed, in the place of a `DeviceState`.
pub(super) const REMOVED: u64 = 3;

counters! {
    /// Counters of a device.
    DeviceCounter of DeviceAbout, "device_", "time": "Time that the device needed for sampled requests." [Device];
    Requests: Count, "REQ/S", "requests", "Requests handed to the device.";
    Bytes: Bytes, "BYTES/S", "input", "Input of the requests handed to the device.";
    InFlight: Level, "FLIGHT", "in_flight", "Requests that the device has now.";
    BacklogNs: TimeLevel, "BACKLOG", "backlog", "Estimated work given to the device and not done.";
    Failed: Count, "FAILED", "failed_requests", "Requests lost with the device and given up.";
    Replayed: Count, "REPLAYED", "replayed_requests", "Requests lost with the device and done again elsewhere.";
    Batches: Count, "BATCH/S", "batches", "Times that the device did several requests, or one, side by side.";
    Gathered: Count, "", "gathered_requests", "Requests that it did so.";
    FullBatches: Count, "", "full_batches", "Times that it did as many as it takes at most.";
    WrongResults: Count, "WRONG", "wrong_results", "Results of batches that did not verify: they did not leave, and were made again.";
    State: Code, "", "", "Number of the `DeviceState`: how far it may be used; or [`REMOVED`].";
}

counters! {
    /// Counters of a lane. From `ClientReceived` on they are the client's own report: an allegation.
    LaneCounter of LaneAbout, "client_", "stage": "Time in each stage; deliver and total as the client says."
        [Queue Device Host Deliver Total];
    Submitted: Count, "REQ/S", "requests", "Requests taken from the client.";
    Done: Count, "DONE", "done_requests", "Requests done.";
    Refused: Count, "REFUSED", "refused_requests", "Requests refused with a reason.";
    Failed: Count, "FAILED", "failed_requests", "Requests given up because their devices died.";
    BytesIn: Bytes, "", "input", "Input of the requests taken.";
    BytesOut: Bytes, "", "output", "Results written.";
    InFlight: Level, "FLIGHT", "in_flight", "Requests that devices have now.";
    WakeupsSent: Count, "WAKES/S", "wakeups_sent", "Wake-ups sent to the client.";
    WakeupsSaved: Count, "SAVED/S", "wakeups_saved", "Completions announced without a wake-up.";
    Fault: Code, "", "", "Number of the `wire::Fault` that ended the lane plus 1.";
    ClientReceived: Count, "", "received", "Completions received, as the client says.";
    ClientWaits: Count, "WAITS*/S", "waits", "Finished waits, as the client says.";
    ClientEmptyPolls: Count, "EMPTY*/S", "empty_polls", "Looks that found nothing, as the client says.";
    ClientParks: Count, "PARKS*/S", "parks", "Sleeps until woken, as the client says.";
    ClientNaps: Count, "", "naps", "Sleeps to a given time, as the client says.";
    ClientSpunNs: Time, "SPIN*", "spin", "Time spent polling, as the client says.";
    ClientSleptNs: Time, "", "sleep", "Time spent asleep, as the client says.";
    ClientCostNs: Time, "", "wait_cost", "CPU time that the waits cost, as the client says.";
    ClientOptimumNs: Time, "", "wait_optimum",
        "CPU time that the waits would have cost had their lengths been known, as the client says.";
    ClientCpuNs: Time, "", "cpu", "CPU time of the client, as it says.";
}

counters! {
    /// Counters of a stored key.
    KeyCounter of KeyAbout, "key_", "stage": "Time in each stage." [Queue Device Host];
    Submitted: Count, "REQ/S", "requests", "Requests for the key.";
    Done: Count, "DONE", "done_requests", "Requests done.";
    Refused: Count, "REFUSED", "refused_requests", "Requests refused with a reason.";
    Failed: Count, "FAILED", "failed_requests", "Requests given up because their devices died.";
    InFlight: Level, "FLIGHT", "in_flight", "Requests that devices have now.";
    Sign: Count, "SIGN/S", "signatures", "Signatures asked for.";
    Decrypt: Count, "DECRYPT/S", "decryptions", "Decryptions asked for.";
    Derive: Count, "DERIVE/S", "derivations", "Shared secrets asked for: key agreement and decapsulation.";
    Public: Count, "PUBLIC/S", "public_operations", "Verifications and encapsulations asked for.";
    Limited: Count, "", "limited_requests", "Requests refused by the key's limit, which are among the refused ones.";
    Limit: Level, "", "limit_per_second", "Private operations a second that the key's limit permits; 0: no limit.";
}

counters! {
    /// Counters of a class of requests, which each sidecore keeps in its own block.
    ClassCounter of ClassAbout, "class_", "stage": "Time of sampled requests in each stage." [Queue Device Host];
    Requests: Count, "REQ/S", "requests", "Requests of the class.";
    Bytes: Bytes, "BYTES/S", "input", "Input of these requests.";
}

impl KeyCounter {
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
