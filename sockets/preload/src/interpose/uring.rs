//! The kernel's own rings (`io_uring`). The library does not see sends and closes through them, so the
//! first one moves all of its connections to the kernel's path.
//! A program may be linked with `liburing` and never make a ring. The functions intercepted here make one; each
//! continues in the library that its caller means.
//! caller means.

use super::catalogue::REAL;
use super::errno;
use super::leaving;
use super::real::Real;
use libc::{Dl_info, c_int, c_void};
use std::ffi::CStr;
use std::mem::MaybeUninit;

const FILES: &[u8] = b"liburing";

/// Runs before one of these functions. `caller`: an address in its caller's code. Returns the address to continue at.
fn before(real: &Real, caller: usize) -> usize {
    leaving::by_the_kernel_alone();
    errno::kept(|| real.known().or_else(|| meant(real.name(), caller)).unwrap_or(missing as *const () as usize))
}

macro_rules! before {
    ($($name:ident $real:ident;)*) => {
        $(
            pub(super) extern "C" fn $name(_: usize, _: usize, _: usize, _: usize, _: usize, caller: usize) -> usize {
                before(&REAL.$real, caller)
            }
        )*
    };
}

before! {
    before_init io_uring_queue_init;
    before_init_params io_uring_queue_init_params;
    before_init_mem io_uring_queue_init_mem;
    before_mmap io_uring_queue_mmap;
    before_setup io_uring_setup;
}

/// Replaces functions of a missing library. They return an error's number, negated.
extern "C" fn missing() -> c_int {
    -libc::ENOSYS
}

/// The function in the caller's own object, or in a library loaded for it alone.
fn meant(name: &CStr, caller: usize) -> Option<usize> {
    let object = object_of(caller)?;
    // SAFETY: the name is the loader's own; the object is loaded, and stays so while its code runs.
    let found = unsafe {
        let object = libc::dlopen(object.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if object.is_null() {
            return None;
        }
        let found = libc::dlsym(object, name.as_ptr());
        libc::dlclose(object);
        found.addr()
    };
    (found != 0 && !is_here(found)).then_some(found)
}

fn object_of(address: usize) -> Option<Dl_info> {
    let mut found = MaybeUninit::<Dl_info>::zeroed();
    // SAFETY: any address may be passed; `found` is valid also if nothing is written.
    unsafe {
        let is_found = libc::dladdr(std::ptr::without_provenance::<c_void>(address), found.as_mut_ptr()) != 0;
        let found = found.assume_init();
        (is_found && !found.dli_fname.is_null()).then_some(found)
    }
}

fn is_here(address: usize) -> bool {
    let base = |address| object_of(address).map(|object| object.dli_fbase.addr());
    base(address) == base(missing as *const () as usize)
}

/// Whether the program itself contains these functions, and calls them without interception.
pub(crate) fn has_rings_of_its_own() -> bool {
    // SAFETY: the name is a terminated string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, REAL.io_uring_queue_init_params.name().as_ptr()) }.addr();
    found != 0 && !is_here(found)
}

/// Before a library with this name is loaded; null means none. A caller that looks up these functions in it calls them
/// without interception.
///
/// # Safety
/// The name is a terminated string, or null.
pub(super) unsafe fn before_loading(name: *const libc::c_char) {
    if name.is_null() {
        return;
    }
    // SAFETY: as the caller promised.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if name.rsplit(|byte| *byte == b'/').next().is_some_and(|file| file.starts_with(FILES)) {
        leaving::by_the_kernel_alone();
    }
}
