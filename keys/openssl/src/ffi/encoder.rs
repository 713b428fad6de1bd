//! Writes a stored key: its name and public part as text, and the PEM file that names it.
//!
//! The file takes the place of a private key in PEM. There is no DER form: OpenSSL would read it again as PKCS#8, e.g.
//! for PKCS#12, and report malformed bytes instead of a key that stays in the service.

use super::abi::{Bio, Dispatch, PassphraseCallback, encoder as entry, select};
use super::context::{Context, newctx, with};
use super::object::{KeyObject, key_in};
use super::params::{Param, Params, TEXT, params};
use super::{free, guard};
use crate::text::text;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Key, Private};
use sidecore_client::keys::uri::Uri;
use std::ffi::{CStr, c_int, c_void};

pub(super) const TO_TEXT: &CStr = c"provider=sidecore,output=text";
pub(super) const TO_PEM: &CStr = c"provider=sidecore,output=pem,structure=PrivateKeyInfo";

pub(super) static TEXT_FUNCTIONS: [Dispatch; 5] = [
    entry::newctx(newctx::<Encrypted>),
    entry::freectx(free::<Context<Encrypted>>),
    entry::does_selection(does_selection),
    entry::encode(encode_text),
    Dispatch::END,
];

pub(super) static PEM_FUNCTIONS: [Dispatch; 7] = [
    entry::newctx(newctx::<Encrypted>),
    entry::freectx(free::<Context<Encrypted>>),
    entry::set_ctx_params(set_ctx_params),
    entry::settable_ctx_params(settable_ctx_params),
    entry::does_selection(does_selection),
    entry::encode(encode_pem),
    Dispatch::END,
];

static SETTABLE: &[Param] = params! {
    TEXT: c"cipher";
};

#[derive(Clone, Default)]
struct Encrypted(bool);

impl Encrypted {
    fn check(&self) -> Result<(), Failure> {
        let wrong = || Failure::unsupported("encrypting a file that only names its key: leave the cipher out");
        (!self.0).then_some(()).ok_or_else(wrong)
    }
}

/// OpenSSL's own code encodes public parts.
extern "C" fn does_selection(_provider: *mut c_void, selection: c_int) -> c_int {
    c_int::from(selection & select::PRIVATE != 0)
}

extern "C" fn settable_ctx_params(_provider: *mut c_void) -> *const Param {
    SETTABLE.as_ptr()
}

/// Programs ignore this result: the encoder refuses again when it writes.
extern "C" fn set_ctx_params(context: Option<&mut Context<Encrypted>>, params: Params<'_>) -> c_int {
    with(context, c"encode", |context| {
        context.work.0 = params.text(c"cipher").is_some_and(|cipher| !cipher.is_empty());
        context.work.check().map(|()| true)
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn encode_text(
    context: &Context<Encrypted>,
    out: *mut Bio,
    key: Option<&KeyObject>,
    _abstract: *const Param,
    _selection: c_int,
    _ask: PassphraseCallback,
    _ask_argument: *mut c_void,
) -> c_int {
    // SAFETY: `out` is a BIO for the output, by provider-encoder(7).
    unsafe { encode(context, out, key, |key| Ok(text(key))) }
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn encode_pem(
    context: &Context<Encrypted>,
    out: *mut Bio,
    key: Option<&KeyObject>,
    _abstract: *const Param,
    _selection: c_int,
    _ask: PassphraseCallback,
    _ask_argument: *mut c_void,
) -> c_int {
    // SAFETY: `out` is a BIO for the output, by provider-encoder(7).
    unsafe { encode(context, out, key, pem) }
}

/// # Safety
/// `out` is valid.
unsafe fn encode(
    context: &Context<Encrypted>,
    out: *mut Bio,
    key: Option<&KeyObject>,
    write: impl FnOnce(&Key) -> Result<String, Failure>,
) -> c_int {
    guard(0, || {
        let none = || Failure::new(Reason::Key, "there is no key to write");
        let key = key_in(key).and_then(|key| key.ok_or_else(none));
        let written = context.work.check().and(key).and_then(|key| write(&key));
        let written = context.provider.tell(c"encode", written);
        // SAFETY: `out` is valid, and a BIO of the core that this context's provider belongs to.
        c_int::from(written.is_some_and(|text| unsafe { context.provider.core.write(out, text.as_bytes()) }))
    })
}

fn pem(key: &Key) -> Result<String, Failure> {
    let Private::Stored(name) = &key.private else {
        return Err(Failure::new(
            Reason::Private,
            "this key has no name; one to keep is made by `sidecore keys generate`",
        ));
    };
    let spki = key.public.to_spki()?;
    let uri = Uri::new(name).and_then(|uri| uri.with_public(spki));
    uri.map(|uri| uri.to_pem()).map_err(|error| Failure::new(Reason::Key, error.to_string()))
}
