//! The functions of libcrypto that build objects of the old kind (`RSA`, `EC_KEY`) of what a key's `export` gives them.
//!
//! OpenSSL passes such a function to `export` as it passes those of other providers, and names none. So the one function
//! is learnt: a public key of our own becomes an object, and what `export` is called with then is it.

use super::abi::{Callback, select};
use super::libcrypto::{Libcrypto, functions_of_libcrypto};
use super::params::{List, Param};
use sidecore_client::keyops::key::{Curve, Family};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// OpenSSL's selection for such an object: all parts.
pub(super) const ALL: c_int = 0x87;

thread_local! {
    /// The function of the last export of a public key; stored while one is learnt.
    static SEEN: Cell<Option<usize>> = const { Cell::new(None) };
}

functions_of_libcrypto! {
    Functions {
        new_context = c"EVP_PKEY_CTX_new_from_name": fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
        init = c"EVP_PKEY_fromdata_init": fn(*mut c_void) -> c_int;
        from_data = c"EVP_PKEY_fromdata": fn(*mut c_void, *mut *mut c_void, c_int, *const Param) -> c_int;
        key_of_context = c"EVP_PKEY_CTX_get0_pkey": fn(*mut c_void) -> *mut c_void;
        free_context = c"EVP_PKEY_CTX_free": fn(*mut c_void);
        free_key = c"EVP_PKEY_free": fn(*mut c_void);
        set_mark = c"ERR_set_mark": fn() -> c_int;
        pop_to_mark = c"ERR_pop_to_mark": fn() -> c_int;
        get_rsa = c"EVP_PKEY_get0_RSA": fn(*mut c_void) -> *mut c_void;
        get_ec = c"EVP_PKEY_get0_EC_KEY": fn(*mut c_void) -> *mut c_void;
    }
}

/// Which functions build legacy objects.
pub(super) struct LegacyBuilder {
    /// `None`: libcrypto lacks a function, so nothing is learnt.
    functions: Option<Functions>,
    /// Addresses of the functions for `RSA` and `EC_KEY`; 0: not learnt yet.
    learnt: [AtomicUsize; 2],
}

impl LegacyBuilder {
    /// Looks up all functions at once: in a forked child the loader's lock may be held forever.
    pub(super) fn find(library: &Libcrypto) -> Self {
        Self { functions: Functions::find(library), learnt: [AtomicUsize::new(0), AtomicUsize::new(0)] }
    }

    /// Whether this function builds legacy objects of this family's keys; `library_context` has the provider.
    pub(super) fn is_made_by(&self, callback: Callback, family: Family, library_context: *mut c_void) -> bool {
        let (Some(functions), place @ 0..2) = (&self.functions, place(family)) else { return false };
        let learnt = &self.learnt[place];
        if learnt.load(Ordering::Relaxed) == 0 {
            learnt.store(functions.learn(family, library_context).unwrap_or(0), Ordering::Relaxed);
        }
        learnt.load(Ordering::Relaxed) == callback as usize
    }

    /// The object that such a function built in this context of a key; null: there is none.
    ///
    /// # Safety
    /// `context` is the argument that belongs to the function.
    pub(super) unsafe fn object_in(&self, context: *mut c_void, family: Family) -> *mut c_void {
        let Some(functions) = &self.functions else { return ptr::null_mut() };
        // SAFETY: that argument is the context of a key, by OpenSSL's `EVP_PKEY_fromdata`.
        unsafe {
            let key = (functions.key_of_context)(context);
            if family == Family::Rsa { (functions.get_rsa)(key) } else { (functions.get_ec)(key) }
        }
    }
}

fn place(family: Family) -> usize {
    match family {
        Family::Rsa => 0,
        Family::Ec => 1,
        Family::Raw(_) => 2,
    }
}

pub(super) fn note(selection: c_int, callback: Callback) {
    if selection & ALL == ALL {
        SEEN.set(Some(callback as usize));
    }
}

impl Functions {
    fn learn(&self, family: Family, library_context: *mut c_void) -> Option<usize> {
        let public = match family {
            Family::Rsa => List::default().number(c"n", &[0xff; 256]).number(c"e", &[1, 0, 1]),
            _ => List::default().text(c"group", Curve::P256.name()).bytes(c"pub", &P256_BASE),
        };
        SEEN.set(None);
        // SAFETY: these are OpenSSL's functions, called with objects that they made and with the library context of
        // this provider; OpenSSL holds none of its locks during an export.
        unsafe {
            (self.set_mark)();
            let context = (self.new_context)(library_context, family.name().as_ptr(), c"provider=sidecore".as_ptr());
            let mut key = ptr::null_mut();
            let made = !context.is_null() && (self.init)(context) > 0 && {
                let selection = ALL & !select::PRIVATE;
                public.with(|list| (self.from_data)(context, &raw mut key, selection, list)) > 0
            };
            if made {
                if family == Family::Rsa {
                    (self.get_rsa)(key)
                } else {
                    (self.get_ec)(key)
                };
            }
            (self.free_key)(key);
            (self.free_context)(context);
            (self.pop_to_mark)();
        }
        SEEN.take()
    }
}

/// The base point of P-256: FIPS 186-4, D.1.2.3.
const P256_BASE: [u8; 65] = [
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03,
    0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f, 0xe3, 0x42, 0xe2, 0xfe,
    0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce,
    0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_teaches_the_function_is_on_its_curve() {
        assert!(Curve::P256.point(&P256_BASE).is_some());
    }
}
