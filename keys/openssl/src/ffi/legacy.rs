//! Objects of the old kind (`RSA`, `EC_KEY`): some programs get them from OpenSSL (`EVP_PKEY_get1_RSA`), and sign or
//! decrypt through them in place of EVP.
//!
//! OpenSSL makes `export` pass the whole key to a function that builds the object. It exports to other providers with
//! other functions; those must get no part of a private key, because they would run its operations themselves. So
//! `legacy_builder` learns the one function, and all others are refused.
//!
//! That function gets the public part, and builds an object. The object alone then gets a method of ours
//! (`RSA_set_method`, `EC_KEY_set_method`), so that what programs do through it goes to the service. Its private
//! numbers are present, because programs read them without asking whether they are there (Node's JWK, Rust's `openssl`
//! crate), and they are zero: no private key, and no copy of them passes a check of keys.
//!
//! |Module|For|
//! |---|---|
//! |`attached`|the key object of the service's key, which each of these objects carries|
//! |`rsa`, `ec`|the methods|

mod attached;
mod ec;
mod rsa;

use super::abi::Callback;
use super::key_data::public;
use super::legacy_builder::ALL;
use super::libcrypto::Libcrypto;
use super::object::KeyObject;
use super::provider::Provider;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::{Family, Key};
use sidecore_client::keyops::notice::Remark;
use std::ffi::{c_int, c_void};

/// Looks up the functions of both methods, once for each libcrypto, which has this number: in a forked child the loader's
/// lock may be held forever.
pub(super) fn find(library: &Libcrypto, number: usize) {
    rsa::find(library, number);
    ec::find(library, number);
}

/// Builds the object of a private key, if the callback is the function that does so. `None`: it is another one.
///
/// # Safety
/// `callback` is OpenSSL's and belongs to `argument`.
pub(super) unsafe fn build(
    provider: &Provider,
    object: &KeyObject,
    key: &Key,
    callback: Callback,
    argument: *mut c_void,
) -> Option<Result<c_int, Failure>> {
    let family = key.public.family();
    if !provider.legacy.is_made_by(callback, family, provider.core.library_context()) {
        return None;
    }
    let (number, is_rsa) = (provider.core.memory.library(), family == Family::Rsa);
    if !(if is_rsa { rsa::is_there(number) } else { ec::is_there(number) }) {
        let text = "this program's libcrypto lacks the functions by which an RSA or EC_KEY would sign in the service, e.g. \
                    RSA_set_method: sign with EVP, or build libcrypto with its deprecated functions";
        return Some(Err(Failure::new(Reason::Private, text)));
    }
    let complete = || {
        // SAFETY: the argument of this callback is the context of a key, which has the object once the callback succeeded.
        let built = unsafe { provider.legacy.object_in(argument, family) };
        // SAFETY: the object of such a key, which only this thread knows yet.
        unsafe { if is_rsa { rsa::complete(number, built, object) } else { ec::complete(number, built, object) } }
    };
    // SAFETY: the callback gets its own argument, and a list that ends and lives longer than the call.
    let built = public(key, ALL).with(|list| unsafe { callback(list, argument) });
    let done = if built == 0 { Ok(0) } else { complete().map(|()| built) };
    if done.is_ok() {
        let (remark, text) = if is_rsa { (Remark::OldRsa, "RSA object") } else { (Remark::OldEc, "EC_KEY object") };
        provider.remark(
            remark,
            Some(key),
            &format!(
                "the program has the {text} of the key. It signs in the service. \
            Its private numbers are zero: a program that computes with them fails, see \"Old objects\" in provider.md"
            ),
        );
    }
    Some(done)
}
