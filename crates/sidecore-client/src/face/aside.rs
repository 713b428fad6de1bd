//! Work that a small stack has no room for: a program may give its threads 16 KiB, and its own kind of threads 32 KiB without
//! a guard page.

use crate::sys::stack;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Enough for everything that is done here, bytes.
const STACK_BYTES: usize = 256 << 10;
/// With less than this left of its stack, a thread goes on on another: enough for all but the work that goes [`aside`].
const LEAST: usize = 48 << 10;
/// With less than this left, a thread does work with large frames on another stack.
const LEAST_FOR_LARGE_FRAMES: usize = 128 << 10;

thread_local! {
    /// The thread is on a stack that [`with_room`] made.
    static ON_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Does what a program asks for. No panic reaches it: one becomes `failed`. Nor does its stack need much room.
pub fn guard<T>(failed: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(|| with_room(work))).unwrap_or(failed)
}

/// Does work on a stack with room for it. What is on no thread's own stack stays where it is, for it may pause in the work.
pub fn with_room<T>(work: impl FnOnce() -> T) -> T {
    if stack::left().is_none_or(|left| left >= LEAST) {
        return here(work);
    }
    stacker::grow(STACK_BYTES, || {
        let before = ON_OWN.replace(true);
        let done = here(work);
        ON_OWN.set(before);
        done
    })
}

/// Does work with large frames that does not pause, such as connecting and opening sessions: where little is left, or nobody
/// knows how much, on a stack of its own, elsewhere here. Not on a thread, for `HAProxy` lets its workers make none.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let has_room = stack::left().map_or_else(|| ON_OWN.get(), |left| left >= LEAST_FOR_LARGE_FRAMES);
    if has_room { here(work) } else { stacker::grow(STACK_BYTES, work) }
}

/// Keeps the frames of `work` out of the caller's.
#[inline(never)]
fn here<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Where the caller is.
    #[inline(never)]
    fn place() -> Option<usize> {
        stack::left()
    }

    #[test]
    fn a_large_stack_is_used_and_a_small_one_is_left() {
        let on = |bytes: usize, work: fn() -> Option<usize>| {
            thread::Builder::new().stack_size(bytes).spawn(work).unwrap().join().unwrap()
        };
        assert!(on(1 << 20, || with_room(place)).is_some());
        assert!(on(1 << 20, || aside(place)).is_some());
        assert_eq!(on(16 << 10, || with_room(place)), None);
        assert_eq!(on(96 << 10, || aside(place)), None);
        assert!(on(96 << 10, || with_room(place)).is_some());
    }

    #[test]
    fn a_stack_of_ours_is_not_left_for_another() {
        let nested = || with_room(|| aside(|| (ON_OWN.get(), aside(|| ON_OWN.get()))));
        let small = thread::Builder::new().stack_size(16 << 10);
        assert_eq!(small.spawn(nested).unwrap().join().unwrap(), (true, true));
        assert!(!ON_OWN.get());
    }

    #[test]
    fn what_is_left_shrinks_with_each_frame() {
        #[inline(never)]
        fn deeper() -> usize {
            let room = std::hint::black_box([0_u8; 4096]);
            stack::left().unwrap() + usize::from(room[17])
        }
        assert!(deeper() + 4096 <= stack::left().unwrap());
    }
}
