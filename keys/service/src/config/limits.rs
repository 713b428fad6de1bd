//! Limits of one client, and of all together.

use serde::Deserialize;
use sidecore_core::layout::{MAX_SLOTS, MIN_ARENA, MIN_SLOTS};
use sidecore_core::work::KeyLocation;
use sidecore_daemon::config::{ConfigError, unknown, within};

/// Defines the section `[limits]`: each key with its meaning, type, default, least and most.
macro_rules! limits {
    ($($(#[$doc:meta])* $key:ident: $number:ty = $default:expr, $least:expr => $most:expr;)*) => {
        /// Limits of one client, and of all together.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct LimitsConfig {
            $($(#[$doc])* pub $key: $number,)*
        }

        impl Default for LimitsConfig {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl LimitsConfig {
            /// Names of the keys, without `limits.`.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            pub(super) fn check(&self) -> Result<(), ConfigError> {
                $(within(concat!("limits.", stringify!($key)), self.$key, $least, $most)?;)*
                Ok(())
            }

            /// The limits with their keys, in the order of the file.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($key), u64::from(self.$key))),*].into_iter()
            }

            pub(crate) fn set(&mut self, key: &str, value: u64) -> Result<(), ConfigError> {
                match key {
                    $(stringify!($key) => {
                        let (least, most): ($number, $number) = ($least, $most);
                        within(concat!("limits.", stringify!($key)), value, u64::from(least), u64::from(most))?;
                        self.$key = value as $number;
                    })*
                    _ => return Err(unknown("limit", key, Self::KEYS.iter().copied()).into()),
                }
                Ok(())
            }
        }
    };
}

limits! {
    /// Largest input or output of one request, bytes.
    max_request_bytes: u32 = 128 * 1024, 1 => 16 << 20;
    /// Most lanes of all clients.
    lanes: u32 = 2048, 1 => 65_536;
    /// Most lanes of one client process.
    lanes_per_client: u32 = 1024, 1 => 65_536;
    /// Most lanes of one user, over its processes.
    lanes_per_uid: u32 = 1024, 1 => 65_536;
    /// Most client processes of one user.
    clients_per_uid: u32 = 256, 1 => 65_536;
    /// Most slots of a ring.
    slots_per_lane: u32 = 1024, MIN_SLOTS => MAX_SLOTS;
    /// Most requests of one client in flight, over its lanes.
    in_flight_per_client: u32 = 4096, 1 => 1 << 20;
    /// Most arena bytes of one client, over its lanes.
    arena_bytes_per_client: u32 = 256 << 20, MIN_ARENA => u32::MAX;
    /// Most bytes of shared memory of one user's lanes, arenas and rings.
    lane_bytes_per_uid: u64 = 1 << 30, 1 << 14 => 1 << 40;
    /// Most sessions of one lane.
    sessions_per_lane: u32 = 1024, 1 => 65_535;
    /// Most bytes of the service's memory for sessions on keys of one client's own.
    session_bytes_per_client: u64 = 16 << 20, 1 << 10 => 1 << 40;
    /// Most bytes of the service's memory for sessions on keys of one user's own, over its processes.
    session_bytes_per_uid: u64 = 64 << 20, 1 << 10 => 1 << 40;
    /// Most stored keys.
    keys: u16 = 256, 1 => KeyLocation::PLACES;
    /// Most requests in flight on one sidecore.
    in_flight: u32 = 16384, 1 => 1 << 20;
    /// Time on devices that a client of weight 1 may use in one round, us.
    quantum_us: u32 = 20, 1 => 100_000;
    /// Time without an answer to a request after which a device counts as dead, ms.
    device_timeout_ms: u32 = 2000, 10 => 600_000;
}

impl LimitsConfig {
    /// Limits that a running service can change. They apply from the next request for more.
    pub const LIVE: [&'static str; 9] = [
        "lanes_per_client",
        "lanes_per_uid",
        "clients_per_uid",
        "slots_per_lane",
        "arena_bytes_per_client",
        "lane_bytes_per_uid",
        "sessions_per_lane",
        "session_bytes_per_client",
        "session_bytes_per_uid",
    ];
}

/// Other limits for one user. The default of each is the value in `limits`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientConfig {
    /// The user that these apply to.
    pub uid: u32,
    /// Share of the sidecore, relative to others; default 1.
    pub weight: Option<u32>,
    /// Most lanes of one process.
    pub lanes: Option<u32>,
    /// Most requests in flight.
    pub in_flight: Option<u32>,
    /// Most arena bytes.
    pub arena_bytes: Option<u32>,
}

/// Limits of one client, put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Share of the sidecore.
    pub weight: u32,
    /// Most lanes.
    pub lanes: u32,
    /// Most requests in flight.
    pub in_flight: u32,
    /// Most arena bytes.
    pub arena_bytes: u32,
}
