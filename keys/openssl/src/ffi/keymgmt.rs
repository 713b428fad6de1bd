//! Key management: making, loading, importing and querying keys.

use super::abi::{Callback, Dispatch, keymgmt as entry, operation, select};
use super::key_data::{self, public};
use super::legacy;
use super::legacy_builder;
use super::object::{KeyObject, Object, Reference, key_in, with_object};
use super::params::{Answer, BYTES, INTEGER, List, Param, Params, Questions, TEXT, UNSIGNED, params};
use super::provider::{Provider, tell};
use super::{OfFamily, free, generate, guard, key_settings};
use sidecore_client::keyops::ask::check;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Curve, Family, Key, Private, Public, Raw};
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

pub(super) struct Keys<F>(PhantomData<F>);

impl<F: OfFamily> Keys<F> {
    pub(super) const FUNCTIONS: &'static [Dispatch] = &[
        entry::new(new),
        entry::gen_init(generate::begin::<F>),
        entry::gen_set_template(generate::set_template),
        entry::gen_set_params(generate::set_params),
        entry::gen_settable_params(generate::settable_params::<F>),
        entry::generate(generate::generate),
        entry::gen_cleanup(free::<generate::Generation>),
        entry::load(load),
        entry::free(free_object),
        entry::get_params(get_params),
        entry::gettable_params(gettable_params::<F>),
        entry::set_params(key_settings::set_params),
        entry::settable_params(key_settings::settable_params),
        entry::query_operation_name(query_operation_name::<F>),
        entry::has(has),
        entry::validate(validate),
        entry::matches(matches),
        entry::import(import::<F>),
        entry::import_types(imported_types::<F>),
        entry::export(export),
        entry::export_types(exported_types::<F>),
        entry::dup(dup),
        Dispatch::END,
    ];
}

extern "C" fn new(provider: &Arc<Provider>) -> Option<Object> {
    guard(None, || Object::new(provider))
}

extern "C" fn free_object(object: Option<Object>) {
    guard((), || drop(object));
}

extern "C" fn query_operation_name<F: OfFamily>(number: c_int) -> *const c_char {
    let name = match (F::FAMILY, number) {
        (Family::Ec, operation::SIGNATURE) => c"ECDSA",
        (Family::Ec, operation::KEYEXCH) => c"ECDH",
        (family, _) => family.name(),
    };
    name.as_ptr()
}

extern "C" fn load(reference: Option<&mut Reference>, len: usize) -> Option<Object> {
    reference.filter(|_| len == size_of::<Reference>())?.take()
}

/// Exports an offered object if it has only a public part. OpenSSL asks for other providers; for a private key the
/// refusal makes it load the key here.
///
/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
pub(super) unsafe extern "C" fn export_object(
    _context: *mut c_void,
    reference: Option<&Reference>,
    len: usize,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    // The reference is empty after a load.
    let object = reference.filter(|_| len == size_of::<Reference>()).and_then(|reference| reference.as_deref());
    with_object(object, c"export", 0, |object| match object.key()? {
        Some(key) if !key.has_private() => {
            let selection = select::PUBLIC | select::DOMAIN_PARAMETERS;
            // SAFETY: `export_cb` takes `export_cbarg` and a list that ends, by provider-decoder(7) and provider-storemgmt(7);
            // the list outlives the call.
            Ok(public(&key, selection).with(|list| unsafe { callback(list, argument) }))
        }
        _ => Ok(0),
    })
}

/// `object` is `None` if only the type of the key is known.
extern "C" fn has(object: Option<&KeyObject>, selection: c_int) -> c_int {
    with_object(object, c"look at a key", 0, |object| {
        Ok(c_int::from(match object.has_key()? {
            Some(private) => selection & select::PRIVATE == 0 || private,
            None => selection & select::KEY_PAIR == 0 && object.parameters()?.is_some(),
        }))
    })
}

