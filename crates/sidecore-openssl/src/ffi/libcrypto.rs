//! Functions of the libcrypto that loaded this provider.

use std::ffi::{CStr, c_void};

/// The libcrypto that called us, even if there are several; else the one visible in the program.
pub(super) struct Libcrypto(*mut c_void);

impl Libcrypto {
    pub(super) fn with(address: *const c_void) -> Self {
        // SAFETY: zeros are such a structure; any address is allowed; the name is the loader's.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(address, &raw mut info) != 0 && !info.dli_fname.is_null() {
                let library = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if !library.is_null() {
                    return Self(library);
                }
            }
        }
        Self(libc::RTLD_DEFAULT)
    }

    pub(super) fn address(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a handle of the loader and a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}
