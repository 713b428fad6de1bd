//! OpenSSL's provider interface: the types of `openssl/core.h` and the numbers of `openssl/core_dispatch.h`.
//!
//! Each function of a provider has a constructor here. It takes a function of the right type and makes the entry of a
//! dispatch table, so number and type cannot disagree. The types state OpenSSL's promise for each argument: one that
//! may be null is an `Option`, an exclusive one is a `&mut`, and one returned to be freed is a `Box` or a key object.
//! So a function without a bare buffer or callback is safe code.

use super::params::{Param, Params, Questions};
use std::ffi::{CStr, c_char, c_int, c_void};

/// `OSSL_CORE_HANDLE`: OpenSSL's handle of the provider.
#[repr(C)]
pub struct Handle([u8; 0]);

#[repr(C)]
pub(crate) struct Bio([u8; 0]);

pub(crate) type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;
/// `OSSL_PASSPHRASE_CALLBACK`; never called by this provider.
pub(crate) type PassphraseCallback = *const c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dispatch {
    pub(crate) number: c_int,
    pub(crate) function: *const c_void,
}

// SAFETY: the pointer is to a function.
unsafe impl Sync for Dispatch {}

impl Dispatch {
    pub(crate) const END: Self = Self { number: 0, function: std::ptr::null() };
}

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
    pub(crate) const END: Self = Self {
        names: std::ptr::null(),
        properties: std::ptr::null(),
        functions: std::ptr::null(),
        description: std::ptr::null(),
    };

    /// An algorithm with its names, separated by colons, and its functions; the table must end with [`Dispatch::END`].
    pub(crate) const fn new(
        names: &'static CStr,
        properties: &'static CStr,
        functions: &'static [Dispatch],
        description: &'static CStr,
    ) -> Self {
        Self {
            names: names.as_ptr(),
            properties: properties.as_ptr(),
            functions: functions.as_ptr(),
            description: description.as_ptr(),
        }
    }
}

/// Numbers of OpenSSL's functions for providers (`OSSL_FUNC_…`).
pub(crate) mod core {
    use std::ffi::c_int;

    pub(crate) const GET_PARAMS: c_int = 2;
    pub(crate) const GET_LIBCTX: c_int = 4;
    pub(crate) const NEW_ERROR: c_int = 5;
    pub(crate) const SET_ERROR_DEBUG: c_int = 6;
    pub(crate) const VSET_ERROR: c_int = 7;
    pub(crate) const CRYPTO_ZALLOC: c_int = 21;
    pub(crate) const CRYPTO_CLEAR_FREE: c_int = 23;
    pub(crate) const BIO_READ_EX: c_int = 42;
    pub(crate) const BIO_WRITE_EX: c_int = 43;
    pub(crate) const BIO_GETS: c_int = 49;
}

