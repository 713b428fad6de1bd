//! What can be set, and the times that follow from it.

use crate::engine::Random;
use crate::settings::{Bytes, Count, Gbit, KiB, Ns, NsPerByte, Us, notify, settings};
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;

/// Time of a step. None takes no time at all, or a run would not end.
type Step = Ns<1, 1_000_000>;
/// Time of a byte.
type PerByte = NsPerByte<0, 100_000>;
/// Time that may be left out.
type Time = Us<0, 10_000_000>;

/// How far CPU time strays from its mean: else closed loops lock into phases that no real machine keeps.
const STRAYS: f64 = 0.2;

settings! {
    /// The system `streams`.
    Streams {
        program: Program {
            path: Path,
            load: Load,
            connections: Count<1, 4096>,
            message_bytes: Bytes<1, 1_048_576>,
            /// Of a paced load: messages a second, and the time between two bursts of them.
            rate_per_s: Count<1, 100_000_000>,
            tick_us: Us<1_000, 1_000_000_000>,
            /// Of a pipelined load: sends after each receive, and receives after which it turns to one send each and, after
            /// as many, back; 0: never.
            replies: Count<1, 4096>,
            turns_after: Count<0, 1_000_000>,
            /// Mean time between two messages of a connection beside those; 0: there is none.
            quiet_every_us: Us<0, 1_000_000_000>,
        }
        kernel: Kernel {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            send_ns: Step,
            /// A byte of a send, also of a transfer.
            byte_ns: PerByte,
            receive_ns: Step,
            /// A call that takes nothing.
            refused_ns: Step,
        }
        ring: Ring {
            kib: KiB<4, 1024>,
            /// A message without its bytes.
            message_ns: Step,
            byte_ns: PerByte,
            announce_ns: Step,
        }
        sidecore: Sidecore {
            #[serde(deserialize_with = "notify")]
            notify: Notify,
            /// A transfer without its bytes.
            transfer_ns: Step,
            /// From one look of a sidecore that spins to the next.
            look_ns: Step,
        }
        /// What a connection costs that enters a ring, and one that leaves it.
        promotion: Promotion {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            program_us: Time,
            sidecore_us: Time,
            back_us: Time,
        }
        wake: Wake {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            /// From what wakes a sleeper until that runs.
            latency_us: Time,
            /// CPU time of ringing, and of going to sleep and coming back.
            send_us: Time,
            sleep_us: Time,
            /// What a sleep and a wake-up are taken to cost by the policies.
            park_cost_us: Time,
        }
        receiver: Receiver {
            /// What one connection's receiver takes.
            gbit_per_s: Gbit<1, 1_000_000>,
            /// What the kernel holds of one connection, on both sides together.
            socket_bytes: Bytes<4096, { 1 << 30 }>,
        }
    }
    Path = Kernel | Rule;
    Load = FlatOut | Paced | Pipelined;
}

/// A time that strays around this mean, whole ns and more than none.
pub(super) fn strayed(mean: f64, random: &mut Random) -> Nanos {
    whole(mean * (1.0 + STRAYS * (2.0 * random.uniform() - 1.0)))
}

/// Whole ns, and more than none.
pub(super) fn whole(time: f64) -> Nanos {
    (time.round() as Nanos).max(1)
}

impl Streams {
    /// A call that gives so many bytes to the kernel, ns.
    pub(super) fn send(&self, bytes: u32) -> f64 {
        self.call(self.kernel.send_ns, bytes)
    }

    /// The same call by the sidecore for what gathered in a ring, ns.
    pub(super) fn transfer(&self, bytes: u32) -> f64 {
        self.call(self.sidecore.transfer_ns, bytes)
    }

    fn call(&self, fixed: Step, bytes: u32) -> f64 {
        match bytes {
            0 => self.kernel.refused_ns.get(),
            _ => fixed.get() + f64::from(bytes) * self.kernel.byte_ns.get(),
        }
    }

    /// Writing so many bytes of a message to a ring, ns.
    pub(super) fn write(&self, bytes: u32) -> Nanos {
        whole(self.ring.message_ns.get() + f64::from(bytes) * self.ring.byte_ns.get())
    }

    /// From the last reply of a batch to the client's next request, ns: it wakes, receives and sends.
    pub(super) fn turnaround(&self) -> f64 {
        self.wake.latency_us.ns() + self.kernel.receive_ns.get() + self.send(self.program.message_bytes.get())
    }

    /// Bytes of a ring.
    pub(super) fn ring_bytes(&self) -> u32 {
        self.ring.kib.get() << 10
    }

    /// Whether there is a quiet connection beside the others.
    pub(super) fn has_quiet(&self) -> bool {
        self.program.quiet_every_us.nanos() > 0
    }
}
