//! Whose digests and ciphers there are.

use super::{API, Context, Owned, name_of, text};
use std::ptr;

/// The provider whose digest (or else cipher) a program gets that asks with these properties; none without.
pub(crate) fn fetched_from(context: &Context, name: &str, properties: Option<&str>, cipher: bool) -> Option<String> {
    let (name, properties) = (text(name), properties.map(text));
    let properties = properties.as_ref().map_or(ptr::null(), |properties| properties.as_ptr());
    let (fetch, free, provider) = if cipher {
        (API.cipher_fetch, API.cipher_free, API.cipher_provider)
    } else {
        (API.digest_fetch, API.digest_free, API.digest_provider)
    };
    // SAFETY: the context lives, the texts are C strings.
    let method = Owned::new(unsafe { fetch(context.0.object, name.as_ptr(), properties) }, free).ok()?;
    // SAFETY: the method lives, and its provider as long.
    unsafe { name_of(provider(method.object)) }
}
