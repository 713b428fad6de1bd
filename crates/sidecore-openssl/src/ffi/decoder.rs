//! Key files: `BEGIN SIDECORE KEY URI` where a server expects its private key.
//!
//! Two steps, as OpenSSL wants them: from PEM to DER, one block at each call, and from DER with a structure of our own
//! to a key. A decoder that did both would be offered every file, and end the search for certificates in it.

use super::abi::core::Bio;
use super::abi::{Callback, Dispatch, PassphraseCallback, decoder as entry, object, select};
use super::keymgmt::export_object;
use super::params::List;
use super::provider::{Provider, release};
use super::store::offer;
use super::{guard, shared};
use sidecore_client::face::failure::{Failure, Reason};
use sidecore_client::face::find::find;
use sidecore_client::face::key::{Family, Key, Private, Public, Raw};
use sidecore_client::face::pem::Block;
use sidecore_client::keys::uri::{PEM_LABEL, Uri};
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// Between the two steps.
const STRUCTURE: &CStr = c"SidecoreKeyUri";
pub(super) const FROM_PEM: &CStr = c"provider=sidecore,input=pem";
pub(super) const FROM_DER: &CStr = c"provider=sidecore,input=der,structure=SidecoreKeyUri";
/// Longest DER that is read: more than a URI and the longest public key have.
const MAX_DER: usize = 4096;

pub(super) static PEM_FUNCTIONS: [Dispatch; 4] =
    [entry::newctx(newctx), entry::freectx(release), entry::decode(decode_pem), Dispatch::END];

/// The functions of one family differ in its name only.
macro_rules! family {
    ($module:ident, $family:expr) => {
        pub(crate) mod $module {
            use super::*;

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn decode(
                context: *mut c_void,
                bio: *mut Bio,
                _selection: c_int,
                callback: Callback,
                argument: *mut c_void,
                _ask: PassphraseCallback,
                _ask_argument: *mut c_void,
            ) -> c_int {
                // SAFETY: OpenSSL's context, BIO and callback.
                unsafe { decode_der(context, bio, $family, callback, argument) }
            }

            pub(crate) static FUNCTIONS: [Dispatch; 6] = [
                entry::newctx(newctx),
                entry::freectx(release),
                entry::does_selection(does_selection),
                entry::decode(decode),
                entry::export_object(export_object),
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
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn newctx(context: *mut c_void) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the provider's context.
        Arc::into_raw(unsafe { shared::<Provider>(context) }).cast_mut().cast()
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn does_selection(_context: *mut c_void, selection: c_int) -> c_int {
    c_int::from(selection == 0 || selection & select::KEY_PAIR != 0)
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn decode_pem(
    context: *mut c_void,
    bio: *mut Bio,
    _selection: c_int,
    callback: Callback,
    argument: *mut c_void,
    _ask: PassphraseCallback,
    _ask_argument: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: the context made by `newctx`.
        let provider = unsafe { shared::<Provider>(context) };
        // SAFETY: OpenSSL's BIO.
        let block = Block::read(PEM_LABEL, || unsafe { provider.core.line(bio) });
        // Empty-handed is no error: another decoder may know it.
        let Some(der) = block else { return 1 };
        let list =
            List::default().text(c"data-structure", STRUCTURE).bytes(c"data", &der).integer(c"type", object::PKEY);
        // SAFETY: OpenSSL's callback and its argument.
        list.with(|list| unsafe { callback(list, argument) })
    })
}

/// # Safety
/// All are OpenSSL's.
unsafe fn decode_der(
    context: *mut c_void,
    bio: *mut Bio,
    family: Family,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: the context made by `newctx`.
        let provider = unsafe { shared::<Provider>(context) };
        // SAFETY: OpenSSL's BIO.
        let der = unsafe { provider.core.rest(bio, MAX_DER) };
        let uri = match Uri::from_der(&der) {
            Ok(uri) => uri,
            Err(error) => {
                // Only a file with our label comes here; others have another structure.
                if sidecore_client::face::pem::looks_like_uri(&der) {
                    // The search ends here: OpenSSL forgets what a decoder says that leaves it to others.
                    return provider.fail(c"decode", &Failure::new(Reason::Key, error.to_string()));
                }
                return 1;
            }
        };
        match key_of(&provider, &uri) {
            // SAFETY: OpenSSL's callback and its argument.
            Ok(key) if key.public.family() == family => unsafe { offer(&provider, key, callback, argument) },
            Ok(_) => 1,
            Err(failure) => provider.fail(c"decode", &failure),
        }
    })
}

/// The key that a file names. With its public part in the file, no service is asked: a server must load its keys also while
/// there is none. Whether the service's key is still the same is seen when it is used.
fn key_of(provider: &Provider, uri: &Uri) -> Result<Key, Failure> {
    let options = provider.options()?;
    match uri.public() {
        Some(public) => Ok(Key::new(Public::from_spki(public)?, Private::Stored(uri.name().to_owned()))),
        None => find(options, uri.name()),
    }
}
