//! What OpenSSL offers a provider.

use super::Param;
use std::ffi::{c_char, c_int, c_void};

/// `OSSL_CORE_HANDLE`: the provider, as OpenSSL sees it.
#[repr(C)]
pub struct Handle([u8; 0]);

/// `OSSL_CORE_BIO`.
#[repr(C)]
pub(crate) struct Bio([u8; 0]);

pub(crate) const GET_PARAMS: c_int = 2;
pub(crate) const NEW_ERROR: c_int = 5;
pub(crate) const SET_ERROR_DEBUG: c_int = 6;
pub(crate) const VSET_ERROR: c_int = 7;
pub(crate) const BIO_READ_EX: c_int = 42;
pub(crate) const BIO_GETS: c_int = 49;

pub(crate) type GetParams = unsafe extern "C" fn(*const Handle, *mut Param) -> c_int;
pub(crate) type NewError = unsafe extern "C" fn(*const Handle);
pub(crate) type SetErrorDebug = unsafe extern "C" fn(*const Handle, *const c_char, c_int, *const c_char);
/// The last argument is a `va_list`; the format has no conversions, so that it is never read.
pub(crate) type VsetError = unsafe extern "C" fn(*const Handle, u32, *const c_char, *mut c_void);
pub(crate) type BioReadEx = unsafe extern "C" fn(*mut Bio, *mut c_void, usize, *mut usize) -> c_int;
pub(crate) type BioGets = unsafe extern "C" fn(*mut Bio, *mut c_char, c_int) -> c_int;
