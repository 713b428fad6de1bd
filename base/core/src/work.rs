//! A request as decisions see it: numbers, no payload.

use crate::session::Class;
use crate::time::Nanos;

/// Number of a client in its dispatch. Used again after the client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub u32);

/// Number of a lane in its dispatch. Used again after the lane is closed and its requests left the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneId(pub u32);

/// The location of a request's key: local, remote, or both. A request without a key of the service counts as local.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyLocation(u16);

impl KeyLocation {
    /// Only local devices can do it.
    pub const LOCAL: Self = Self(0);
    /// Keys have places below this number.
    pub const PLACES: u16 = 4096;
    /// Set: no local device can do it.
    const ONLY_REMOTE: u16 = 1 << 15;

    /// Only devices with the remote key of this place can do it.
    pub const fn remote(key: u16) -> Self {
        Self(Self::ONLY_REMOTE | Self::both(key).0)
    }

    /// The key of this place is local and remote.
    pub const fn both(key: u16) -> Self {
        Self(key % Self::PLACES + 1)
    }

    /// Whether local devices can do it.
    #[inline]
    pub const fn is_local(self) -> bool {
        self.0 & Self::ONLY_REMOTE == 0
    }

    /// The place of the key that may be remote. `None`: it is never remote.
    #[inline]
    pub fn key(self) -> Option<u16> {
        (self.0 & !Self::ONLY_REMOTE).checked_sub(1)
    }

    /// As a number.
    pub fn to_number(self) -> u16 {
        self.0
    }

    /// The location of a number that [`KeyLocation::to_number`] made.
    pub fn from_number(number: u16) -> Option<Self> {
        let location = Self(number);
        let known = match location.key() {
            Some(key) => key < Self::PLACES,
            None => location == Self::LOCAL,
        };
        known.then_some(location)
    }
}

/// A request as policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The lane it came from.
    pub lane: LaneId,
    /// The client's name for it.
    pub tag: u32,
    /// Algorithm and operation.
    pub class: Class,
    /// Bytes of input.
    pub size: u32,
    /// Announce its completion immediately.
    pub urgent: bool,
    /// The location of its key.
    pub key_location: KeyLocation,
    /// When it was submitted, if it is sampled.
    pub submitted: Option<Nanos>,
}
