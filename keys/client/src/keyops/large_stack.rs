//! Runs work that needs more stack than a program provides: threads may have 16 KiB, and coroutines 32 KiB without a
//! guard page.

use sidecore_ipc::sys::stack;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Size of a stack made here, bytes: enough for all work of this crate.
const STACK_BYTES: usize = 256 << 10;
/// With less than this left, [`with_room`] switches to another stack, bytes. Enough for all work except that of
/// [`on_large_stack`].
const MIN_ROOM_BYTES: usize = 48 << 10;
/// With less than this left, [`on_large_stack`] switches to another stack, bytes.
const MIN_ROOM_FOR_LARGE_FRAMES_BYTES: usize = 128 << 10;

thread_local! {
    /// The thread is on a stack made by [`with_room`].
    static ON_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Runs work for a program: a panic becomes `failed`, and a small stack suffices.
pub fn guard<T>(failed: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(|| with_room(work))).unwrap_or(failed)
}

/// Runs work on a stack with enough room. Work on a coroutine's stack stays there, because it may pause.
pub fn with_room<T>(work: impl FnOnce() -> T) -> T {
    if stack::left().is_none_or(|left| left >= MIN_ROOM_BYTES) {
        return here(work);
    }
    stacker::grow(STACK_BYTES, || {
        let before = ON_OWN.replace(true);
        let done = here(work);
        ON_OWN.set(before);
        done
    })
}

/// Runs work with large frames that does not pause, such as connecting and opening sessions. It switches to a stack of
/// its own if the present one has little or an unknown amount of room. It makes no thread, because `HAProxy` forbids
/// them to its workers.
pub fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    let has_room = stack::left().map_or_else(|| ON_OWN.get(), |left| left >= MIN_ROOM_FOR_LARGE_FRAMES_BYTES);
    if has_room { here(work) } else { stacker::grow(STACK_BYTES, work) }
}

/// A call of its own keeps the frames of `work` out of the caller's frame.
#[inline(never)]
fn here<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[inline(never)]
    fn place() -> Option<usize> {
        stack::left()
    }

    /// Runs work in a thread with at most this number of bytes of stack left; C libraries make no smaller stack than
    /// 128 KiB for arm64.
    fn on<T: Send + 'static>(bytes: usize, work: fn() -> T) -> T {
        thread::Builder::new().stack_size(bytes).spawn(move || below(bytes, work)).unwrap().join().unwrap()
    }

    #[inline(never)]
    fn below<T>(bytes: usize, work: fn() -> T) -> T {
        let room = std::hint::black_box([0_u8; 1024]);
        let done = if stack::left().is_some_and(|left| left > bytes) { below(bytes, work) } else { work() };
        std::hint::black_box(room);
        done
    }

    #[test]
    fn a_large_stack_is_used_and_a_small_one_is_left() {
        assert!(on(1 << 20, || with_room(place)).is_some());
        assert!(on(1 << 20, || on_large_stack(place)).is_some());
        assert_eq!(on(16 << 10, || with_room(place)), None);
        assert_eq!(on(96 << 10, || on_large_stack(place)), None);
        assert!(on(96 << 10, || with_room(place)).is_some());
    }

    #[test]
    fn a_stack_of_ours_is_not_left_for_another() {
        let nested = || with_room(|| on_large_stack(|| (ON_OWN.get(), on_large_stack(|| ON_OWN.get()))));
        assert_eq!(on(16 << 10, nested), (true, true));
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
