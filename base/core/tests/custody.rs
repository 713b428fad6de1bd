//! A model of services that move one key among each other, explored exhaustively: in no order of events, with crashes
//! and losses at each step, is the key deleted everywhere.
//!
//! Left out is what the store decides before: a receipt is that of its seal, and comes over the connection that sealed. A
//! crash of a service ends its connections, so its earlier seals delete nothing any more; the key at rest stays. A sealed
//! key can arrive any number of times, also long after.

use sidecore_core::custody::{Custody, Seal};
use std::collections::BTreeSet;

/// What a service does about its own seals when it gives a receipt for a key.
#[derive(Clone, Copy, PartialEq)]
enum Promise {
    /// The rule of the product.
    ToAnyone,
    /// A twin that must fail: earlier seals stay valid.
    Nothing,
    /// A twin that must fail: only seals for the service that gets the receipt become void.
    ToSenderOnly,
}

#[derive(Clone, Debug)]
struct Parcel {
    from: usize,
    to: usize,
    seal: Seal,
    /// The connection that sealed it is open, and it has not deleted by it.
    waits: bool,
    receipt: bool,
}

#[derive(Clone, Debug)]
struct World {
    keys: Vec<Option<Custody>>,
    parcels: Vec<Parcel>,
    numbers: u64,
}

/// What decides everything that can still happen: numbers are compared for equality only.
type Shape = (Vec<bool>, Vec<(usize, usize, bool, bool)>);

impl World {
    fn shape(&self) -> Shape {
        let keys = self.keys.iter().map(Option::is_some).collect();
        let mut parcels: Vec<_> =
            self.parcels.iter().map(|parcel| (parcel.from, parcel.to, self.fits(parcel), parcel.receipt)).collect();
        parcels.sort_unstable();
        (keys, parcels)
    }

    /// Whether its receipt would delete the key.
    fn fits(&self, parcel: &Parcel) -> bool {
        parcel.waits && self.keys[parcel.from].is_some_and(|key| key.may_delete(parcel.seal))
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// All worlds after one more event.
    fn next(&self, parcels: usize, promise: Promise) -> Vec<Self> {
        let services = self.keys.len();
        let mut next = Vec::new();
        let mut add = |event: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            event(&mut world);
            next.push(world);
        };
        for from in 0..services {
            add(&|world| world.crash(from));
            if let Some(key) = self.keys[from] {
                add(&|world| world.keys[from] = Some(Custody::new(world.number())));
                for to in (0..services).filter(|to| *to != from && self.parcels.len() < parcels) {
                    let parcel = Parcel { from, to, seal: key.seal(), waits: true, receipt: false };
                    add(&|world| world.parcels.push(parcel.clone()));
                }
            }
        }
        for (index, parcel) in self.parcels.iter().enumerate() {
            // A crash between the two leaves the key there, without a receipt.
            add(&|world| world.store(parcel.to));
            add(&|world| {
                world.store(parcel.to);
                world.give_receipt(index, promise);
            });
            if parcel.receipt && self.fits(parcel) {
                add(&|world| {
                    world.keys[parcel.from] = None;
                    world.parcels[index].waits = false;
                });
            }
        }
        next
    }

    fn crash(&mut self, service: usize) {
        self.parcels.iter_mut().filter(|parcel| parcel.from == service).for_each(|parcel| parcel.waits = false);
    }

    fn store(&mut self, service: usize) {
        let number = self.number();
        self.keys[service].get_or_insert(Custody::new(number));
    }

    fn give_receipt(&mut self, index: usize, promise: Promise) {
        let Parcel { from: sender, to: giver, .. } = self.parcels[index];
        let number = self.number();
        match promise {
            Promise::ToAnyone => self.keys[giver].iter_mut().for_each(|key| key.promise(number)),
            Promise::Nothing => {}
            Promise::ToSenderOnly => {
                let back = |parcel: &&mut Parcel| (parcel.from, parcel.to) == (giver, sender);
                self.parcels.iter_mut().filter(back).for_each(|parcel| parcel.waits = false);
            }
        }
        self.parcels[index].receipt = true;
    }
}

/// Number of different worlds, or one in which no service has the key.
fn explore(services: usize, parcels: usize, promise: Promise) -> Result<usize, World> {
    let (mut seen, mut open) = (BTreeSet::new(), Vec::new());
    // Each set of services that have the key at first.
    for holders in 1..1_u32 << services {
        let keys = (0..services).map(|at| (holders >> at & 1 == 1).then(|| Custody::new(0))).collect();
        open.push(World { keys, parcels: Vec::new(), numbers: 0 });
    }
    while let Some(world) = open.pop() {
        if world.keys.iter().all(Option::is_none) {
            return Err(world);
        }
        if seen.insert(world.shape()) {
            open.extend(world.next(parcels, promise));
        }
    }
    Ok(seen.len())
}

#[test]
fn in_no_order_of_events_is_the_key_deleted_everywhere() {
    for (services, parcels, least) in [(2, 6, 1_000), (3, 4, 20_000)] {
        let worlds = explore(services, parcels, Promise::ToAnyone);
        let worlds = worlds.unwrap_or_else(|world| panic!("the key is lost: {world:?}"));
        assert!(worlds > least, "{services} services: {worlds} worlds only");
    }
}

#[test]
fn the_model_finds_the_loss_where_a_receipt_promises_nothing() {
    assert!(explore(2, 2, Promise::Nothing).is_err());
    assert!(explore(3, 3, Promise::Nothing).is_err());
}

#[test]
fn the_model_finds_the_loss_in_a_ring_where_a_promise_is_kept_to_the_sender_only() {
    assert!(explore(2, 4, Promise::ToSenderOnly).is_ok(), "between two it is enough");
    assert!(explore(3, 3, Promise::ToSenderOnly).is_err());
}