/// The service has checked the keys it holds, imported ones on arrival; a stored key may be gone since.
extern "C" fn validate(object: Option<&KeyObject>, selection: c_int, _kind: c_int) -> c_int {
    let has = has(object, selection);
    if has == 0 || selection & select::PRIVATE == 0 {
        return has;
    }
    with_object(object, c"check", 0, |object| {
        let (Some(key), Some(provider)) = (object.key()?, object.provider()) else { return Ok(0) };
        check(provider.options()?, &key).map(|()| 1)
    })
}

extern "C" fn matches(one: Option<&KeyObject>, other: Option<&KeyObject>, selection: c_int) -> c_int {
    with_object(one, c"compare keys", 0, |one| {
        let (Some(one), Some(other)) = (one.key()?, key_in(other)?) else { return Ok(0) };
        if selection & select::KEY_PAIR != 0 {
            return Ok(c_int::from(one.public == other.public));
        }
        let curve = |key: &Key| match key.public {
            Public::Ec { curve, .. } => Some(curve),
            _ => None,
        };
        Ok(c_int::from(one.public.family() == other.public.family() && curve(&one) == curve(&other)))
    })
}

extern "C" fn dup(from: Option<&KeyObject>, selection: c_int) -> Option<Object> {
    with_object(from, c"copy a key", None, |from| {
        match from.provider().filter(|_| selection & select::KEY_PAIR == 0) {
            Some(provider) => Object::with_parameters(&provider, from.curve()?),
            None => from.again(selection & select::PRIVATE != 0),
        }
        .map(Some)
    })
}

