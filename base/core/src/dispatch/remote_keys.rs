//! Devices with remote keys: the keys on each of them, and requests that return undone.

use super::{DeviceState, Dispatch, KeyLocation, Placement, Reassigned, Work};
use crate::inflight::Ticket;
use crate::time::Nanos;
use alloc::boxed::Box;

const BITS: u16 = u64::BITS as u16;
const WORDS: usize = (KeyLocation::PLACES / BITS) as usize;

#[derive(Clone, Debug)]
pub(super) struct RemoteKeys(Box<[u64; WORDS]>);

impl Default for RemoteKeys {
    fn default() -> Self {
        Self(Box::new([0; WORDS]))
    }
}

impl RemoteKeys {
    #[inline]
    pub(super) fn has(&self, key_location: KeyLocation) -> bool {
        key_location.key().is_some_and(|key| self.0[usize::from(key / BITS)] >> (key % BITS) & 1 != 0)
    }

    fn set(&mut self, key: u16, holds: bool) {
        let key = key % KeyLocation::PLACES;
        let word = &mut self.0[usize::from(key / BITS)];
        *word = *word & !(1 << (key % BITS)) | u64::from(holds) << (key % BITS);
    }
}

impl Dispatch {
    /// The device holds, or no longer holds, the key of this place. Local devices do not change.
    pub fn hold(&mut self, device: usize, key: u16, holds: bool) {
        if let Some(keys) = &mut self.devices[device].remote_keys {
            keys.set(key, holds);
        }
    }

    /// Takes a request back from a device that has not done it and never will, and gives it to another device, as
    /// [`Dispatch::reassign`] does. The request is abandoned where no other device can do it.
    pub fn pass_on(&mut self, now: Nanos, ticket: Ticket) -> Option<Reassigned> {
        let device = self.device_of(ticket)?;
        self.without(device, |others| others.reassign(now, ticket))
    }

    /// Chooses another device than this one for a request and counts it as given, as [`Dispatch::place`] does.
    pub fn place_not_on(&mut self, now: Nanos, device: usize, work: Work) -> Placement {
        self.without(device, |others| others.place(now, work))
    }

