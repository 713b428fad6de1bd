//! Rings of the kernel's own. A program sends and closes by them unseen: from the first one on all its connections are on the
//! kernel.
//!
//! A program that is only linked with `liburing` makes none. These functions of it make one; each goes on in the library that its
//! caller means.

use super::errno;
use super::raw;
use super::real::{REAL, Real};
use libc::{Dl_info, c_int, c_void};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Files of `liburing`.
const FILES: &[u8] = b"liburing";

/// Runs before one of these functions. `caller` is a place in its caller's code. Returns the address to go on at.
fn before(real: &Real, caller: usize) -> usize {
    raw::by_the_kernel_alone();
    errno::kept(|| real.known().or_else(|| meant(real.name(), caller)).unwrap_or(missing as *const () as usize))
}

/// Defines what runs before functions of their names.
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

/// There is no such library. Its functions return an error's number below zero.
extern "C" fn missing() -> c_int {
    -libc::ENOSYS
}

/// The function of the caller's own object, or of one that was loaded for it alone.
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
    // SAFETY: any address may be asked for; `found` is a record also where nothing is written.
    unsafe {
        let is_found = libc::dladdr(std::ptr::without_provenance::<c_void>(address), found.as_mut_ptr()) != 0;
        let found = found.assume_init();
        (is_found && !found.dli_fname.is_null()).then_some(found)
    }
}

/// Whether a function is this library's.
fn is_here(address: usize) -> bool {
    let base = |address| object_of(address).map(|object| object.dli_fbase.addr());
    base(address) == base(missing as *const () as usize)
}

/// Whether the program itself has these functions, and calls them unseen.
pub(crate) fn has_rings_of_its_own() -> bool {
    // SAFETY: the name is a string that ends.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, REAL.io_uring_queue_init_params.name().as_ptr()) }.addr();
    found != 0 && !is_here(found)
}

/// Before a library is loaded by that name, which may be null: what asks it for these functions calls them unseen.
///
/// # Safety
/// A string that ends, or null.
pub(super) unsafe fn before_loading(name: *const libc::c_char) {
    if name.is_null() {
        return;
    }
    // SAFETY: as the caller promised.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if name.rsplit(|byte| *byte == b'/').next().is_some_and(|file| file.starts_with(FILES)) {
        raw::by_the_kernel_alone();
    }
}
