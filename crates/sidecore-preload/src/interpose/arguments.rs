//! Arguments of a program that a call has one behind the other, in a list that null ends.

use super::catalogue::Strings;
use super::pages::Pages;
use libc::c_char;

/// Strings that such a call has in registers, behind the first: the others are on the stack.
const IN_REGISTERS: usize = 5;

/// The same as a program gets them.
pub(super) struct Listed {
    pages: Pages,
    /// Arguments after the list.
    next: *const c_char,
}

impl Listed {
    /// `None`: there is no memory.
    ///
    /// # Safety
    /// In both places lie strings, the first five in the first one, with null behind the last and one more word behind that.
    pub(super) unsafe fn of(first: Strings, rest: Strings) -> Option<Self> {
        // SAFETY: none behind that word is asked for.
        let at = |place: usize| unsafe {
            if place < IN_REGISTERS { first.add(place).read() } else { rest.add(place - IN_REGISTERS).read() }
        };
        let mut count = 0;
        while !at(count).is_null() {
            count += 1;
        }
        let pages = Pages::take((count + 1) * size_of::<Strings>())?;
        for place in 0..=count {
            // SAFETY: so many were asked for.
            unsafe { pages.start().add(place).write(at(place)) };
        }
        Some(Self { pages, next: at(count + 1) })
    }

    pub(super) fn arguments(&self) -> Strings {
        self.pages.start().cast_const()
    }

    /// Arguments of the call after the list.
    pub(super) fn environment(&self) -> Strings {
        self.next.cast()
    }
}
