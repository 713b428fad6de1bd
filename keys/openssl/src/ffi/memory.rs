//! libcrypto's allocator, from the provider's upcalls: key objects lie in the memory that a program sets by
//! `CRYPTO_set_mem_functions`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Most libcryptos in a process that can load the provider.
pub(super) const MAX_LIBRARIES: usize = 8;

type Zalloc = unsafe extern "C" fn(usize, *const c_char, c_int) -> *mut c_void;
type ClearFree = unsafe extern "C" fn(*mut c_void, usize, *const c_char, c_int);

static LIBRARIES: [OnceLock<(Zalloc, ClearFree)>; MAX_LIBRARIES] = [const { OnceLock::new() }; MAX_LIBRARIES];

/// Index of a libcrypto. It stays valid after the provider is unloaded: some programs free keys later.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory(u32);

impl Memory {
    /// The index for these functions. `None`: there are too many libcryptos.
    ///
    /// # Safety
    /// Both work on the same memory, at any time.
    pub(super) unsafe fn of(zalloc: Zalloc, clear_free: ClearFree) -> Option<Self> {
        let is = |library: &OnceLock<(Zalloc, ClearFree)>| {
            library.get_or_init(|| (zalloc, clear_free)).1 as usize == clear_free as usize
        };
        Some(Self(u32::try_from(LIBRARIES.iter().position(is)?).ok()?))
    }

    /// Number of the libcrypto, below [`MAX_LIBRARIES`].
    pub(super) fn library(self) -> usize {
        self.0 as usize
    }

    /// Zeroed memory of this length, at least 1, aligned for a `u64`. `None`: no memory is left.
    pub(super) fn zeroed(self, len: usize) -> Option<NonNull<u8>> {
        let (zalloc, _) = self.functions()?;
        // SAFETY: `CRYPTO_zalloc` takes any length above 0, and a name of a file that is a C string.
        let place = NonNull::new(unsafe { zalloc(len, c"sidecore".as_ptr(), 0) }.cast::<u8>())?;
        if place.cast::<u64>().is_aligned() {
            return Some(place);
        }
        // SAFETY: from there, with this length.
        unsafe { self.free(place, len) };
        None
    }

    /// Wipes and frees the memory.
    ///
    /// # Safety
    /// `place` is from [`Memory::zeroed`], with this length, and is not used afterwards.
    pub(super) unsafe fn free(self, place: NonNull<u8>, len: usize) {
        if let Some((_, clear_free)) = self.functions() {
            // SAFETY: the place is from this libcrypto's allocator, with this length, and nobody uses it afterwards.
            unsafe { clear_free(place.as_ptr().cast(), len, c"sidecore".as_ptr(), 0) };
        }
    }

    fn functions(self) -> Option<(Zalloc, ClearFree)> {
        LIBRARIES.get(self.0 as usize)?.get().copied()
    }
}
