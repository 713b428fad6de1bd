//! Settings of a link.

use crate::args::LinkProperties;
use crate::error::LabError;
use sidecore::core::policy::notify::Notify;
use sidecore::core::time::Nanos;

/// Largest frame from an interface: a segment of 64 KiB before it is cut, with its headers.
pub(super) const MAX_FRAME: usize = (1 << 16) + 256;
/// Assumed rate of a link without a rate, for the size of its memory.
const FASTEST: u64 = 10_000_000_000;
const MAX_BYTES: u64 = 512 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Bits a second on the line, including Ethernet's overhead. `None`: sending takes no time.
    pub(crate) rate_bits_per_s: Option<u64>,
    /// From a frame's last bit on the line to its arrival, ns.
    pub(crate) delay: Nanos,
    /// Largest IP packet, bytes.
    pub(crate) mtu: u32,
    /// Most bytes of waiting frames, without the frame on the line.
    pub(crate) queue_bytes: u64,
    /// Share of lost frames, 0 to 1. With offload a frame is up to 64 KiB, as the sender hands it over.
    pub(crate) loss: f64,
    /// Moderation of the receiver's interrupts: [`Notify::Coalesce`]. `None`: an interrupt for each frame.
    pub(crate) moderation: Option<Notify>,
    /// The interface computes checksums and cuts segments: TCP hands over up to 64 KiB, which stay together.
    pub(crate) offload: bool,
    /// The interface computes checksums also without `offload`.
    pub(crate) checksums: bool,
    /// Frames are received through NAPI, as from a driver, so that GRO and its settings apply.
    pub(crate) napi: bool,
    /// Cost of an access to a register of the interface, ns.
    pub(crate) register: Nanos,
    /// Polling of the clock before an instant, instead of sleep, ns.
    pub(crate) spin: Nanos,
    pub(crate) seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate_bits_per_s: None,
            delay: 0,
            mtu: 1500,
            queue_bytes: 1 << 20,
            loss: 0.0,
            moderation: None,
            offload: true,
            checksums: false,
            napi: false,
            register: 0,
            spin: 0,
            seed: 1,
        }
    }
}

impl Settings {
    pub(crate) fn of(typed: &LinkProperties) -> Result<Self, LabError> {
        // Not a number: refused as too large.
        let nanos = |micros: f64| if micros >= 0.0 { (micros * 1e3).round() as u64 } else { u64::MAX };
        let moderation = typed.moderate_count.zip(typed.moderate_us);
        let settings = Self {
            rate_bits_per_s: typed.rate_mbit.map(|mbit| mbit.saturating_mul(1_000_000)),
            delay: nanos(typed.delay_us),
            mtu: typed.mtu,
            queue_bytes: typed.queue,
            loss: typed.loss_percent / 100.0,
            moderation: moderation.map(|(count, micros)| moderated(count, micros)).transpose()?,
            offload: !typed.no_offload,
            checksums: typed.checksums,
            napi: typed.napi,
            register: nanos(typed.register_us),
            spin: nanos(typed.spin_us),
            seed: typed.seed,
        };
        settings.check().map(|()| settings)
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        let wrong = |wrong: bool, message: &str| if wrong { Err(LabError::usage(message)) } else { Ok(()) };
        let rate = self.rate_bits_per_s;
        let rates = 1_000_000..=1_000_000_000_000;
        wrong(
            rate.is_some_and(|rate| !rates.contains(&rate)),
            "a link sends 1 to 1000000 Mbit/s; leave --rate-mbit out for one that takes no time",
        )?;
        wrong(self.delay > 10_000_000_000, "--delay-us is 10000000, which is 10 s, at most")?;
        wrong(
            !(68..=65_521).contains(&self.mtu),
            "--mtu is 68, which each IP host takes, to 65521, which fits an interface",
        )?;
        wrong(self.queue_bytes > 256 << 20, "--queue is 268435456 bytes, which is 256 MiB, at most")?;
        wrong(!(0.0..=1.0).contains(&self.loss), "--loss-percent is 0 to 100")?;
        wrong(self.register > 1_000_000, "--register-us is 0 to 1000")?;
        wrong(self.spin > 1_000_000, "--spin-us is 0 to 1000")?;
        let needs = self.bytes();
        wrong(
            needs > MAX_BYTES,
            &format!(
                "that much is on its way at a time that it takes {} MiB in each direction, and {} are the limit: lower \
                 --rate-mbit, --delay-us or --queue, and give a rate where there is none",
                needs >> 20,
                MAX_BYTES >> 20
            ),
        )
    }

    pub(super) fn bytes(&self) -> u64 {
        let largest = MAX_FRAME as u64;
        let per_s = self.rate_bits_per_s.unwrap_or(FASTEST) / 8;
        let within = |nanos: Nanos| u64::try_from(u128::from(per_s) * u128::from(nanos) / 1_000_000_000);
        let within = |nanos| within(nanos).unwrap_or(u64::MAX);
        let held = match self.moderation {
            Some(Notify::Coalesce { count, delay }) => within(delay).min(u64::from(count) * largest),
            _ => 0,
        };
        // Frames during a delay of the thread, and the unused end of the memory.
        self.queue_bytes.saturating_add(within(self.delay)).saturating_add(held).saturating_add(64 * largest)
    }
}

fn moderated(count: u32, micros: u64) -> Result<Notify, LabError> {
    let whole = Notify::Coalesce { count, delay: micros.saturating_mul(1000) };
    // Conversion to a word clamps values to their limits.
    let within = Notify::from_word(whole.to_word()).filter(|within| *within == whole);
    within.ok_or_else(|| {
        LabError::Usage(format!("--moderate-count is 1 to {}, --moderate-us 1 to 1000000", Notify::MAX_COUNT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_what_to_give() {
        let good = Settings::default;
        good().check().unwrap();
        let cases = [
            (Settings { rate_bits_per_s: Some(0), ..good() }, "leave --rate-mbit out"),
            (Settings { delay: u64::MAX, ..good() }, "--delay-us is"),
            (Settings { mtu: 10, ..good() }, "--mtu is 68"),
            (Settings { mtu: 65_522, ..good() }, "to 65521"),
            (Settings { queue_bytes: u64::MAX, ..good() }, "256 MiB"),
            (Settings { loss: 1.01, ..good() }, "0 to 100"),
            (Settings { loss: f64::NAN, ..good() }, "0 to 100"),
            (Settings { register: u64::MAX, ..good() }, "--register-us"),
            (Settings { spin: u64::MAX, ..good() }, "--spin-us"),
            (Settings { delay: 1_000_000_000, ..good() }, "give a rate"),
        ];
        for (settings, remedy) in cases {
            let said = settings.check().unwrap_err().to_string();
            assert!(said.contains(remedy), "{settings:?}: {said}");
        }
        let slow = Settings { rate_bits_per_s: Some(100_000_000), delay: 1_000_000_000, ..good() };
        slow.check().unwrap();
    }
}
