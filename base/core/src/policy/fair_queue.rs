//! Turns of users: waiting work, shared by user and by time.
//!
//! Users with waiting work take turns. A turn ends when its work took a quantum, so a user with expensive items gets
//! fewer of them, and a user that brings a thousand waits a thousand times as long as another with one. That is
//! deficit round robin (Shreedhar and Varghese, 1995) with time in the place of bytes. Items are not interrupted: a
//! user waits at most for one item and one quantum of each other user.

use crate::time::Nanos;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Time of one user's turn, ns.
const QUANTUM: i64 = 50_000;

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<T>,
    /// Rest of its turn, ns; negative if overdrawn.
    left: i64,
}

/// Items `T` that wait, by user `K`.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    users: BTreeMap<K, Waiting<T>>,
    /// Users with items, and some without any more; the current user is first.
    order: VecDeque<K>,
    len: usize,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { users: BTreeMap::new(), order: VecDeque::new(), len: 0 }
    }
}

impl<K: Clone + Ord, T> FairQueue<K, T> {
    /// Items that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Waiting items of a user.
    pub fn len_of(&self, user: &K) -> usize {
        self.users.get(user).map_or(0, |waiting| waiting.items.len())
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts an item behind those of its user.
    pub fn push(&mut self, user: &K, item: T) {
        if !self.users.contains_key(user) {
            self.order.push_back(user.clone());
        }
        let new = || Waiting { items: VecDeque::new(), left: QUANTUM };
        let waiting = self.users.entry(user.clone()).or_insert_with(new);
        waiting.items.push_back(item);
        self.len += 1;
    }

    /// The next item and its user; charge that user for it.
    #[expect(clippy::should_implement_trait, reason = "it is no iterator: items come in between")]
    pub fn next(&mut self) -> Option<(K, T)> {
        loop {
            let user = self.order.front()?;
            let waiting = self.users.get_mut(user)?;
            if waiting.left <= 0 {
                waiting.left += QUANTUM;
                self.order.rotate_left(1);
                continue;
            }
            if let Some(item) = waiting.items.pop_front() {
                self.len -= 1;
                return Some((user.clone(), item));
            }
            self.users.remove(user);
            self.order.pop_front();
        }
    }

    /// Takes out the items of a user that are of no use any more.
    pub fn withdraw(&mut self, user: &K, useless: impl Fn(&T) -> bool) -> Vec<T> {
        let Some(waiting) = self.users.get_mut(user) else { return Vec::new() };
        let all = core::mem::take(&mut waiting.items).into_iter();
        let (taken, left): (Vec<T>, Vec<T>) = all.partition(useless);
        waiting.items = left.into();
        self.len -= taken.len();
        taken
    }

    /// Takes out the last item of the user with most items: a full queue costs its largest user.
    pub fn shed(&mut self) -> Option<T> {
        let most = self.users.values_mut().max_by_key(|waiting| waiting.items.len())?;
        let item = most.items.pop_back()?;
        self.len -= 1;
        Some(item)
    }

    /// Charges the user for work that took this time.
    pub fn charge(&mut self, user: &K, took: Nanos) {
        if let Some(waiting) = self.users.get_mut(user) {
            waiting.left -= took.min(1_000_000_000).cast_signed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves everything, with `cost` as the time of each item. Returns the users in order of service.
    fn serve(queue: &mut FairQueue<u32, u32>, cost: impl Fn(u32) -> Nanos) -> Vec<u32> {
        let mut served = Vec::new();
        while let Some((user, _)) = queue.next() {
            queue.charge(&user, cost(user));
            served.push(user);
        }
        served
    }

    #[test]
    fn one_item_waits_for_one_turn_of_each_other_user() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|item| queue.push(&1, item));
        (0..1000).for_each(|item| queue.push(&2, item));
        queue.push(&3, 0);
        let served = serve(&mut queue, |_| QUANTUM.cast_unsigned() / 2);
        assert_eq!(served.iter().position(|user| *user == 3), Some(4), "after two items of each other");
        assert_eq!(served.len(), 2001);
        assert!(queue.is_empty());
    }

    #[test]
    fn users_get_time_and_not_items() {
        let mut queue = FairQueue::default();
        for item in 0..1000 {
            queue.push(&1, item);
            queue.push(&2, item);
        }
        let mut taken = [0_u64; 3];
        for _ in 0..550 {
            let (user, _) = queue.next().unwrap();
            let took = if user == 1 { 2_000_000 } else { 20_000 };
            queue.charge(&user, took);
            taken[user as usize] += took;
        }
        let ratio = taken[1] as f64 / taken[2] as f64;
        assert!((0.7..1.5).contains(&ratio), "{taken:?}");
    }

    #[test]
    fn what_is_withdrawn_is_not_waited_for() {
        let mut queue = FairQueue::default();
        (0..10).for_each(|item| queue.push(&7, item));
        queue.push(&8, 3);
        assert_eq!(queue.withdraw(&7, |item| item % 2 == 1), [1, 3, 5, 7, 9]);
        assert!(queue.withdraw(&9, |_| true).is_empty());
        let left: Vec<(u32, u32)> = core::iter::from_fn(|| queue.next()).collect();
        assert_eq!((left.len(), left.contains(&(8, 3)), queue.is_empty()), (6, true, true));
    }

    #[test]
    fn a_full_queue_costs_the_user_with_most_its_last_item() {
        let mut queue = FairQueue::default();
        assert_eq!(queue.shed(), None);
        (0..100).for_each(|item| queue.push(&"many", item));
        (0..3).for_each(|item| queue.push(&"few", item));
        let shed: Vec<u32> = core::iter::from_fn(|| (queue.len() > 10).then(|| queue.shed()).flatten()).collect();
        assert_eq!(shed, (7..100).rev().collect::<Vec<_>>());
        let few = core::iter::from_fn(|| queue.next()).filter(|(user, _)| *user == "few").count();
        assert_eq!((few, queue.len()), (3, 0));
    }

    #[test]
    fn items_of_one_user_keep_their_order() {
        let mut queue = FairQueue::default();
        (0..10).for_each(|item| queue.push(&7, item));
        let order: Vec<u32> = core::iter::from_fn(|| queue.next().map(|(_, item)| item)).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
        queue.push(&7, 10);
        assert!(!queue.is_empty());
        assert_eq!(queue.next(), Some((7, 10)));
        assert!(queue.is_empty());
    }
}
