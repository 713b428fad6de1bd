//! Library contexts: providers and their settings as a configuration file says, apart from the rest of the process.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Api, Failure, Handle};

/// A library context.
pub(crate) struct Context<'a> {
    pub(super) api: &'a Api,
    pub(super) handle: Handle<'a>,
}

impl<'a> Context<'a> {
    /// What that configuration file describes. Fails if it activates no provider of the name `provider`.
    pub(crate) fn configured(api: &'a Api, file: &Path, provider: &CStr) -> Result<Self, Failure> {
        let call = "OSSL_LIB_CTX_load_config";
        let path = CString::new(file.as_os_str().as_bytes())
            .map_err(|_| Failure::new(call, format!("{} has a zero byte in its name", file.display())))?;
        // SAFETY: takes nothing.
        let raw = unsafe { (api.context_new)() };
        let context = Self { api, handle: api.own(raw, api.context_free, "OSSL_LIB_CTX_new")? };
        // SAFETY: `context` is an OSSL_LIB_CTX, the path ends in a zero byte.
        api.check(unsafe { (api.context_configure)(context.handle.raw(), path.as_ptr()) }, call)?;
        // SAFETY: as above.
        let available = unsafe { (api.provider_available)(context.handle.raw(), provider.as_ptr()) };
        match available {
            1 => Ok(context),
            _ => Err(Failure::new(call, format!("{} activates no provider {provider:?}", file.display()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_is_not_there_is_told() {
        let api = Api::load().expect("the test machine has OpenSSL 3");
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("openssl.cnf");
        let sections = "openssl_conf = a\n[a]\nproviders = b\n[b]\ndefault = c\n[c]\nactivate = 1\n";
        std::fs::write(&file, sections).unwrap();
        assert!(Context::configured(&api, &file, c"default").is_ok());
        let failure = Context::configured(&api, &file, c"nobody").err().expect("there is no such provider");
        assert!(failure.to_string().contains("nobody"), "{failure}");
        assert!(Context::configured(&api, &scratch.path().join("none"), c"default").is_err());
    }
}