    /// Runs `act` while the device counts as unusable. Prices stay as they are, since the device returns immediately.
    fn without<T>(&mut self, device: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let (state, usable) = (self.devices[device].state, self.loads[device].usable);
        (self.devices[device].state, self.loads[device].usable) = (DeviceState::Draining, false);
        let acted = act(self);
        (self.devices[device].state, self.loads[device].usable) = (state, usable);
        acted
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tests::{capability, remote, work};
    use super::super::{Balance, ClientId, Limits};
    use super::*;
    use crate::work::LaneId;

    const KEY: u16 = 7;

    fn dispatch() -> (Dispatch, LaneId) {
        let limits = Limits { lanes: 1, clients: 1, in_flight: 8, quantum: 1 << 40, deferred: 0 };
        let mut dispatch = Dispatch::new(limits, Balance::Eft);
        let client: ClientId = dispatch.add_client(1, 8).unwrap();
        let lane = dispatch.add_lane(client, crate::policy::notify::Notify::Park).unwrap();
        (dispatch, lane)
    }

    fn device_of(placed: Placement) -> usize {
        match placed {
            Placement::Assigned(given) => given.device,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_goes_where_its_key_is() {
        let (mut dispatch, lane) = dispatch();
        let [here, there] = [capability(8), remote(8)].map(|device| dispatch.add_device(device).unwrap());
        let of = |key_location| Work { key_location, ..work(lane, 0) };
        let place = |dispatch: &mut Dispatch, key_location| dispatch.place(0, of(key_location));
        assert_eq!(place(&mut dispatch, KeyLocation::remote(KEY)), Placement::NoDevice, "it is not offered yet");
        assert_eq!(device_of(place(&mut dispatch, KeyLocation::both(KEY))), here);
        dispatch.hold(there, KEY, true);
        assert_eq!(device_of(place(&mut dispatch, KeyLocation::remote(KEY))), there);
        assert_eq!(place(&mut dispatch, KeyLocation::remote(KEY + 1)), Placement::NoDevice, "another key");
        for _ in 0..3 {
            assert_eq!(device_of(place(&mut dispatch, KeyLocation::LOCAL)), here);
        }
        // The local device has four requests now and the remote one has one.
        assert_eq!(device_of(place(&mut dispatch, KeyLocation::both(KEY))), there);
        dispatch.hold(there, KEY, false);
        assert_eq!(place(&mut dispatch, KeyLocation::remote(KEY)), Placement::NoDevice, "it is withdrawn");
        dispatch.hold(here, KEY, true);
        assert_eq!(place(&mut dispatch, KeyLocation::remote(KEY)), Placement::NoDevice, "that one works here");
    }

    #[test]
    fn what_comes_back_undone_goes_to_another_device_or_is_given_up() {
        let (mut dispatch, lane) = dispatch();
        let [here, there] = [capability(1), remote(8)].map(|device| dispatch.add_device(device).unwrap());
        dispatch.hold(there, KEY, true);
        let given =
            |dispatch: &mut Dispatch, key_location| match dispatch.place(0, Work { key_location, ..work(lane, 0) }) {
                Placement::Assigned(given) => given.ticket,
                other => panic!("{other:?}"),
            };
        let only = given(&mut dispatch, KeyLocation::remote(KEY));
        assert!(matches!(dispatch.pass_on(0, only), Some(Reassigned::Abandoned(_))), "nobody else has it");
        assert_eq!((dispatch.pass_on(0, only), dispatch.device_load(there).in_flight), (None, 0), "the ticket is void");
        let first = given(&mut dispatch, KeyLocation::LOCAL);
        let second = given(&mut dispatch, KeyLocation::both(KEY));
        assert_eq!(dispatch.device_of(second), Some(there));
        let Some(Reassigned::Wait(waits)) = dispatch.pass_on(0, second) else { panic!("there is no room here") };
        assert_eq!(dispatch.device_load(there).in_flight, 0);
        dispatch.complete(first, None).unwrap();
        let Some(Reassigned::Assigned(given)) = dispatch.reassign(0, waits) else { panic!("there is room") };
        assert_eq!(given.device, here);
    }

    #[test]
    fn a_device_that_is_left_out_is_there_again_afterwards() {
        let (mut dispatch, lane) = dispatch();
        let [first, second] = [capability(1), capability(1)].map(|device| dispatch.add_device(device).unwrap());
        assert_eq!(device_of(dispatch.place_not_on(0, first, work(lane, 0))), second);
        assert_eq!(dispatch.place_not_on(0, first, work(lane, 0)), Placement::Full, "the other one has no room");
        assert_eq!(device_of(dispatch.place(0, work(lane, 0))), first);
    }

    #[test]
    fn a_location_survives_its_number_and_no_other_number_is_one() {
        for key in [0, 1, KeyLocation::PLACES - 1] {
            for key_location in [KeyLocation::LOCAL, KeyLocation::both(key), KeyLocation::remote(key)] {
                assert_eq!(KeyLocation::from_number(key_location.to_number()), Some(key_location));
            }
            assert_eq!(KeyLocation::both(key).key(), Some(key));
            assert!(KeyLocation::both(key).is_local() && !KeyLocation::remote(key).is_local());
        }
        for wrong in [KeyLocation::PLACES + 1, 1 << 15, (1 << 15) + KeyLocation::PLACES + 1, u16::MAX] {
            assert_eq!(KeyLocation::from_number(wrong), None);
        }
    }

    #[test]
    fn a_device_of_other_machines_keeps_a_set_of_keys() {
        let mut keys = RemoteKeys::default();
        for key in (0..KeyLocation::PLACES).step_by(3) {
            keys.set(key, true);
        }
        keys.set(3, false);
        for key in 0..KeyLocation::PLACES {
            assert_eq!(keys.has(KeyLocation::both(key)), key != 3 && key % 3 == 0);
        }
        assert!(!keys.has(KeyLocation::LOCAL));
    }
}
