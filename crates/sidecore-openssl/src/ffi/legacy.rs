//! Legacy objects (`RSA`, `EC_KEY`): some programs get them from OpenSSL (`EVP_PKEY_get0_RSA`), and crash without.
//!
//! OpenSSL makes `export` pass the whole key to a function that builds the object. It exports to other providers with
//! other functions; those must get no part of a private key, because they would run its operations themselves. So this
//! module learns the one function, with a public key of our own. That function gets the public part, all others get
//! nothing.

use super::abi::{Callback, select};
use super::libcrypto::Libcrypto;
use super::params::{List, Param};
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::key::{Curve, Family};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// OpenSSL's selection for such an object: all parts.
pub(super) const ALL: c_int = 0x87;

thread_local! {
    /// The function of the last export of a public key; stored while one is learnt.
    static SEEN: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Given {
    Nothing,
    #[default]
    Public,
    /// The public part, and 1 in place of the private exponent or scalar.
    Placeholder,
}

impl Given {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        match text.trim() {
            "none" => Ok(Self::Nothing),
            "public" => Ok(Self::Public),
            "placeholder" => Ok(Self::Placeholder),
            other => Err(Failure::input(format!("legacy = {other}: give none, public or placeholder"))),
        }
    }
}

struct Functions {
    new_context: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void,
    init: unsafe extern "C" fn(*mut c_void) -> c_int,
    from_data: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, c_int, *const Param) -> c_int,
    free_context: unsafe extern "C" fn(*mut c_void),
    free_key: unsafe extern "C" fn(*mut c_void),
    set_mark: unsafe extern "C" fn() -> c_int,
    pop_to_mark: unsafe extern "C" fn() -> c_int,
    get_rsa: unsafe extern "C" fn(*mut c_void) -> *const c_void,
    get_ec: unsafe extern "C" fn(*mut c_void) -> *const c_void,
}

pub(super) struct Legacy {
    /// `None`: libcrypto lacks a function, so nothing is learnt.
    functions: Option<Functions>,
    /// Addresses of the functions for `RSA` and `EC_KEY`; 0: not learnt yet.
    learnt: [AtomicUsize; 2],
}

impl Legacy {
    pub(super) fn find(library: &Libcrypto) -> Self {
        let address = |name: &CStr| library.address(name);
        let find = || {
            // SAFETY: OpenSSL's functions have these types, see openssl/evp.h and openssl/err.h.
            unsafe {
                Some(Functions {
                    new_context: transmute_copy(&address(c"EVP_PKEY_CTX_new_from_name")?),
                    init: transmute_copy(&address(c"EVP_PKEY_fromdata_init")?),
                    from_data: transmute_copy(&address(c"EVP_PKEY_fromdata")?),
                    free_context: transmute_copy(&address(c"EVP_PKEY_CTX_free")?),
                    free_key: transmute_copy(&address(c"EVP_PKEY_free")?),
                    set_mark: transmute_copy(&address(c"ERR_set_mark")?),
                    pop_to_mark: transmute_copy(&address(c"ERR_pop_to_mark")?),
                    get_rsa: transmute_copy(&address(c"EVP_PKEY_get0_RSA")?),
                    get_ec: transmute_copy(&address(c"EVP_PKEY_get0_EC_KEY")?),
                })
            }
        };
        Self { functions: find(), learnt: [AtomicUsize::new(0), AtomicUsize::new(0)] }
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
    fn the_setting_has_three_values() {
        assert_eq!(Given::parse("none").unwrap(), Given::Nothing);
        assert_eq!(Given::parse(" public ").unwrap(), Given::Public);
        assert_eq!(Given::parse("placeholder").unwrap(), Given::Placeholder);
        assert!(Given::parse("all").unwrap_err().text.contains("legacy = all: give none, public or placeholder"));
        assert!(Curve::P256.point(&P256_BASE).is_some());
    }
}
