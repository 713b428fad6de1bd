//! Functions of the libcrypto that loaded this provider.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

/// The libcrypto that called us, even if there are several; else the one visible in the program.
pub(super) struct Libcrypto {
    handle: *mut c_void,
    /// Where the loader put the file with libcrypto.
    place: Range<usize>,
}

impl Libcrypto {
    pub(super) fn with(address: *const c_void) -> Self {
        // SAFETY: zeros are such a structure; any address is allowed; the name is the loader's.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(address, &raw mut info) != 0 && !info.dli_fname.is_null() {
                let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if !handle.is_null() {
                    return Self { handle, place: place_of(address.addr()) };
                }
            }
        }
        Self { handle: libc::RTLD_DEFAULT, place: 0..usize::MAX }
    }

    /// The function of this name. The loader also looks in the libraries that the file needs. One of these may be
    /// another libcrypto, which must not get our libcrypto's objects, so only the file's own functions count.
    pub(super) fn address(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a handle of the loader and a C string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null() && self.place.contains(&address.addr())).then_some(address)
    }
}

/// The loaded file with this address, from the beginning of its first segment to the end of its last.
fn place_of(address: usize) -> Range<usize> {
    struct Search {
        address: usize,
        found: Range<usize>,
    }

    /// # Safety
    /// Only the loader may call it, with a `Search`.
    unsafe extern "C" fn look(file: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: `dl_iterate_phdr` calls with a valid entry and with the pointer that it was given, to a `Search` that nobody
        // else uses meanwhile.
        let (file, search) = unsafe { (&*file, &mut *search.cast::<Search>()) };
        // SAFETY: the loader's table of segments has `dlpi_phnum` entries, by dl_iterate_phdr(3).
        let segments = unsafe { std::slice::from_raw_parts(file.dlpi_phdr, file.dlpi_phnum.into()) };
        let places = segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD).map(|segment| {
            let start = (file.dlpi_addr as usize).wrapping_add(segment.p_vaddr as usize);
            start..start + segment.p_memsz as usize
        });
        if places.clone().any(|place| place.contains(&search.address)) {
            let all = |all: Range<usize>, place: Range<usize>| all.start.min(place.start)..all.end.max(place.end);
            search.found = places.reduce(all).unwrap_or(0..0);
            return 1;
        }
        0
    }

    let mut search = Search { address, found: 0..0 };
    // SAFETY: `look` gets the search, and keeps nothing of it.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    if search.found.is_empty() { 0..usize::MAX } else { search.found }
}

/// A structure of libcrypto's functions, found by name. Each type is that of the function in OpenSSL's headers.
macro_rules! functions_of_libcrypto {
    ($(#[$doc:meta])* $own:ident {
        $($field:ident = $name:literal: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        struct $own {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $own {
            /// `None`: libcrypto lacks a function.
            fn find(library: &Libcrypto) -> Option<Self> {
                // SAFETY: OpenSSL's functions of these names have these types in all its versions since 3.0.
                unsafe { Some(Self { $($field: std::mem::transmute_copy(&library.address($name)?),)* }) }
            }
        }
    };
}
pub(super) use functions_of_libcrypto;
