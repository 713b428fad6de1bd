//! Key generation as OpenSSL asks for it: parameters first, then a key; for EC also parameters alone.

use super::abi::select;
use super::object::{KeyObject, Object, with_object};
use super::params::{Param, Params, TEXT, UNSIGNED, params};
use super::provider::Provider;
use super::{OfFamily, guard};
use crate::generate::Wish;
use sidecore_client::face::failure::Failure;
use sidecore_client::face::key::Curve;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A key to be made.
pub(super) struct Generation {
    provider: Arc<Provider>,
    wish: Wish,
    /// Parameters only.
    no_key: bool,
}

impl Generation {
    fn set(&mut self, params: Params<'_>) -> Result<(), Failure> {
        if let Some(bits) = params.integer(c"bits") {
            self.wish.bits = usize::try_from(bits).unwrap_or(0);
        }
        if let Some(group) = params.text(c"group") {
            let curve = Curve::from_name(group)
                .ok_or_else(|| Failure::unsupported(format!("the curve {group}: use prime256v1 or secp384r1")))?;
            self.wish.curve = Some(curve);
        }
        Ok(())
    }
}

pub(super) extern "C" fn begin<F: OfFamily>(
    provider: &Arc<Provider>,
    selection: c_int,
    params: Params<'_>,
) -> Option<Box<Generation>> {
    guard(None, || {
        let no_key = selection & select::KEY_PAIR == 0;
        let mut generation = Generation { provider: Arc::clone(provider), wish: Wish::new(F::FAMILY), no_key };
        let set = generation.set(params);
        provider.tell(c"generate", set)?;
        Some(Box::new(generation))
    })
}

pub(super) extern "C" fn set_template(generation: &mut Generation, template: Option<&KeyObject>) -> c_int {
    with_object(template, c"generate", c_int::from(template.is_none()), |template| {
        generation.wish.curve = template.curve()?;
        Ok(1)
    })
}

pub(super) extern "C" fn set_params(generation: &mut Generation, params: Params<'_>) -> c_int {
    guard(0, || {
        let set = generation.set(params);
        c_int::from(generation.provider.tell(c"generate", set).is_some())
    })
}

pub(super) extern "C" fn settable_params(_generation: *mut c_void, _provider: *mut c_void) -> *const Param {
    static SETTABLE: &[Param] = params! {
        UNSIGNED: c"bits", c"primes";
        TEXT: c"group";
    };
    SETTABLE.as_ptr()
}

pub(super) extern "C" fn generate(
    generation: &Generation,
    _progress: *const c_void,
    _argument: *mut c_void,
) -> Option<Object> {
    let Generation { provider, wish, no_key } = generation;
    let made = || {
        if *no_key {
            return Object::with_parameters(provider, wish.curve);
        }
        Object::with(provider, wish.generate(provider.options()?)?)
    };
    guard(None, || provider.tell(c"generate", made()))
}
