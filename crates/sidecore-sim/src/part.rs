//! Physical parts of which worlds are made, and the tables of the service that decides in them.

pub(crate) mod cpu;
pub(crate) mod pipe;

use sidecore_core::dispatch::{Capability, Dispatch, Limits};
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;

/// As many clients as there may be, each with one lane, so many in flight and this way to wait; and the devices.
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
