//! OpenSSL's provider interface: the types of `openssl/core.h` and the numbers of `openssl/core_dispatch.h`.
//!
//! Each function that a provider offers has a constructor here that takes a function of the right type and gives the
//! entry of a dispatch table, so that number and type cannot disagree.

pub(crate) mod asym_cipher;
pub(crate) mod core;
pub(crate) mod decoder;
pub(crate) mod kem;
pub(crate) mod keyexch;
pub(crate) mod keymgmt;
pub(crate) mod provider;
pub(crate) mod signature;
pub(crate) mod store;

use std::ffi::{c_char, c_int, c_void};

/// `OSSL_DISPATCH`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dispatch {
    pub(crate) number: c_int,
    pub(crate) function: *const c_void,
}

// SAFETY: the pointer is to a function.
unsafe impl Sync for Dispatch {}

impl Dispatch {
    /// Ends a table.
    pub(crate) const END: Self = Self { number: 0, function: std::ptr::null() };
}

/// `OSSL_ALGORITHM`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Algorithm {
    names: *const c_char,
    properties: *const c_char,
    functions: *const Dispatch,
    description: *const c_char,
}

// SAFETY: all pointers are to statics that never change.
unsafe impl Sync for Algorithm {}

impl Algorithm {
    /// Ends a table.
    pub(crate) const END: Self = Self {
        names: std::ptr::null(),
        properties: std::ptr::null(),
        functions: std::ptr::null(),
        description: std::ptr::null(),
    };

    /// An algorithm under its names (divided by colons), with the table of its functions, which [`Dispatch::END`] ends.
    pub(crate) const fn new(
        names: &'static std::ffi::CStr,
        properties: &'static std::ffi::CStr,
        functions: &'static [Dispatch],
        description: &'static std::ffi::CStr,
    ) -> Self {
        Self {
            names: names.as_ptr(),
            properties: properties.as_ptr(),
            functions: functions.as_ptr(),
            description: description.as_ptr(),
        }
    }
}

/// `OSSL_PARAM`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Param {
    pub(crate) key: *const c_char,
    pub(crate) data_type: u32,
    pub(crate) data: *mut c_void,
    pub(crate) data_size: usize,
    pub(crate) return_size: usize,
}

// SAFETY: shared ones are descriptions: a name and a type, without data.
unsafe impl Sync for Param {}

/// `OSSL_CALLBACK`.
pub(crate) type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;
/// `OSSL_PASSPHRASE_CALLBACK`; never called by this provider.
pub(crate) type PassphraseCallback = *const c_void;

/// Constructors of dispatch entries: name, number, type.
macro_rules! functions {
    ($($name:ident = $number:literal: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        $(
            pub(crate) const fn $name(
                function: unsafe extern "C" fn($($argument),*) $(-> $result)?,
            ) -> $crate::ffi::abi::Dispatch {
                $crate::ffi::abi::Dispatch { number: $number, function: function as *const std::ffi::c_void }
            }
        )*
    };
}
pub(crate) use functions;

/// Operations (`OSSL_OP_…`).
pub(crate) mod operation {
    use std::ffi::c_int;

    pub(crate) const KEYMGMT: c_int = 10;
    pub(crate) const KEYEXCH: c_int = 11;
    pub(crate) const SIGNATURE: c_int = 12;
    pub(crate) const ASYM_CIPHER: c_int = 13;
    pub(crate) const KEM: c_int = 14;
    pub(crate) const DECODER: c_int = 21;
    pub(crate) const STORE: c_int = 22;
}

/// Parts of a key (`OSSL_KEYMGMT_SELECT_…`).
pub(crate) mod select {
    use std::ffi::c_int;

    pub(crate) const PRIVATE: c_int = 0x01;
    pub(crate) const PUBLIC: c_int = 0x02;
    pub(crate) const DOMAIN_PARAMETERS: c_int = 0x04;
    pub(crate) const KEY_PAIR: c_int = PRIVATE | PUBLIC;
}

/// Kinds of objects (`OSSL_OBJECT_…`).
pub(crate) mod object {
    use std::ffi::c_int;

    pub(crate) const PKEY: c_int = 2;
}

/// What a caller of a store wants (`OSSL_STORE_INFO_…`).
pub(crate) mod expect {
    use std::ffi::c_int;

    pub(crate) const ANY: c_int = 0;
    pub(crate) const PUBLIC_KEY: c_int = 3;
    pub(crate) const KEY: c_int = 4;
}
