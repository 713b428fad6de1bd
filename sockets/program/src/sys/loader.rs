//! The dynamic loader of this process.

use libc::{PT_INTERP, c_int, c_void, dl_phdr_info, size_t};
use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

static OWN: OnceLock<Option<&'static CStr>> = OnceLock::new();

/// Path of the loader that this process's program names; `None`: it names none. The first call waits for a lock of the
/// loader, so signal handlers must not make it.
pub fn own() -> Option<&'static CStr> {
    *OWN.get_or_init(|| {
        let mut found = None;
        // SAFETY: `look` receives the place of the result, as it requires; that place lives until the call returns.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
        found
    })
}

/// Examines the program, which is the first object in the list.
///
/// # Safety
/// Only the loader may call it; `found` must point to an `Option<&CStr>`.
unsafe extern "C" fn look(program: *mut dl_phdr_info, _len: size_t, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a structure that it has filled in, with the number of headers that it states.
    let (base, segments) = unsafe {
        let program = &*program;
        if program.dlpi_phdr.is_null() {
            return 1;
        }
        (program.dlpi_addr, std::slice::from_raw_parts(program.dlpi_phdr, program.dlpi_phnum.into()))
    };
    let named = segments.iter().find(|segment| segment.p_type == PT_INTERP);
    // SAFETY: the kernel loaded the program, so its path is a terminated string in permanent memory; `found` is from `own`.
    unsafe {
        *found.cast::<Option<&'static CStr>>() =
            named.map(|segment| CStr::from_ptr(ptr::with_exposed_provenance((base + segment.p_vaddr) as usize)));
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_the_one_that_is_mapped() {
        let Some(own) = own() else { return };
        let path = fs::canonicalize(own.to_str().unwrap()).unwrap();
        assert!(fs::read_to_string("/proc/self/maps").unwrap().contains(path.to_str().unwrap()), "{}", path.display());
    }
}
