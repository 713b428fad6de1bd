//! Programs that let OpenSSL use validated modules only.

use super::libcrypto::Libcrypto;
use super::upcalls::Core;
use sidecore_client::keyops::failure::Failure;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

type IsFipsEnabled = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Looked up once: in a forked child the loader's lock may be held forever.
static FIPS: OnceLock<Option<IsFipsEnabled>> = OnceLock::new();

/// Looks up what [`check`] calls.
pub(super) fn find(library: &Libcrypto) {
    FIPS.get_or_init(|| {
        let address = library.address(c"EVP_default_properties_is_fips_enabled")?;
        // SAFETY: OpenSSL's function of this name has this type, see openssl/evp.h.
        Some(unsafe { std::mem::transmute::<*mut c_void, IsFipsEnabled>(address) })
    });
}

/// Refuses a key where the program lets OpenSSL use validated modules only. OpenSSL would find no operation for it, and
/// say no more than that something is unsupported.
pub(super) fn check(core: &Core) -> Result<(), Failure> {
    let Some(Some(is_enabled)) = FIPS.get() else { return Ok(()) };
    // SAFETY: the function takes a library context, and that which loaded this provider outlives it.
    if unsafe { is_enabled(core.library_context()) } != 1 {
        return Ok(());
    }
    Err(Failure::unsupported(
        "the key is in the sidecore service, and default_properties has fips=yes, which asks for validated modules only: \
         no build of sidecore is validated, so leave fips=yes out for this program, or use a key of the validated module",
    ))
}
