//! The lanes that a sidecore watches, in the order of their turns.

use crate::work::LaneId;
use alloc::vec::Vec;
use core::ops::Deref;

/// Marks the place of a lane that left.
const GAP: LaneId = LaneId(u32::MAX);
/// Most lanes that move up by one place. Before more of them a gap is left: moving would cost each turn the list's
/// length.
const MAX_MOVED: usize = 32;

/// The list. Gaps exist at most until [`Watched::close_gaps`].
#[derive(Debug)]
pub(super) struct Watched {
    places: Vec<LaneId>,
    gaps: usize,
}

impl Watched {
    pub(super) fn new(lanes: usize) -> Self {
        Self { places: Vec::with_capacity(2 * lanes), gaps: 0 }
    }

    pub(super) fn push(&mut self, id: LaneId) {
        self.places.push(id);
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&LaneId) -> bool) {
        self.places.retain(keep);
    }

    /// Moves the lane at this place to the end. Returns how far the following ones have moved
    /// up.
    #[inline]
    pub(super) fn put_last(&mut self, place: usize) -> usize {
        if self.places.len() - place <= MAX_MOVED {
            self.places[place..].rotate_left(1);
            return 1;
        }
        let id = core::mem::replace(&mut self.places[place], GAP);
        self.places.push(id);
        self.gaps += 1;
        0
    }

    /// For use between two rounds, which visit all places anyway.
    #[inline]
    pub(super) fn close_gaps(&mut self) {
        if self.gaps > 0 {
            self.gaps = 0;
            self.places.retain(|id| *id != GAP);
        }
    }
}

impl Deref for Watched {
    type Target = [LaneId];

    fn deref(&self) -> &[LaneId] {
        &self.places
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LANES: u32 = 65_535;

    fn watched(lanes: u32) -> Watched {
        let mut watched = Watched::new(lanes as usize);
        (0..lanes).for_each(|lane| watched.push(LaneId(lane)));
        watched
    }

    #[test]
    fn a_turn_that_is_cut_off_changes_few_places_of_a_long_list() {
        let mut watched = watched(LANES);
        let room = watched.places.capacity();
        for place in [0, 1, 2, 40_000, LANES as usize - 1] {
            let before = watched.to_vec();
            watched.put_last(place);
            let same = before.iter().zip(watched.iter()).filter(|(before, now)| before == now).count();
            assert!(before.len() - same <= MAX_MOVED, "{} places", before.len() - same);
        }
        // A round with every turn cut off.
        for place in (3..LANES as usize - MAX_MOVED).filter(|place| *place != 40_000) {
            watched.put_last(place);
        }
        watched.close_gaps();
        assert_eq!((watched.len(), watched.places.capacity()), (LANES as usize, room));
    }

    #[test]
    fn gaps_or_none_the_order_is_that_of_a_rotation() {
        for lanes in [1, 2, 33, 100] {
            let mut watched = watched(lanes);
            let mut model = watched.to_vec();
            for round in 0..20_usize {
                let (mut place, mut end, mut left) = (0, model.len(), 0);
                // Cuts off every nth lane.
                for number in 0..model.len() {
                    if (number + round).is_multiple_of(1 + round % 5) {
                        let moved = watched.put_last(place);
                        (place, end) = (place + 1 - moved, end - moved);
                        model[left..].rotate_left(1);
                    } else {
                        (place, left) = (place + 1, left + 1);
                    }
                    assert!(place <= end);
                }
                watched.close_gaps();
                assert_eq!(*watched, *model, "{lanes} lanes, round {round}");
            }
        }
    }
}
