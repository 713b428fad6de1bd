//! The unwinder's functions, which this library calls at a panic and where a thread is cancelled inside it.
//!
//! Their library, `libgcc_s`, is loaded at the first such call, as the C library does for its own needs. As a dependency
//! it would be loaded with each program, and take a third of the time by which this library delays the start of a
//! short one. The functions are hidden: no other library of the program may find them here.

use super::processor;
use std::ffi::CStr;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

const LIBRARY: &CStr = c"libgcc_s.so.1";

/// Defines functions that jump to those of the library, with all arguments and the return address in place: the
/// unwinder begins with the frame of its caller.
macro_rules! unwinder {
    ($($symbol:literal $name:ident $before:ident;)*) => {
        $(
            extern "C" fn $before() -> usize {
                static ADDRESS: AtomicUsize = AtomicUsize::new(0);
                match ADDRESS.load(Ordering::Relaxed) {
                    0 => find(concat!($symbol, "\0"), &ADDRESS),
                    address => address,
                }
            }

            /// # Safety
            /// As for the unwinder's function of this name.
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                processor::after!($before)
            }

            // The name that the linker finds: hidden, which an attribute of Rust cannot say.
            std::arch::global_asm!(
                concat!(".globl ", $symbol),
                concat!(".hidden ", $symbol),
                concat!(".type ", $symbol, ",@function"),
                concat!($symbol, ":"),
                ".cfi_startproc",
                processor::jump_to!(),
                ".cfi_endproc",
                function = sym $name,
            );
        )*
    };
}

unwinder! {
    "_Unwind_Backtrace" backtrace before_backtrace;
    "_Unwind_DeleteException" delete_exception before_delete_exception;
    "_Unwind_GetCFA" get_cfa before_get_cfa;
    "_Unwind_GetDataRelBase" get_data_rel_base before_get_data_rel_base;
    "_Unwind_GetIP" get_ip before_get_ip;
    "_Unwind_GetIPInfo" get_ip_info before_get_ip_info;
    "_Unwind_GetLanguageSpecificData" get_language_specific_data before_get_language_specific_data;
    "_Unwind_GetRegionStart" get_region_start before_get_region_start;
    "_Unwind_GetTextRelBase" get_text_rel_base before_get_text_rel_base;
    "_Unwind_RaiseException" raise_exception before_raise_exception;
    "_Unwind_Resume" resume before_resume;
    "_Unwind_SetGR" set_gr before_set_gr;
    "_Unwind_SetIP" set_ip before_set_ip;
}

/// The function's address. Without it nothing can be unwound: the process ends, as it does where the C library lacks it.
#[cold]
fn find(symbol: &'static str, found: &AtomicUsize) -> usize {
    let address = CStr::from_bytes_with_nul(symbol.as_bytes()).map_or(0, |symbol| {
        // SAFETY: both names are terminated strings; the library stays loaded.
        unsafe {
            let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW);
            if library.is_null() { 0 } else { libc::dlsym(library, symbol.as_ptr()).expose_provenance() }
        }
    });
    if address == 0 {
        process::abort();
    }
    found.store(address, Ordering::Relaxed);
    address
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    fn fails(_held: Rc<()>) {
        panic!("meant");
    }

    #[test]
    fn a_panic_is_unwound_and_what_it_passes_is_dropped() {
        let held = Rc::new(());
        let passed = held.clone();
        let caught = catch_unwind(AssertUnwindSafe(move || fails(passed)));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"meant"));
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
