//! Key management: what OpenSSL may know of a key, and how it gets one.

use super::abi::{Callback, Dispatch, Param, keymgmt as entry, operation, select};
use super::object::{KeyObject, key_in};
use super::params::{List, Misfit, Params, Questions};
use super::provider::Provider;
use super::{generate, import};
use super::{guard, shared};
use sidecore_client::face::failure::{Failure, Reason};
use sidecore_client::face::key::{Curve, Family, Key, Private, Public, Raw};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// The functions of one family differ in its name only.
macro_rules! family {
    ($module:ident, $family:expr) => {
        pub(crate) mod $module {
            use super::*;

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn new(context: *mut c_void) -> *mut c_void {
                // SAFETY: OpenSSL gives the provider's context.
                unsafe { super::new(context, $family) }
            }

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn gen_init(context: *mut c_void, selection: c_int, params: *const Param) -> *mut c_void {
                // SAFETY: OpenSSL gives the provider's context and a list.
                guard(std::ptr::null_mut(), || unsafe {
                    generate::begin(shared::<Provider>(context), $family, selection, params)
                })
            }

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn query_operation_name(number: c_int) -> *const c_char {
                super::query_operation_name(number, $family)
            }

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn gettable_params(_context: *mut c_void) -> *const Param {
                gettable($family).as_ptr()
            }

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn exported_types(selection: c_int) -> *const Param {
                exported($family, selection)
            }

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn imported_types(selection: c_int) -> *const Param {
                import::types($family, selection)
            }

            pub(crate) static FUNCTIONS: [Dispatch; 21] = [
                entry::new(new),
                entry::gen_init(gen_init),
                entry::gen_set_template(generate::set_template),
                entry::gen_set_params(generate::set_params),
                entry::gen_settable_params(generate::settable_params),
                entry::generate(generate::generate),
                entry::gen_cleanup(generate::end),
                entry::load(load),
                entry::free(free),
                entry::get_params(get_params),
                entry::gettable_params(gettable_params),
                entry::query_operation_name(query_operation_name),
                entry::has(has),
                entry::validate(validate),
                entry::matches(matches),
                entry::import(import),
                entry::import_types(imported_types),
                entry::export(export),
                entry::export_types(exported_types),
                entry::dup(dup),
                Dispatch::END,
            ];
        }
    };
}

family!(rsa, Family::Rsa);
family!(ec, Family::Ec);
family!(ed25519, Family::Raw(Raw::Ed25519));
family!(x25519, Family::Raw(Raw::X25519));
family!(ml_kem_768, Family::Raw(Raw::MlKem768));
family!(ml_dsa_65, Family::Raw(Raw::MlDsa65));

/// # Safety
/// `context` is that of the provider.
unsafe fn new(context: *mut c_void, family: Family) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the provider's context, see above.
        let provider = unsafe { shared::<Provider>(context) };
        Box::into_raw(Box::new(KeyObject::new(provider, family))).cast()
    })
}

fn query_operation_name(number: c_int, family: Family) -> *const c_char {
    let name = match (family, number) {
        (Family::Ec, operation::SIGNATURE) => c"ECDSA",
        (Family::Ec, operation::KEYEXCH) => c"ECDH",
        _ => family.name(),
    };
    name.as_ptr()
}

