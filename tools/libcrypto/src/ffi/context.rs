//! Library contexts: providers and their settings, separate from the rest of the process or shared with it.

use super::{Api, Failure, Fetch, Free, Handle, Object, Part, api, or_null, release, text};
use std::path::Path;
use std::ptr;
use std::rc::Rc;

/// A library context.
pub struct Context {
    pub(super) api: &'static Api,
    /// `None`: the default context of programs.
    own: Option<Rc<Handle>>,
}

impl Context {
    /// The default context of programs.
    ///
    /// # Errors
    /// There is no libcrypto; the text names the packages to install.
    pub fn system() -> Result<Self, Failure> {
        Ok(Self { api: api()?, own: None })
    }

    /// The context that a configuration file describes.
    ///
    /// # Errors
    /// There is no libcrypto, it cannot read the file, or the file activates no provider of the name `provider`.
    pub fn load(file: &Path, provider: &str) -> Result<Self, Failure> {
        let (api, call) = (api()?, "OSSL_LIB_CTX_load_config");
        let own = api.make(api.context_new, api.context_free, "OSSL_LIB_CTX_new")?;
        let (path, name) = (text(file)?, text(provider)?);
        // SAFETY: an OSSL_LIB_CTX, and the path is a C string.
        api.check(unsafe { (api.context_configure)(own.raw(), path.as_ptr()) }, call)?;
        // SAFETY: as above.
        match unsafe { (api.provider_available)(own.raw(), name.as_ptr()) } {
            1 => Ok(Self { api, own: Some(own.into()) }),
            _ => Err(Failure::new(call, format!("{} activates no provider {provider:?}", file.display()))),
        }
    }

    /// The version in libcrypto's wording, e.g. `OpenSSL 3.0.19 27 Jan 2026`.
    pub fn version(&self) -> &str {
        &self.api.version
    }

    /// Major and minor number of the version.
    pub fn release(&self) -> (u32, u32) {
        release(self.version()).unwrap_or_default()
    }

    /// The provider of the cipher that a program gets for that name and these properties; `None` without such a
    /// cipher.
    pub fn provider_of_cipher(&self, name: &str, properties: &str) -> Option<String> {
        let Api { cipher_fetch, cipher_free, cipher_provider, .. } = *self.api;
        self.provider_of(cipher_fetch, cipher_free, cipher_provider, (name, properties))
    }

    /// As [`Context::provider_of_cipher`] for a digest.
    pub fn provider_of_digest(&self, name: &str, properties: &str) -> Option<String> {
        let Api { digest_fetch, digest_free, digest_provider, .. } = *self.api;
        self.provider_of(digest_fetch, digest_free, digest_provider, (name, properties))
    }

    fn provider_of(&self, fetch: Fetch, free: Free, of: Part, (name, properties): (&str, &str)) -> Option<String> {
        let method = self.fetch(fetch, free, name, properties).ok()?;
        // SAFETY: the method lives, and its provider as long.
        unsafe { self.api.name_of(of(method.raw())) }
    }

    pub(super) fn fetch(&self, fetch: Fetch, free: Free, name: &str, properties: &str) -> Result<Handle, Failure> {
        let (name, properties) = (text(name)?, text(properties)?);
        // SAFETY: the context lives, the texts are C strings.
        let raw = unsafe { fetch(self.raw(), name.as_ptr(), or_null(&properties)) };
        self.own(raw, free, "fetch of an algorithm")
    }

    /// Takes the ownership of an object that `call` made by a provider of this context.
    pub(super) fn own(&self, raw: Object, free: Free, call: &'static str) -> Result<Handle, Failure> {
        self.api.own(raw, free, call, self.own.clone())
    }

    pub(super) fn raw(&self) -> Object {
        self.own.as_ref().map_or(ptr::null_mut(), |own| own.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_is_not_there_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("openssl.cnf");
        let sections = "openssl_conf = a\n[a]\nproviders = b\n[b]\ndefault = c\n[c]\nactivate = 1\n";
        std::fs::write(&file, sections).unwrap();
        assert!(Context::load(&file, "default").is_ok());
        let failure = Context::load(&file, "nobody").err().expect("there is no such provider");
        assert!(failure.to_string().contains("nobody"), "{failure}");
        assert!(Context::load(&scratch.path().join("none"), "default").is_err());
    }

    #[test]
    fn the_version_says_what_was_loaded() {
        let context = Context::system().expect("the test machine has OpenSSL 3");
        assert!(context.version().starts_with("OpenSSL ") && context.release() >= (3, 0));
    }
}
