//! Parameters that programs set on a key itself. A key does not change, except the point of a public key: the present
//! value is accepted, any other is refused.

use super::object::{KeyObject, with_object};
use super::params::{BYTES, INTEGER, Param, Params, TEXT, params};
use super::{guard, key_data};
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::key::{Key, Private, Public};
use std::ffi::{c_int, c_void};

static SETTABLE: &[Param] = params! {
    TEXT: c"encoding", c"point-format", c"group-check";
    INTEGER: c"use-cofactor-flag", c"include-public";
    BYTES: c"encoded-pub-key";
};

pub(super) extern "C" fn settable_params(_provider: *mut c_void) -> *const Param {
    SETTABLE.as_ptr()
}

pub(super) extern "C" fn set_params(object: &mut KeyObject, params: Params<'_>) -> c_int {
    if let (Some(provider), Some(bytes)) = (object.provider(), params.bytes(c"encoded-pub-key")) {
        let mut set = || point(object, bytes);
        return guard(0, || provider.tell(c"set the point of a key", set()).map_or(0, |()| 1));
    }
    with_object(Some(object), c"set parameters of a key", 0, |_| {
        params.all_in(SETTABLE)?;
        check(params).map(|()| 1)
    })
}

/// Gives parameters, or a public key, this point. OpenSSL makes a peer's key from a message this way.
fn point(object: &mut KeyObject, bytes: &[u8]) -> Result<(), Failure> {
    match object.curve()? {
        Some(curve) if object.has_key()? != Some(true) => {
            let public = Public::Ec { curve, point: key_data::point(curve, bytes)? };
            object.set(Key::new(public, Private::None))
        }
        _ => Err(Failure::unsupported("another point for this key: load the other key")),
    }
}

fn check(params: Params<'_>) -> Result<(), Failure> {
    let usual = [
        params.text(c"encoding").is_none_or(|encoding| encoding == "named_curve"),
        params.text(c"point-format").is_none_or(|format| format == "uncompressed"),
        params.text(c"group-check").is_none_or(|check| check == "default"),
        params.integer(c"use-cofactor-flag").is_none_or(|flag| flag == 0),
        params.integer(c"include-public").is_none_or(|flag| flag == 1),
    ];
    let wrong =
        "other forms of a key than a curve's name and an uncompressed point: export the public part, and change that";
    if usual.contains(&false) { Err(Failure::unsupported(wrong)) } else { Ok(()) }
}
