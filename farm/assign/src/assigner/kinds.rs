//! Kinds of events as numbers, in the order of their first appearance.

use sidecore_core::session::{Class, Classes};
use std::collections::HashMap;
use std::rc::Rc;

/// Kinds seen so far. Kinds beyond the limit share the last number and its learned rates.
#[derive(Debug, Default)]
pub(super) struct Kinds(HashMap<Rc<str>, Class>);

impl Kinds {
    pub(super) fn number(&mut self, kind: &str) -> (Rc<str>, Class) {
        if let Some((name, class)) = self.0.get_key_value(kind) {
            return (Rc::clone(name), *class);
        }
        let name: Rc<str> = kind.into();
        match Class::from_index(self.0.len()) {
            Some(class) => {
                self.0.insert(Rc::clone(&name), class);
                (name, class)
            }
            None => (name, last()),
        }
    }

    pub(super) fn numbers(&mut self, offers: &[&str]) -> Classes {
        match offers {
            [] => Classes::all(),
            some => some.iter().map(|kind| self.number(kind).1).collect(),
        }
    }
}

fn last() -> Class {
    Class::from_index(Class::COUNT - 1).expect("a number below their count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_numbers_in_the_order_of_their_coming_and_the_last_ones_share_one() {
        let mut kinds = Kinds::default();
        let class = |index| Class::from_index(index).unwrap();
        for index in 0..Class::COUNT {
            assert_eq!(kinds.number(&format!("k{index}")).1, class(index));
        }
        assert_eq!(kinds.number("k1").1, class(1));
        let (name, number) = kinds.number("one more");
        assert_eq!((&*name, number), ("one more", class(Class::COUNT - 1)));
        assert_eq!(kinds.numbers(&["k1", "another"]), [class(1), class(Class::COUNT - 1)].into_iter().collect());
        assert_eq!(kinds.numbers(&[]), Classes::all());
    }
}
