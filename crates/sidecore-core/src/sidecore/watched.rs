//! The lanes that a sidecore looks at, in the order of their turns.

use crate::work::LaneId;
use alloc::vec::Vec;
use core::ops::Deref;

/// Stands in a place that a lane has left.
const GAP: LaneId = LaneId(u32::MAX);
/// Behind a place with so many others a lane leaves a gap: to move them would cost each turn the length of the list.
const MAX_MOVED: usize = 32;

/// The list. It has gaps at most until [`Watched::close_gaps`].
#[derive(Debug)]
pub(super) struct Watched {
    places: Vec<LaneId>,
    gaps: usize,
}

impl Watched {
    /// Takes the memory for so many lanes, each of which may leave a gap.
    pub(super) fn new(lanes: usize) -> Self {
        Self { places: Vec::with_capacity(2 * lanes), gaps: 0 }
    }

    pub(super) fn push(&mut self, id: LaneId) {
        self.places.push(id);
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&LaneId) -> bool) {
        self.places.retain(keep);
    }

    /// The lane at this place comes last. Returns by how many places those behind it have moved up.
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

    /// Between two rounds: each of them looks at all places anyway.
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
        // A round in which each turn is cut off.
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
                // Every so manyth lane is cut off.
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
