//! Use of the configured limits: of the whole service, or of the lane, process or user with the fullest share.

use crate::layout::header;
use crate::{Counters, Snapshot};

/// Words of one limit in the file: used amount, limit, user plus 1.
pub(super) const LIMIT_WORDS: usize = 3;

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

impl Counters {
    /// Present use of a limit.
    pub fn set_limit(&self, of: &LimitUse) {
        let first = header::LIMITS + of.limit as usize * LIMIT_WORDS;
        let values = [of.used, of.most, of.uid.map_or(0, |uid| u64::from(uid) + 1)];
        values.into_iter().enumerate().for_each(|(i, value)| self.set(first + i, value));
    }
}

/// The published limits in the words of a file's header.
pub(super) fn read(head: &[u64]) -> Vec<LimitUse> {
    let words = head[header::LIMITS..].chunks_exact(LIMIT_WORDS);
    let uses = Limit::ALL.into_iter().zip(words).map(|(limit, words)| {
        let uid = words[2].checked_sub(1).and_then(|uid| u32::try_from(uid).ok());
        LimitUse { limit, used: words[0], most: words[1], uid }
    });
    uses.filter(|of| of.most > 0).collect()
}

impl Snapshot {
    /// Use of that limit, if it is published.
    pub fn limit(&self, limit: Limit) -> Option<&LimitUse> {
        self.limits.iter().find(|of| of.limit == limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::tests::Scratch;

    fn of(used: u64, most: u64) -> LimitUse {
        LimitUse { limit: Limit::Keys, used, most, uid: None }
    }

    #[test]
    fn limits_come_back_with_their_users_and_unpublished_ones_do_not() {
        let scratch = Scratch::new();
        let counters = scratch.counters();
        assert!(scratch.read().limits.is_empty());
        let last = LimitUse { limit: Limit::KeysPerCreator, used: 3, most: 16, uid: Some(u32::MAX) };
        counters.set_limit(&of(200, 256));
        counters.set_limit(&last);
        let seen = scratch.read();
        assert_eq!(seen.limits, [of(200, 256), last]);
        assert_eq!((seen.limit(Limit::Keys), seen.limit(Limit::Lanes)), (Some(&of(200, 256)), None));
        counters.set_limit(&of(0, 0));
        assert_eq!(scratch.read().limits, [last]);
    }

    #[test]
    fn the_larger_part_of_a_limit_counts_and_not_the_larger_amount() {
        assert!(of(3, 4).is_fuller(&of(30, 100)) && !of(30, 100).is_fuller(&of(3, 4)));
        assert!(of(u64::MAX, u64::MAX).is_fuller(&of(0, 1)) && !of(0, 7).is_fuller(&of(0, 1)));
    }
}
