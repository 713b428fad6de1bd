//! Variable arguments of an exec call, collected in a list that ends with null.

use super::catalogue::Strings;
use super::pages::Pages;
use libc::c_char;

/// Strings after the first one that such a call passes in registers; the others are on the stack.
const IN_REGISTERS: usize = 5;

pub(super) struct Listed {
    pages: Pages,
    next: *const c_char,
}

impl Listed {
    /// `None`: no memory is left.
    ///
    /// # Safety
    /// `first` has five strings, and `rest` the others; null follows the last string, and one more word follows that.
    pub(super) unsafe fn of(first: Strings, rest: Strings) -> Option<Self> {
        // SAFETY: no word beyond that one is read.
        let at = |place: usize| unsafe {
            if place < IN_REGISTERS { first.add(place).read() } else { rest.add(place - IN_REGISTERS).read() }
        };
        let mut count = 0;
        while !at(count).is_null() {
            count += 1;
        }
        let pages = Pages::take((count + 1) * size_of::<Strings>())?;
        for place in 0..=count {
            // SAFETY: `pages` was taken with room for this number of strings.
            unsafe { pages.start().add(place).write(at(place)) };
        }
        Some(Self { pages, next: at(count + 1) })
    }

    pub(super) fn arguments(&self) -> Strings {
        self.pages.start().cast_const()
    }

    pub(super) fn environment(&self) -> Strings {
        self.next.cast()
    }
}