/// # Safety
/// `object` is null, as OpenSSL has it for a key of which only the type is known, or a key object of this provider that is
/// valid for `'a`.
unsafe fn from_pointer<'a>(pointer: *const c_void) -> Option<&'a KeyObject> {
    // SAFETY: see above.
    unsafe { pointer.cast::<KeyObject>().as_ref() }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn load(reference: *const c_void, len: usize) -> *mut c_void {
    if reference.is_null() || len != size_of::<*mut KeyObject>() {
        return std::ptr::null_mut();
    }
    // SAFETY: a reference made by `with_reference`; it is emptied, so that the object has one owner.
    unsafe { std::ptr::replace(reference.cast_mut().cast::<*mut c_void>(), std::ptr::null_mut()) }
}

/// Exports an object that was offered by [`KeyObject::offer`], if it has a public part only. OpenSSL asks this for other
/// providers; a private key is loaded here when they do not get it.
///
/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn export_object(
    _context: *mut c_void,
    reference: *const c_void,
    len: usize,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    guard(0, || {
        if reference.is_null() || len != size_of::<*mut KeyObject>() {
            return 0;
        }
        // SAFETY: a reference made by `offer`, which is empty once it was loaded.
        let object = unsafe { *reference.cast::<*mut c_void>() };
        // SAFETY: a key object, or null.
        match unsafe { object.cast::<KeyObject>().as_ref() } {
            Some(KeyObject { key: Some(key), .. }) if !key.has_private() => {
                let selection = select::PUBLIC | select::DOMAIN_PARAMETERS;
                // SAFETY: OpenSSL's own callback.
                public(key, selection).with(|list| unsafe { callback(list, argument) })
            }
            _ => 0,
        }
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn free(key: *mut c_void) {
    guard((), || {
        if !key.is_null() {
            // SAFETY: made here, for the last time.
            drop(unsafe { Box::from_raw(key.cast::<KeyObject>()) });
        }
    });
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn has(key: *const c_void, selection: c_int) -> c_int {
    // SAFETY: OpenSSL's key object.
    let Some(object) = (unsafe { from_pointer(key) }) else { return 0 };
    c_int::from(match &object.key {
        Some(key) => selection & select::PRIVATE == 0 || key.has_private(),
        None => selection & select::KEY_PAIR == 0 && object.parameters.is_some(),
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn validate(key: *const c_void, selection: c_int, _kind: c_int) -> c_int {
    // Keys were checked by the service that holds them; imported ones when they came.
    // SAFETY: as for `has`.
    unsafe { has(key, selection) }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, selection: c_int) -> c_int {
    // SAFETY: OpenSSL's key objects.
    let (Some(one), Some(other)) = (unsafe { (key_in(one), key_in(other)) }) else { return 0 };
    if selection & select::KEY_PAIR != 0 {
        return c_int::from(one.public == other.public);
    }
    let curve = |key: &Key| match key.public {
        Public::Ec { curve, .. } => Some(curve),
        _ => None,
    };
    c_int::from(one.public.family() == other.public.family() && curve(&one) == curve(&other))
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn dup(key: *const c_void, selection: c_int) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: OpenSSL's key object.
        let Some(from) = (unsafe { from_pointer(key) }) else { return std::ptr::null_mut() };
        let key = match &from.key {
            Some(key) if selection & select::PRIVATE == 0 && key.has_private() => Some(Arc::new(key.without_private())),
            other => other.clone(),
        };
        let object = KeyObject::new(Arc::clone(&from.provider), from.family);
        Box::into_raw(Box::new(KeyObject { key, parameters: from.parameters, ..object })).cast()
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn import(key: *mut c_void, selection: c_int, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: OpenSSL's key object, which nobody uses yet.
        let object = unsafe { &mut *key.cast::<KeyObject>() };
        // SAFETY: OpenSSL's list.
        let params = unsafe { Params::new(params) };
        if selection & select::KEY_PAIR == 0 {
            object.parameters = params.text(c"group").and_then(Curve::from_name);
            return c_int::from(object.parameters.is_some());
        }
        match import::read(&object.provider, object.family, selection & select::PRIVATE != 0, params) {
            Ok(key) => {
                object.key = Some(Arc::new(key));
                1
            }
            Err(failure) => object.provider.fail(c"import", &failure),
        }
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn export(key: *mut c_void, selection: c_int, callback: Callback, argument: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: OpenSSL's key object.
        let Some(object) = (unsafe { from_pointer(key) }) else { return 0 };
        let Some(key) = &object.key else {
            let Some(curve) = object.parameters else { return 0 };
            // SAFETY: OpenSSL's own callback.
            return List::default().text(c"group", curve.name()).with(|list| unsafe { callback(list, argument) });
        };
        if selection & select::PRIVATE != 0 && key.has_private() {
            // OpenSSL asks this of every key before it tries the operation with its own code; then it comes to us.
            let text = match key.private {
                Private::Made(_) => "export the public part only; a key to keep is made by `sidecore keys generate`",
                _ => "use the key by its URI, and export the public part only",
            };
            return object.provider.fail(c"export", &Failure::new(Reason::Private, text));
        }
        // SAFETY: OpenSSL's own callback.
        public(key, selection).with(|list| unsafe { callback(list, argument) })
    })
}

fn public(key: &Key, selection: c_int) -> List {
    let list = List::default();
    let asked = selection & select::PUBLIC != 0;
    match &key.public {
        Public::Rsa { n, e } if asked => list.number(c"n", n).number(c"e", e),
        Public::Ec { curve, point } => {
            let list = list.text(c"group", curve.name());
            if asked { list.bytes(c"pub", point) } else { list }
        }
        Public::Raw(_, key) if asked => list.bytes(c"pub", key),
        Public::Rsa { .. } | Public::Raw(..) => list,
    }
}

fn exported(family: Family, selection: c_int) -> *const Param {
    static NOTHING: [Param; 1] = [Param::END];
    if selection & select::PRIVATE != 0 { NOTHING.as_ptr() } else { import::types(family, selection) }
}

fn gettable(family: Family) -> &'static [Param] {
    static RSA: [Param; 8] = [
        Param::integer(c"bits"),
        Param::integer(c"security-bits"),
        Param::integer(c"max-size"),
        Param::text(c"default-digest"),
        Param::unsigned(c"n"),
        Param::unsigned(c"e"),
        Param::bytes(c"encoded-pub-key"),
        Param::END,
    ];
    static EC: [Param; 13] = [
        Param::integer(c"bits"),
        Param::integer(c"security-bits"),
        Param::integer(c"max-size"),
        Param::text(c"default-digest"),
        Param::text(c"group"),
        Param::text(c"encoding"),
        Param::text(c"point-format"),
        Param::text(c"field-type"),
        Param::bytes(c"pub"),
        Param::bytes(c"encoded-pub-key"),
        Param::unsigned(c"qx"),
        Param::unsigned(c"qy"),
        Param::END,
    ];
    static RAW: [Param; 8] = [
        Param::integer(c"bits"),
        Param::integer(c"security-bits"),
        Param::integer(c"max-size"),
        Param::integer(c"security-category"),
        Param::text(c"mandatory-digest"),
        Param::bytes(c"pub"),
        Param::bytes(c"encoded-pub-key"),
        Param::END,
    ];
    match family {
        Family::Rsa => &RSA,
        Family::Ec => &EC,
        Family::Raw(_) => &RAW,
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn get_params(key: *mut c_void, params: *mut Param) -> c_int {
    guard(0, || {
        // SAFETY: OpenSSL's key object and list.
        let (Some(object), mut questions) = (unsafe { (from_pointer(key), Questions::new(params)) }) else { return 0 };
        let answered = match (&object.key, object.parameters) {
            (Some(key), _) => answer(&key.public, &mut questions),
            (None, Some(curve)) => answer_curve(curve, &mut questions),
            (None, None) => return 0,
        };
        c_int::from(answered.is_ok())
    })
}

fn answer(public: &Public, questions: &mut Questions<'_>) -> Result<(), Misfit> {
    questions.length(c"bits", public.bits())?;
    questions.integer(c"security-bits", public.security_bits())?;
    questions.length(c"max-size", public.max_len())?;
    match public {
        Public::Rsa { n, e } => {
            questions.text(c"default-digest", c"SHA256")?;
            questions.number(c"n", n)?;
            questions.number(c"e", e)
        }
        Public::Ec { curve, point } => answer_ec(*curve, point, questions),
        Public::Raw(raw, key) => {
            let category = if matches!(raw, Raw::MlKem768 | Raw::MlDsa65) { 3 } else { 0 };
            questions.integer(c"security-category", category)?;
            questions.text(c"mandatory-digest", c"")?;
            questions.bytes(c"pub", key)?;
            questions.bytes(c"encoded-pub-key", key)
        }
    }
}

fn answer_curve(curve: Curve, questions: &mut Questions<'_>) -> Result<(), Misfit> {
    questions.text(c"default-digest", c"SHA256")?;
    questions.text(c"group", curve.name())?;
    questions.text(c"encoding", c"named_curve")?;
    questions.text(c"point-format", c"uncompressed")?;
    questions.text(c"field-type", c"prime-field")
}

fn answer_ec(curve: Curve, point: &[u8], questions: &mut Questions<'_>) -> Result<(), Misfit> {
    answer_curve(curve, questions)?;
    questions.bytes(c"pub", point)?;
    questions.bytes(c"encoded-pub-key", point)?;
    let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(curve.size()).unwrap_or_default();
    questions.number(c"qx", x)?;
    questions.number(c"qy", y)
}
