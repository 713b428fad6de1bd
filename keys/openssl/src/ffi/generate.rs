//! Key generation for OpenSSL: parameters first, then a key; for EC also parameters alone.

use super::abi::select;
use super::object::{KeyObject, Object, with_object};
use super::params::{BYTES, INTEGER, Param, Params, TEXT, UNSIGNED, params};
use super::provider::Provider;
use super::{OfFamily, guard};
use crate::generate::GenerateRequest;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::key::{Curve, Family};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

pub(super) struct Generation {
    provider: Arc<Provider>,
    request: GenerateRequest,
    no_key: bool,
}

impl Generation {
    fn set(&mut self, params: Params<'_>) -> Result<(), Failure> {
        params.all_in(settable(self.request.family))?;
        check_unchangeable(params)?;
        if let Some(bits) = params.integer(c"bits") {
            self.request.bits = usize::try_from(bits).unwrap_or(0);
        }
        let own = |name: &&str| name.eq_ignore_ascii_case(&self.request.family.name().to_string_lossy());
        if let Some(group) = params.text(c"group").filter(|name| !own(name)) {
            let curve = Curve::from_name(group).ok_or_else(|| {
                Failure::unsupported(format!("the curve {group}: use prime256v1, secp384r1 or secp521r1"))
            })?;
            self.request.curve = Some(curve);
        }
        Ok(())
    }
}

const OF_RSA: &[Param] = params! {
    UNSIGNED: c"bits", c"primes", c"pubexp";
};
const OF_EC: &[Param] = params! {
    TEXT: c"group", c"encoding", c"point-format";
    INTEGER: c"use-cofactor-flag";
    BYTES: c"dhkem-ikm";
};
const OF_OTHERS: &[Param] = params! {
    TEXT: c"group", c"properties";
    BYTES: c"seed", c"dhkem-ikm";
};

fn settable(family: Family) -> &'static [Param] {
    match family {
        Family::Rsa => OF_RSA,
        Family::Ec => OF_EC,
        Family::Raw(_) => OF_OTHERS,
    }
}

/// Refuses choices that the service does not offer: it makes keys from its own random bytes, in their usual forms.
fn check_unchangeable(params: Params<'_>) -> Result<(), Failure> {
    let other_than = |name, usual: &[u8]| params.number(name).is_some_and(|number| number != usual);
    let in_words = |name, usual| params.text(name).is_some_and(|text| text != usual);
    let wrong = if other_than(c"pubexp", &[1, 0, 1]) {
        "RSA keys with another exponent than 65537: leave the setting out"
    } else if other_than(c"primes", &[2]) {
        "RSA keys of more than two primes: leave the setting out"
    } else if params.integer(c"use-cofactor-flag").is_some_and(|flag| flag != 0) {
        "the cofactor of a curve: leave the setting out"
    } else if in_words(c"encoding", "named_curve") || in_words(c"point-format", "uncompressed") {
        "other forms than a curve's name and an uncompressed point: leave the setting out"
    } else if in_words(c"properties", "") {
        "algorithms with properties: leave them out"
    } else if params.bytes(c"seed").or(params.bytes(c"dhkem-ikm")).is_some() {
        "keys of a seed: import the key, e.g. by `sidecore keys import`"
    } else {
        return Ok(());
    };
    Err(Failure::unsupported(wrong))
}

pub(super) extern "C" fn begin<F: OfFamily>(
    provider: &Arc<Provider>,
    selection: c_int,
    params: Params<'_>,
) -> Option<Box<Generation>> {
    guard(None, || {
        let no_key = selection & select::KEY_PAIR == 0;
        let mut generation =
            Generation { provider: Arc::clone(provider), request: GenerateRequest::new(F::FAMILY), no_key };
        let set = generation.set(params);
        provider.tell(c"generate", set)?;
        Some(Box::new(generation))
    })
}

pub(super) extern "C" fn set_template(generation: &mut Generation, template: Option<&KeyObject>) -> c_int {
    with_object(template, c"generate", c_int::from(template.is_none()), |template| {
        generation.request.curve = template.curve()?;
        Ok(1)
    })
}

pub(super) extern "C" fn set_params(generation: &mut Generation, params: Params<'_>) -> c_int {
    guard(0, || {
        let set = generation.set(params);
        c_int::from(generation.provider.tell(c"generate", set).is_some())
    })
}

pub(super) extern "C" fn settable_params<F: OfFamily>(
    _generation: *mut c_void,
    _provider: *mut c_void,
) -> *const Param {
    settable(F::FAMILY).as_ptr()
}

pub(super) extern "C" fn generate(
    generation: &Generation,
    _progress: *const c_void,
    _argument: *mut c_void,
) -> Option<Object> {
    let Generation { provider, request, no_key } = generation;
    let made = || {
        if *no_key {
            return Object::with_parameters(provider, request.curve);
        }
        Object::with(provider, request.generate(provider.options()?)?)
    };
    guard(None, || provider.tell(c"generate", made()))
}
