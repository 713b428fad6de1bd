//! Which of two states of a key is the newer one.
//!
//! A key that is replicated is changed at one service and sent to others. When a state arrives, the receiver must know
//! whether it comes after its own or before. Clocks do not tell: a sender whose clock is ten minutes ahead would put its
//! old key in the place of a newer one. So each state has a number, a digest of its content and of the state before, and
//! carries the numbers of earlier states. A state is newer than those that it names. Where neither names the other, both
//! were changed independently, and only the operator knows which is to stay.
//!
//! Two services that import the same key with the same terms begin with the same number. Where they began with different
//! ones (a user's number can differ between machines), the first arrival of equal content joins both lines.

use super::attributes::Attributes;
use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// Most earlier states that are named. A replica that missed more changes is not recognised as older, and the operator is
/// asked.
const MAX_EARLIER: usize = 64;

/// A state's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State([u8; 16]);

/// The number of a key's state, and those of earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    state: State,
    /// The latest first.
    earlier: Vec<State>,
}

/// A state, as seen from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Same,
    Newer,
    Older,
    /// Neither comes after the other.
    Apart,
}

impl Lineage {
    /// Of a key whose changes were not recorded.
    pub(crate) fn of(public: &[u8], attributes: &Attributes) -> Self {
        Self { state: State::after(State::default(), public, attributes), earlier: Vec::new() }
    }

    /// After a change to this content.
    pub(crate) fn changed(self, public: &[u8], attributes: &Attributes) -> Self {
        let state = State::after(self.state, public, attributes);
        Self { state, earlier: Vec::new() }.following(self)
    }

    /// Of a state whose content is that of both.
    pub(crate) fn joined(self, other: Self) -> Self {
        if self.age_of(&other) == Age::Older { self.following(other) } else { other.following(self) }
    }

    /// This state, which comes after the other as well.
    pub(crate) fn following(self, other: Self) -> Self {
        let earlier = self.earlier.into_iter().chain([other.state]).chain(other.earlier);
        Self { state: self.state, earlier: Vec::new() }.with_earlier(earlier)
    }

    /// What the other is to this. Where each names the other, an operator put an older one in the place of a newer one
    /// here, and here it counts.
    pub(crate) fn age_of(&self, other: &Self) -> Age {
        if self.state == other.state {
            Age::Same
        } else if self.earlier.contains(&other.state) {
            Age::Older
        } else if other.earlier.contains(&self.state) {
            Age::Newer
        } else {
            Age::Apart
        }
    }

    fn with_earlier(self, states: impl Iterator<Item = State>) -> Self {
        let mut earlier: Vec<State> = Vec::new();
        for state in states {
            if earlier.len() < MAX_EARLIER && state != self.state && !earlier.contains(&state) {
                earlier.push(state);
            }
        }
        Self { earlier, ..self }
    }
}

impl State {
    fn after(before: Self, public: &[u8], attributes: &Attributes) -> Self {
        let content = postcard::to_stdvec(&(public, attributes)).unwrap_or_default();
        let mut digest = Context::new(&SHA256);
        digest.update(&before.0);
        digest.update(&content);
        let mut state = Self::default();
        state.0.copy_from_slice(&digest.finish().as_ref()[..16]);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_client::keys::Acl;

    const KEY: &[u8] = b"public part";

    fn users(uid: u32) -> Attributes {
        Acl { uids: vec![uid], gids: vec![] }.into()
    }

    fn ages(one: &Lineage, other: &Lineage) -> [Age; 2] {
        [one.age_of(other), other.age_of(one)]
    }

    #[test]
    fn a_change_is_newer_than_all_that_it_came_from_also_when_it_undoes_one() {
        let first = Lineage::of(KEY, &users(1));
        let second = first.clone().changed(KEY, &users(2));
        let undone = second.clone().changed(KEY, &users(1));
        assert_eq!(ages(&first, &second), [Age::Newer, Age::Older]);
        assert_eq!(ages(&first, &undone), [Age::Newer, Age::Older]);
        assert_eq!(ages(&second, &undone), [Age::Newer, Age::Older]);
        assert_eq!(ages(&first, &first.clone()), [Age::Same, Age::Same]);
    }

    #[test]
    fn independent_changes_are_apart_and_the_same_change_is_the_same() {
        let first = Lineage::of(KEY, &users(1));
        let [here, there, also] = [2, 3, 2].map(|uid| first.clone().changed(KEY, &users(uid)));
        assert_eq!(ages(&here, &there), [Age::Apart, Age::Apart]);
        assert_eq!(ages(&here, &also), [Age::Same, Age::Same]);
        assert_eq!(ages(&first, &Lineage::of(b"another", &users(1))), [Age::Apart, Age::Apart]);
    }

    #[test]
    fn lines_that_were_joined_at_each_other_at_the_same_time_go_on_as_one() {
        let (one, other) = (Lineage::of(KEY, &users(1)), Lineage::of(KEY, &users(1001)));
        let (here, there) = (one.clone().joined(other.clone()), other.joined(one));
        let changed = here.clone().changed(KEY, &users(2));
        assert_eq!(there.age_of(&changed), Age::Newer);
        let changed = there.changed(KEY, &users(2));
        assert_eq!(here.age_of(&changed), Age::Newer);
    }

    #[test]
    fn joining_with_an_earlier_state_keeps_the_later_one() {
        let first = Lineage::of(KEY, &users(1));
        let back = first.clone().changed(KEY, &users(2)).changed(KEY, &users(1));
        for joined in [first.clone().joined(back.clone()), back.clone().joined(first.clone())] {
            assert_eq!((joined.age_of(&back), first.age_of(&joined)), (Age::Same, Age::Newer));
        }
    }

    #[test]
    fn what_an_operator_put_in_the_place_of_a_newer_state_stays_and_takes_later_changes() {
        let first = Lineage::of(KEY, &users(1));
        let newer = first.clone().changed(KEY, &users(2));
        let forced = first.clone().following(newer.clone());
        assert_eq!(forced.age_of(&newer), Age::Older);
        assert_eq!(forced.age_of(&first.changed(KEY, &users(3))), Age::Newer, "the sender's next change");
    }

    #[test]
    fn a_replica_that_missed_more_changes_than_are_named_is_apart() {
        let first = Lineage::of(KEY, &users(0));
        let after = |changes: u32| (1..=changes).fold(first.clone(), |line, uid| line.changed(KEY, &users(uid)));
        assert_eq!(first.age_of(&after(MAX_EARLIER as u32)), Age::Newer);
        assert_eq!(first.age_of(&after(MAX_EARLIER as u32 + 1)), Age::Apart);
    }
}