/// Constructors of dispatch entries, by operation: name, the provider's own types in it, number, type. `P` is the
/// provider, `C` the context of an operation, `K` a key object, `O` an owned one or null, `G` a key being generated.
///
/// In C, all of them are `void *`, and each entry accepts the types of its function. The author of a table must use
/// the same types in all of its entries: `freectx` receives the type made by `newctx`.
macro_rules! functions {
    ($($(#[$doc:meta])* $operation:ident {
        $($name:ident $(<$($own:ident),+>)? = $number:literal: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
    })*) => {
        $(
            $(#[$doc])*
            pub(crate) mod $operation {
                use super::*;

                $(
                    pub(crate) const fn $name $(<$($own),+>)? (
                        function: unsafe extern "C" fn($($argument),*) $(-> $result)?,
                    ) -> Dispatch {
                        Dispatch { number: $number, function: function as *const c_void }
                    }
                )*
            }
        )*
    };
}

functions! {
    provider {
        teardown<P> = 1024: fn(Option<Box<P>>);
        gettable_params = 1025: fn(*mut c_void) -> *const Param;
        get_params = 1026: fn(*mut c_void, Questions<'_>) -> c_int;
        query_operation = 1027: fn(*mut c_void, c_int, Option<&mut c_int>) -> *const Algorithm;
    }

    keymgmt {
        new<P, O> = 1: fn(&P) -> O;
        gen_init<P, G> = 2: fn(&P, c_int, Params<'_>) -> Option<Box<G>>;
        gen_set_template<G, K> = 3: fn(&mut G, Option<&K>) -> c_int;
        gen_set_params<G> = 4: fn(&mut G, Params<'_>) -> c_int;
        gen_settable_params = 5: fn(*mut c_void, *mut c_void) -> *const Param;
        generate<G, O> = 6: fn(&G, *const c_void, *mut c_void) -> O;
        gen_cleanup<G> = 7: fn(Option<Box<G>>);
        load<O> = 8: fn(Option<&mut O>, usize) -> O;
        free<O> = 10: fn(O);
        get_params<K> = 11: fn(Option<&K>, Questions<'_>) -> c_int;
        gettable_params = 12: fn(*mut c_void) -> *const Param;
        set_params<K> = 13: fn(&mut K, Params<'_>) -> c_int;
        settable_params = 14: fn(*mut c_void) -> *const Param;
        query_operation_name = 20: fn(c_int) -> *const c_char;
        has<K> = 21: fn(Option<&K>, c_int) -> c_int;
        validate<K> = 22: fn(Option<&K>, c_int, c_int) -> c_int;
        matches<K> = 23: fn(Option<&K>, Option<&K>, c_int) -> c_int;
        import<K> = 40: fn(&mut K, c_int, Params<'_>) -> c_int;
        import_types = 41: fn(c_int) -> *const Param;
        export<K> = 42: fn(Option<&K>, c_int, Callback, *mut c_void) -> c_int;
        export_types = 43: fn(c_int) -> *const Param;
        dup<K, O> = 44: fn(Option<&K>, c_int) -> O;
    }

    keyexch {
        newctx<P, C> = 1: fn(&P) -> Option<Box<C>>;
        init<C, K> = 2: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        derive<C> = 3: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize) -> c_int;
        set_peer<C, K> = 4: fn(Option<&mut C>, Option<&K>) -> c_int;
        freectx<C> = 5: fn(Option<Box<C>>);
        dupctx<C> = 6: fn(Option<&C>) -> Option<Box<C>>;
        set_ctx_params<C> = 7: fn(Option<&mut C>, Params<'_>) -> c_int;
        settable_ctx_params = 8: fn(*mut c_void, *mut c_void) -> *const Param;
        get_ctx_params<C> = 9: fn(Option<&mut C>, Questions<'_>) -> c_int;
        gettable_ctx_params = 10: fn(*mut c_void, *mut c_void) -> *const Param;
    }

    signature {
        newctx<P, C> = 1: fn(&P, *const c_char) -> Option<Box<C>>;
        sign_init<C, K> = 2: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        sign<C> = 3: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize, *const u8, usize) -> c_int;
        verify_init<C, K> = 4: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        verify<C> = 5: fn(Option<&mut C>, *const u8, usize, *const u8, usize) -> c_int;
        verify_recover_init<C, K> = 6: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        verify_recover<C> = 7: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize, *const u8, usize) -> c_int;
        digest_sign_init<C, K> = 8: fn(Option<&mut C>, *const c_char, Option<&K>, Params<'_>) -> c_int;
        digest_sign_update<C> = 9: fn(Option<&mut C>, *const u8, usize) -> c_int;
        digest_sign_final<C> = 10: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize) -> c_int;
        digest_sign<C> = 11: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize, *const u8, usize) -> c_int;
        digest_verify_init<C, K> = 12: fn(Option<&mut C>, *const c_char, Option<&K>, Params<'_>) -> c_int;
        digest_verify_update<C> = 13: fn(Option<&mut C>, *const u8, usize) -> c_int;
        digest_verify_final<C> = 14: fn(Option<&mut C>, *const u8, usize) -> c_int;
        digest_verify<C> = 15: fn(Option<&mut C>, *const u8, usize, *const u8, usize) -> c_int;
        freectx<C> = 16: fn(Option<Box<C>>);
        dupctx<C> = 17: fn(Option<&C>) -> Option<Box<C>>;
        get_ctx_params<C> = 18: fn(Option<&mut C>, Questions<'_>) -> c_int;
        gettable_ctx_params = 19: fn(*mut c_void, *mut c_void) -> *const Param;
        set_ctx_params<C> = 20: fn(Option<&mut C>, Params<'_>) -> c_int;
        settable_ctx_params = 21: fn(*mut c_void, *mut c_void) -> *const Param;
        query_key_types = 26: fn() -> *const *const c_char;
        sign_message_init<C, K> = 27: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        sign_message_update<C> = 28: fn(Option<&mut C>, *const u8, usize) -> c_int;
        sign_message_final<C> = 29: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize) -> c_int;
        verify_message_init<C, K> = 30: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        verify_message_update<C> = 31: fn(Option<&mut C>, *const u8, usize) -> c_int;
        verify_message_final<C> = 32: fn(Option<&mut C>) -> c_int;
    }

    asym_cipher {
        newctx<P, C> = 1: fn(&P) -> Option<Box<C>>;
        encrypt_init<C, K> = 2: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        encrypt<C> = 3: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize, *const u8, usize) -> c_int;
        decrypt_init<C, K> = 4: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        decrypt<C> = 5: fn(Option<&mut C>, *mut u8, Option<&mut usize>, usize, *const u8, usize) -> c_int;
        freectx<C> = 6: fn(Option<Box<C>>);
        dupctx<C> = 7: fn(Option<&C>) -> Option<Box<C>>;
        get_ctx_params<C> = 8: fn(Option<&mut C>, Questions<'_>) -> c_int;
        gettable_ctx_params = 9: fn(*mut c_void, *mut c_void) -> *const Param;
        set_ctx_params<C> = 10: fn(Option<&mut C>, Params<'_>) -> c_int;
        settable_ctx_params = 11: fn(*mut c_void, *mut c_void) -> *const Param;
    }

    /// Key encapsulation. Each output buffer has the length stated with it.
    kem {
        newctx<P, C> = 1: fn(&P) -> Option<Box<C>>;
        encapsulate_init<C, K> = 2: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        encapsulate<C> = 3: fn(Option<&mut C>, *mut u8, Option<&mut usize>, *mut u8, Option<&mut usize>) -> c_int;
        decapsulate_init<C, K> = 4: fn(Option<&mut C>, Option<&K>, Params<'_>) -> c_int;
        decapsulate<C> = 5: fn(Option<&mut C>, *mut u8, Option<&mut usize>, *const u8, usize) -> c_int;
        freectx<C> = 6: fn(Option<Box<C>>);
        dupctx<C> = 7: fn(Option<&C>) -> Option<Box<C>>;
        set_ctx_params<C> = 10: fn(Option<&mut C>, Params<'_>) -> c_int;
        settable_ctx_params = 11: fn(*mut c_void, *mut c_void) -> *const Param;
    }

    decoder {
        newctx<P, C> = 1: fn(&P) -> Option<Box<C>>;
        freectx<C> = 2: fn(Option<Box<C>>);
        does_selection = 10: fn(*mut c_void, c_int) -> c_int;
        decode<C> = 11: fn(&C, *mut Bio, c_int, Callback, *mut c_void, PassphraseCallback, *mut c_void) -> c_int;
        export_object<O> = 20: fn(*mut c_void, Option<&O>, usize, Callback, *mut c_void) -> c_int;
    }

    encoder {
        newctx<P, C> = 1: fn(&P) -> Option<Box<C>>;
        freectx<C> = 2: fn(Option<Box<C>>);
        set_ctx_params<C> = 5: fn(Option<&mut C>, Params<'_>) -> c_int;
        settable_ctx_params = 6: fn(*mut c_void) -> *const Param;
        does_selection = 10: fn(*mut c_void, c_int) -> c_int;
        encode<C, K> = 11: fn(&C, *mut Bio, Option<&K>, *const Param, c_int, PassphraseCallback, *mut c_void) -> c_int;
    }

    /// Stores of objects, by URI. `L` is the state of reading one.
    store {
        open<P, L> = 1: fn(&P, *const c_char) -> Option<Box<L>>;
        settable_ctx_params = 3: fn(*mut c_void) -> *const Param;
        set_ctx_params<L> = 4: fn(&mut L, Params<'_>) -> c_int;
        load<L> = 5: fn(&mut L, Callback, *mut c_void, PassphraseCallback, *mut c_void) -> c_int;
        eof<L> = 6: fn(&L) -> c_int;
        close<L> = 7: fn(Box<L>) -> c_int;
        export_object<O> = 8: fn(*mut c_void, Option<&O>, usize, Callback, *mut c_void) -> c_int;
    }
}

pub(crate) mod operation {
    use std::ffi::c_int;

    pub(crate) const KEYMGMT: c_int = 10;
    pub(crate) const KEYEXCH: c_int = 11;
    pub(crate) const SIGNATURE: c_int = 12;
    pub(crate) const ASYM_CIPHER: c_int = 13;
    pub(crate) const KEM: c_int = 14;
    pub(crate) const ENCODER: c_int = 20;
    pub(crate) const DECODER: c_int = 21;
    pub(crate) const STORE: c_int = 22;
}

pub(crate) mod select {
    use std::ffi::c_int;

    pub(crate) const PRIVATE: c_int = 0x01;
    pub(crate) const PUBLIC: c_int = 0x02;
    pub(crate) const DOMAIN_PARAMETERS: c_int = 0x04;
    pub(crate) const KEY_PAIR: c_int = PRIVATE | PUBLIC;
}

/// `OSSL_OBJECT_PKEY`: an object of a store that is a key.
pub(crate) const OBJECT_PKEY: c_int = 2;

/// Kind of object that the caller of a store expects (`OSSL_STORE_INFO_…`).
pub(crate) mod expect {
    use std::ffi::c_int;

    pub(crate) const ANY: c_int = 0;
    pub(crate) const PUBLIC_KEY: c_int = 3;
    pub(crate) const KEY: c_int = 4;
}
