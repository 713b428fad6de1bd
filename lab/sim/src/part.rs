//! Physical parts of worlds, and the service's tables in them.

pub(crate) mod cpu;
pub(crate) mod pipe;

use sidecore_core::dispatch::{Capability, Dispatch, Limits};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;

/// A dispatch for the limits' number of clients, each with one lane, this limit in flight and this wait policy; with
/// these devices.
pub(crate) fn tables(
    limits: Limits,
    balance: Balance,
    notify: Notify,
    credit: u32,
    devices: impl Iterator<Item = Capability>,
) -> Dispatch {
    let mut dispatch = Dispatch::new(limits, balance);
    for _ in 0..limits.clients {
        let client = dispatch.add_client(1, credit);
        client.and_then(|client| dispatch.add_lane(client, notify)).expect("the tables have room for each client");
    }
    for device in devices {
        dispatch.add_device(device).expect("there are fewer devices than there may be");
    }
    dispatch
}
