//! Sets of classes: one bit for each class of the table.

use super::Class;

const BITS: usize = u64::BITS as usize;

/// A set of classes: one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes([u64; Classes::WORDS]);

impl Classes {
    /// Number of words that it takes.
    pub const WORDS: usize = Class::COUNT.div_ceil(BITS);

    /// Every class.
    pub fn all() -> Self {
        Class::all().collect()
    }

    /// Whether the class is in the set.
    #[inline]
    pub fn contains(&self, class: Class) -> bool {
        self.0[class.index() / BITS] >> (class.index() % BITS) & 1 != 0
    }

    /// Its classes in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Class> {
        Class::all().filter(|class| self.contains(*class))
    }

    /// The class with the least number in the lowest bit of the first word.
    pub fn to_words(self) -> [u64; Self::WORDS] {
        self.0
    }

    /// The set of words that [`Classes::to_words`] made. `None`: there is no class for a bit.
    pub fn from_words(words: [u64; Self::WORDS]) -> Option<Self> {
        let known = Self::all().0;
        words.iter().zip(known).all(|(word, known)| word & !known == 0).then_some(Self(words))
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Self {
        let mut set = Self::default();
        for class in classes {
            set.0[class.index() / BITS] |= 1 << (class.index() % BITS);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_comes_back_from_its_words() {
        const { assert!(Class::COUNT > BITS, "the table of the tests is longer than a word has bits") };
        for step in 1..=Class::COUNT {
            let picked = || Class::all().step_by(step);
            let set: Classes = picked().collect();
            assert!(set.iter().eq(picked()));
            assert_eq!(Classes::from_words(set.to_words()), Some(set));
        }
        assert!(Classes::all().iter().eq(Class::all()) && Classes::default().iter().next().is_none());
        assert_eq!(Classes::from_words([u64::MAX; Classes::WORDS]), None);
    }
}
