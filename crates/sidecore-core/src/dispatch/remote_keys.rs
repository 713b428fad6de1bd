//! Devices with remote keys: the keys on each of them, and requests that return undone.

use super::{DeviceState, Dispatch, Placement, Reach, Reassigned, Work};
use crate::inflight::Ticket;
use crate::time::Nanos;
use alloc::boxed::Box;

const BITS: u16 = u64::BITS as u16;
const WORDS: usize = (Reach::PLACES / BITS) as usize;

/// A set of keys, by their places.
#[derive(Clone, Debug)]
pub(super) struct RemoteKeys(Box<[u64; WORDS]>);

impl Default for RemoteKeys {
    fn default() -> Self {
        Self(Box::new([0; WORDS]))
    }
}

impl RemoteKeys {
    #[inline]
    pub(super) fn has(&self, reach: Reach) -> bool {
        reach.key().is_some_and(|key| self.0[usize::from(key / BITS)] >> (key % BITS) & 1 != 0)
    }

    fn set(&mut self, key: u16, holds: bool) {
        let key = key % Reach::PLACES;
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
        let limits = Limits { lanes: 1, clients: 1, in_flight: 8, quantum: 1 << 40, kept: 0 };
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
        let of = |reach| Work { reach, ..work(lane, 0) };
        let place = |dispatch: &mut Dispatch, reach| dispatch.place(0, of(reach));
        assert_eq!(place(&mut dispatch, Reach::elsewhere(KEY)), Placement::NoDevice, "it is not offered yet");
        assert_eq!(device_of(place(&mut dispatch, Reach::both(KEY))), here);
        dispatch.hold(there, KEY, true);
        assert_eq!(device_of(place(&mut dispatch, Reach::elsewhere(KEY))), there);
        assert_eq!(place(&mut dispatch, Reach::elsewhere(KEY + 1)), Placement::NoDevice, "another key");
        for _ in 0..3 {
            assert_eq!(device_of(place(&mut dispatch, Reach::HERE)), here);
        }
        // The local device has four requests now and the remote one has one.
        assert_eq!(device_of(place(&mut dispatch, Reach::both(KEY))), there);
        dispatch.hold(there, KEY, false);
        assert_eq!(place(&mut dispatch, Reach::elsewhere(KEY)), Placement::NoDevice, "it is withdrawn");
        dispatch.hold(here, KEY, true);
        assert_eq!(place(&mut dispatch, Reach::elsewhere(KEY)), Placement::NoDevice, "that one works here");
    }

    #[test]
    fn what_comes_back_undone_goes_to_another_device_or_is_given_up() {
        let (mut dispatch, lane) = dispatch();
        let [here, there] = [capability(1), remote(8)].map(|device| dispatch.add_device(device).unwrap());
        dispatch.hold(there, KEY, true);
        let given = |dispatch: &mut Dispatch, reach| match dispatch.place(0, Work { reach, ..work(lane, 0) }) {
            Placement::Assigned(given) => given.ticket,
            other => panic!("{other:?}"),
        };
        let only = given(&mut dispatch, Reach::elsewhere(KEY));
        assert!(matches!(dispatch.pass_on(0, only), Some(Reassigned::Abandoned(_))), "nobody else has it");
        assert_eq!((dispatch.pass_on(0, only), dispatch.device_load(there).in_flight), (None, 0), "the ticket is void");
        let first = given(&mut dispatch, Reach::HERE);
        let second = given(&mut dispatch, Reach::both(KEY));
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
    fn a_reach_survives_its_number_and_no_other_number_is_one() {
        for key in [0, 1, Reach::PLACES - 1] {
            for reach in [Reach::HERE, Reach::both(key), Reach::elsewhere(key)] {
                assert_eq!(Reach::from_number(reach.to_number()), Some(reach));
            }
            assert_eq!(Reach::both(key).key(), Some(key));
            assert!(Reach::both(key).is_here() && !Reach::elsewhere(key).is_here());
        }
        for wrong in [Reach::PLACES + 1, 1 << 15, (1 << 15) + Reach::PLACES + 1, u16::MAX] {
            assert_eq!(Reach::from_number(wrong), None);
        }
    }

    #[test]
    fn a_device_of_other_machines_keeps_a_set_of_keys() {
        let mut keys = RemoteKeys::default();
        for key in (0..Reach::PLACES).step_by(3) {
            keys.set(key, true);
        }
        keys.set(3, false);
        for key in 0..Reach::PLACES {
            assert_eq!(keys.has(Reach::both(key)), key != 3 && key % 3 == 0);
        }
        assert!(!keys.has(Reach::HERE));
    }
}
