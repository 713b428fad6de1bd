//! Use of the configured limits: of the whole service, or of the lane, process or user with the fullest share.

/// Defines the enum with the key of the configuration and the meaning of each.
macro_rules! limits {
    ($($variant:ident: $key:literal, $help:literal;)*) => {
        /// A limit whose use is published.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Limit {
            $(#[doc = $help] $variant,)*
        }

        impl Limit {
            /// All of them in the order of their numbers.
            pub const ALL: [Self; [$($key),*].len()] = [$(Self::$variant),*];
            /// Number of limits.
            pub const COUNT: usize = Self::ALL.len();

            /// Its key in the configuration.
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$variant => $key,)*
                }
            }
        }
    };
}

limits! {
    Lanes: "limits.lanes", "Lanes of all clients.";
    LanesPerClient: "limits.lanes_per_client", "Lanes of one process.";
    LanesPerUid: "limits.lanes_per_uid", "Lanes of one user.";
    ClientsPerUid: "limits.clients_per_uid", "Processes of one user with lanes.";
    ArenaBytesPerClient: "limits.arena_bytes_per_client", "Arena bytes of one process.";
    LaneBytesPerUid: "limits.lane_bytes_per_uid", "Bytes of the lanes of one user.";
    SessionsPerLane: "limits.sessions_per_lane", "Sessions of one lane.";
    SessionBytesPerClient: "limits.session_bytes_per_client", "Bytes of the sessions of one process.";
    SessionBytesPerUid: "limits.session_bytes_per_uid", "Bytes of the sessions of one user.";
    InFlight: "limits.in_flight", "Requests on the devices of one sidecore.";
    InFlightPerClient: "limits.in_flight_per_client", "Requests of one process on one sidecore.";
    Keys: "limits.keys", "Stored keys.";
    KeysPerCreator: "keys.creators.per_user", "Stored keys of one creator.";
}

/// Use of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// The limit.
    pub limit: Limit,
    /// The amount in use.
    pub used: u64,
    /// Most that may be in use.
    pub most: u64,
    /// The user, if the limit is one of users, processes or lanes.
    pub uid: Option<u32>,
}

impl LimitUse {
    /// Whether a larger part of its limit is in use than of the other's.
    pub fn is_fuller(&self, other: &Self) -> bool {
        u128::from(self.used) * u128::from(other.most) > u128::from(other.used) * u128::from(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(used: u64, most: u64) -> LimitUse {
        LimitUse { limit: Limit::Keys, used, most, uid: None }
    }

    #[test]
    fn the_larger_part_of_a_limit_counts_and_not_the_larger_amount() {
        assert!(of(3, 4).is_fuller(&of(30, 100)) && !of(30, 100).is_fuller(&of(3, 4)));
        assert!(of(u64::MAX, u64::MAX).is_fuller(&of(0, 1)) && !of(0, 7).is_fuller(&of(0, 1)));
    }
}