extern "C" fn import<F: OfFamily>(object: &mut KeyObject, selection: c_int, params: Params<'_>) -> c_int {
    let provider = object.provider();
    let mut import = || {
        if selection & select::KEY_PAIR == 0 {
            let curve = params.text(c"group").and_then(Curve::from_name);
            return curve.map(|curve| object.set_parameters(curve)).transpose().map(|set| set.is_some());
        }
        let known = provider.as_deref().ok_or_else(|| Failure::new(Reason::Internal, "the provider was unloaded"))?;
        let key = key_data::read(known, F::FAMILY, selection & select::PRIVATE != 0, params)?;
        object.set(key).map(|()| true)
    };
    guard(0, || tell(provider.clone(), c"import", import()).map_or(0, c_int::from))
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn export(
    object: Option<&KeyObject>,
    selection: c_int,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    with_object(object, c"export", 0, |object| {
        let list = match (object.key()?, object.parameters()?) {
            (Some(key), _) if selection & select::PRIVATE != 0 && key.has_private() => {
                let provider = object.provider().filter(|_| selection & legacy_builder::ALL == legacy_builder::ALL);
                // SAFETY: `param_cb` and `cbarg` belong together, by provider-keymgmt(7).
                let build =
                    |provider: Arc<Provider>| unsafe { legacy::build(&provider, object, &key, callback, argument) };
                return provider.and_then(build).unwrap_or_else(|| Err(stays(&key)));
            }
            // OpenSSL's encoders print the object that they make of this list, and crash on one without numbers.
            (Some(key), _) if selection & select::PUBLIC == 0 && key.public.family() == Family::Rsa => {
                return Err(Failure::unsupported("RSA keys have no parameters: ask for the public part"));
            }
            (Some(key), _) => {
                legacy_builder::note(selection, callback);
                public(&key, selection)
            }
            (None, Some(curve)) => List::default().text(c"group", curve.name()),
            (None, None) => return Ok(0),
        };
        // SAFETY: `param_cb` takes `cbarg` and a list that ends, by provider-keymgmt(7); the list outlives the call.
        Ok(list.with(|list| unsafe { callback(list, argument) }))
    })
}

/// OpenSSL's own provider calls `export` before each operation, and drops the error. Formatting details would take
/// 6,000 of the 46,000 instructions of a P-256 signature, so the reason alone has to suffice.
fn stays(key: &Key) -> Failure {
    let text = match key.private {
        Private::Made(_) => "a key to keep is made by `sidecore keys generate`",
        _ => "",
    };
    Failure::new(Reason::Private, text)
}

extern "C" fn imported_types<F: OfFamily>(selection: c_int) -> *const Param {
    key_data::types(F::FAMILY, selection).as_ptr()
}

extern "C" fn exported_types<F: OfFamily>(selection: c_int) -> *const Param {
    let private = selection & select::PRIVATE != 0;
    let list = if private {
        params! {}
    } else {
        key_data::types(F::FAMILY, selection)
    };
    list.as_ptr()
}

extern "C" fn gettable_params<F: OfFamily>(_provider: *mut c_void) -> *const Param {
    let list = match F::FAMILY {
        Family::Rsa => params! {
            INTEGER: c"bits", c"security-bits", c"max-size";
            TEXT: c"default-digest";
            UNSIGNED: c"n", c"e";
            BYTES: c"encoded-pub-key";
        },
        Family::Ec => params! {
            INTEGER: c"bits", c"security-bits", c"max-size";
            TEXT: c"default-digest", c"group", c"encoding", c"point-format", c"field-type";
            BYTES: c"pub", c"encoded-pub-key";
            UNSIGNED: c"qx", c"qy";
        },
        Family::Raw(_) => params! {
            INTEGER: c"bits", c"security-bits", c"max-size", c"security-category";
            TEXT: c"mandatory-digest";
            BYTES: c"pub", c"encoded-pub-key";
        },
    };
    list.as_ptr()
}

extern "C" fn get_params(object: Option<&KeyObject>, mut questions: Questions<'_>) -> c_int {
    with_object(object, c"look at a key", 0, |object| {
        Ok(c_int::from(match (object.key()?, object.parameters()?) {
            (Some(key), _) => answer(&key.public, &mut questions),
            (None, Some(curve)) => answer_curve(curve, &mut questions),
            (None, None) => false,
        }))
    })
}

fn answer(public: &Public, questions: &mut Questions<'_>) -> bool {
    let sizes = [
        (c"bits", Answer::Length(public.bits())),
        (c"security-bits", Answer::Integer(public.security_bits())),
        (c"max-size", Answer::Length(public.max_len())),
    ];
    let fit = questions.answer(sizes);
    fit && match public {
        Public::Rsa { n, e } => questions.answer([
            (c"default-digest", Answer::Text(c"SHA256")),
            (c"n", Answer::Number(n)),
            (c"e", Answer::Number(e)),
        ]),
        Public::Ec { curve, point } => {
            let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(curve.size()).unwrap_or_default();
            let numbers = [
                (c"pub", Answer::Bytes(point)),
                (c"encoded-pub-key", Answer::Bytes(point)),
                (c"qx", Answer::Number(x)),
                (c"qy", Answer::Number(y)),
            ];
            answer_curve(*curve, questions) && questions.answer(numbers)
        }
        Public::Raw(raw, key) => {
            let category = if matches!(raw, Raw::MlKem768 | Raw::MlDsa65) { 3 } else { 0 };
            questions.answer([
                (c"security-category", Answer::Integer(category)),
                (c"mandatory-digest", Answer::Text(c"")),
                (c"pub", Answer::Bytes(key)),
                (c"encoded-pub-key", Answer::Bytes(key)),
            ])
        }
    }
}

fn answer_curve(curve: Curve, questions: &mut Questions<'_>) -> bool {
    questions.answer([
        (c"default-digest", Answer::Text(c"SHA256")),
        (c"group", Answer::Text(curve.name())),
        (c"encoding", Answer::Text(c"named_curve")),
        (c"point-format", Answer::Text(c"uncompressed")),
        (c"field-type", Answer::Text(c"prime-field")),
    ])
}
