//! Key files: `BEGIN SIDECORE KEY URI` where a server expects its private key, or the same in PKCS#8.
//!
//! Two steps, as OpenSSL requires: from PEM to DER, one block per call, and from DER with a structure of our own to a
//! key. A decoder for both would be offered every file, and would end the search for certificates in it.

use super::abi::{Bio, Callback, Dispatch, OBJECT_PKEY, PassphraseCallback, decoder as entry, select};
use super::context::{Context, newctx};
use super::keymgmt::export_object;
use super::object::offer;
use super::params::List;
use super::provider::Provider;
use super::{OfFamily, fips, free, guard};
use sidecore_client::keyops::ask::find;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Key, Private, Public};
use sidecore_client::keys::pem::{looks_like_uri, read_block};
use sidecore_client::keys::uri::{PEM_LABEL, Uri};
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;

/// Name of the structure between the two steps.
const STRUCTURE: &CStr = c"SidecoreKeyUri";
/// They have `fips=yes` as OpenSSL's own decoders do, which compute nothing: a program that asks for it must come as far
/// as an error that says why it gets no key.
pub(super) const FROM_PEM: &CStr = c"provider=sidecore,fips=yes,input=pem";
pub(super) const FROM_DER: &CStr = c"provider=sidecore,fips=yes,input=der,structure=SidecoreKeyUri";
/// Private keys of any kind in PKCS#8, which OpenSSL's own code takes out of PEM. Most are not ours.
pub(super) const FROM_PKCS8: &CStr = c"provider=sidecore,fips=yes,input=der,structure=PrivateKeyInfo";
/// Longest DER that is read, bytes: above the size of a URI with the longest public key.
const MAX_DER: usize = 4096;

pub(super) static PEM_FUNCTIONS: [Dispatch; 4] =
    [entry::newctx(newctx::<()>), entry::freectx(free::<Context<()>>), entry::decode(decode_pem), Dispatch::END];

pub(super) struct FromDer<F>(PhantomData<F>);

impl<F: OfFamily> FromDer<F> {
    pub(super) const FUNCTIONS: &'static [Dispatch] = &[
        entry::newctx(newctx::<()>),
        entry::freectx(free::<Context<()>>),
        entry::does_selection(does_selection),
        entry::decode(decode_der::<F, false>),
        entry::export_object(export_object),
        Dispatch::END,
    ];
    pub(super) const IN_PKCS8: &'static [Dispatch] = &[
        entry::newctx(newctx::<()>),
        entry::freectx(free::<Context<()>>),
        entry::does_selection(does_selection),
        entry::decode(decode_der::<F, true>),
        entry::export_object(export_object),
        Dispatch::END,
    ];
}

extern "C" fn does_selection(_provider: *mut c_void, selection: c_int) -> c_int {
    c_int::from(selection == 0 || selection & select::KEY_PAIR != 0)
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn decode_pem(
    context: &Context<()>,
    bio: *mut Bio,
    _selection: c_int,
    callback: Callback,
    argument: *mut c_void,
    _ask: PassphraseCallback,
    _ask_argument: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: `in` is a BIO of the core that this context's provider belongs to, by provider-decoder(7).
        let block = read_block(PEM_LABEL, || unsafe { context.provider.core.line(bio) });
        // Finding nothing is no error: another decoder may know the file.
        let Some(der) = block else { return 1 };
        let list =
            List::default().text(c"data-structure", STRUCTURE).bytes(c"data", &der).integer(c"type", OBJECT_PKEY);
        // SAFETY: `data_cb` takes `data_cbarg` and a list that ends, by provider-decoder(7).
        list.with(|list| unsafe { callback(list, argument) })
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn decode_der<F: OfFamily, const PKCS8: bool>(
    context: &Context<()>,
    bio: *mut Bio,
    _selection: c_int,
    callback: Callback,
    argument: *mut c_void,
    _ask: PassphraseCallback,
    _ask_argument: *mut c_void,
) -> c_int {
    guard(0, || {
        let provider = &context.provider;
        // SAFETY: `in` is a BIO of the core that this context's provider belongs to, by provider-decoder(7).
        let der = unsafe { provider.core.rest(bio, MAX_DER) };
        // Another decoder may know this private key.
        let Some(der) = (if PKCS8 { Uri::body_in_pkcs8(&der) } else { Some(&der[..]) }) else { return 1 };
        let key = match Uri::from_der(der) {
            Ok(uri) => key_of(provider, &uri),
            // Only a file of ours arrives here; others have another structure. The search must end with this
            // error, because OpenSSL discards the errors of a decoder that lets it continue.
            Err(error) if looks_like_uri(der) => Err(Failure::new(Reason::Key, error.to_string())),
            Err(_) => return 1,
        };
        match provider.tell(c"decode", key) {
            // SAFETY: `data_cb` and `data_cbarg` belong together, by provider-decoder(7).
            Some(key) if key.public.family() == F::FAMILY => unsafe { offer(provider, key, callback, argument) },
            key => c_int::from(key.is_some()),
        }
    })
}

/// The key named by a file. If the file has the public part, no service is needed, so that a server can load its keys
/// during an outage. Whether the service's key is still the same is checked at use.
fn key_of(provider: &Provider, uri: &Uri) -> Result<Key, Failure> {
    fips::check(&provider.core)?;
    let options = provider.options()?;
    match uri.public() {
        Some(public) => Ok(Key::new(Public::from_spki(public)?, Private::Stored(uri.name().to_owned()))),
        None => find(options, uri.name()),
    }
}
