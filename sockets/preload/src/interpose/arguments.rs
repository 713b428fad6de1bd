//! Variable arguments of an exec call, collected in a list that ends with null.

use super::catalogue::Strings;
use super::pages::Pages;
use super::processor::LISTED_IN_REGISTERS;
use libc::c_char;

pub(super) struct Listed {
    pages: Pages,
    next: *const c_char,
}

impl Listed {
    /// `None`: no memory is left.
    ///
    /// # Safety
    /// `first` has those in registers, and `rest` the others; null follows the last string, and one more word follows that.
    pub(super) unsafe fn of(first: Strings, rest: Strings) -> Option<Self> {
        // SAFETY: no word beyond that one is read.
        let at = |place: usize| unsafe {
            if place < LISTED_IN_REGISTERS {
                first.add(place).read()
            } else {
                rest.add(place - LISTED_IN_REGISTERS).read()
            }
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
