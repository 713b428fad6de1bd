//! Limits of simultaneous clients of a peer, in all and from one address.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

const MAX_CLIENTS: usize = 4;
/// Most clients from one address: one to measure, and one to check the path.
const MAX_CLIENTS_OF_ADDRESS: usize = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct ClientSlots(Arc<Mutex<Vec<IpAddr>>>);

/// A slot, free again on drop.
#[derive(Debug)]
pub(super) struct ClientSlot {
    all: ClientSlots,
    whose: IpAddr,
}

impl ClientSlots {
    pub(super) fn take(&self, whose: IpAddr) -> Result<ClientSlot, &'static str> {
        let whose = network(whose);
        self.with(|taken| {
            if taken.len() >= MAX_CLIENTS {
                return Err("this peer is busy: it takes four near ends at a time");
            }
            if taken.iter().filter(|other| **other == whose).count() >= MAX_CLIENTS_OF_ADDRESS {
                return Err("this peer is busy with two near ends of this address");
            }
            taken.push(whose);
            Ok(ClientSlot { all: self.clone(), whose })
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<IpAddr>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for ClientSlot {
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
        let slots = ClientSlots::default();
        let take = |address: &str| slots.take(address.parse().unwrap());
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
