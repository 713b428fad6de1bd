//! Limits of simultaneous clients of a peer, in all and from one address.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

const MOST: usize = 4;
/// Most clients from one address: one to measure, and one to check the path.
const MOST_OF_ONE: usize = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Vec<IpAddr>>>);

/// A place, free again on drop.
#[derive(Debug)]
pub(super) struct Place {
    all: Places,
    whose: IpAddr,
}

impl Places {
    /// # Errors
    /// All places are taken.
    pub(super) fn take(&self, whose: IpAddr) -> Result<Place, &'static str> {
        let whose = network(whose);
        self.with(|taken| {
            if taken.len() >= MOST {
                return Err("this peer is busy: it takes four near ends at a time");
            }
            if taken.iter().filter(|other| **other == whose).count() >= MOST_OF_ONE {
                return Err("this peer is busy with two near ends of this address");
            }
            taken.push(whose);
            Ok(Place { all: self.clone(), whose })
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<IpAddr>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.with(|taken| {
            if let Some(at) = taken.iter().position(|other| *other == self.whose) {
                taken.swap_remove(at);
            }
        });
    }
}

/// A machine with IPv6 may use any address of its network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_takes_all_places_and_each_is_free_again() {
        let places = Places::default();
        let take = |address: &str| places.take(address.parse().unwrap());
        let first = take("192.0.2.1").unwrap();
        let _second = take("::ffff:192.0.2.1").unwrap();
        assert!(take("192.0.2.1").unwrap_err().contains("two near ends of this address"));
        let _third = take("2001:db8::1").unwrap();
        let _fourth = take("2001:db8::2").unwrap();
        assert!(take("192.0.2.2").unwrap_err().contains("four near ends"));
        drop(first);
        assert!(take("2001:db8::3").unwrap_err().contains("of this address"), "the same network");
        assert!(take("192.0.2.1").is_ok());
    }
}
