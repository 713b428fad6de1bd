//! The program's memory: bytes, numbers, arrays, templates and parameters. Lengths are checked, and structures copied before
//! use; that a pointer is valid for its length is up to the program.

use crate::config::MAX_TEXT;
use crate::mechanism::{Mechanism, Parameter};
use crate::rv::Rv;
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_EDDSA_PARAMS, CK_FALSE, CK_MECHANISM, CK_MECHANISM_TYPE,
    CK_RSA_PKCS_OAEP_PARAMS, CK_RSA_PKCS_PSS_PARAMS, CK_SIGN_ADDITIONAL_CONTEXT, CK_ULONG, CK_UNAVAILABLE_INFORMATION,
    CKM_EDDSA, CKM_ML_DSA, CKM_RSA_PKCS_OAEP, CKM_RSA_PKCS_PSS, CKM_SHA224_RSA_PKCS_PSS, CKM_SHA256_RSA_PKCS_PSS,
    CKM_SHA384_RSA_PKCS_PSS, CKM_SHA512_RSA_PKCS_PSS, CKR_ARGUMENTS_BAD, CKR_ATTRIBUTE_VALUE_INVALID,
    CKR_BUFFER_TOO_SMALL, CKR_MECHANISM_PARAM_INVALID,
};
use std::ffi::c_void;

/// Most attributes of a template.
const MAX_ATTRIBUTES: CK_ULONG = 256;
/// Longest value of an attribute that the program gives, bytes.
const MAX_VALUE: CK_ULONG = 64 << 10;

/// Bytes of the program.
///
/// # Safety
/// `at` is null, or valid for `len` bytes during `'a`.
pub(super) unsafe fn bytes<'a>(at: *const u8, len: CK_ULONG) -> Result<&'a [u8], Rv> {
    let len = usize::try_from(len).ok().filter(|len| isize::try_from(*len).is_ok()).ok_or(Rv(CKR_ARGUMENTS_BAD))?;
    match (len, at.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Rv(CKR_ARGUMENTS_BAD)),
        // SAFETY: not null here, so valid for `len` bytes during `'a`, which are at most `isize::MAX`, as was checked.
        _ => Ok(unsafe { std::slice::from_raw_parts(at, len) }),
    }
}

/// A copy of a structure; `None`: the pointer is null.
///
/// # Safety
/// `at` is null, or valid for a `T`.
pub(super) unsafe fn read<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: not null here, so valid for a `T`, at any alignment; a `T` is of C, so a copy owns nothing.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// Writes an answer.
///
/// # Safety
/// `at` is null, or valid for a write.
pub(super) unsafe fn write<T>(at: *mut T, value: T) -> Result<(), Rv> {
    if at.is_null() {
        return Err(Rv(CKR_ARGUMENTS_BAD));
    }
    // SAFETY: not null here, so valid for a write, at any alignment.
    unsafe { at.write_unaligned(value) };
    Ok(())
}

/// A text that ends with a zero; `None`: the pointer is null.
///
/// # Safety
/// `at` is null, or valid up to the first zero, or for the longest text.
pub(super) unsafe fn text(at: *const u8) -> Result<Option<String>, Rv> {
    if at.is_null() {
        return Ok(None);
    }
    let mut text = Vec::new();
    for place in 0..=MAX_TEXT {
        // SAFETY: no zero was before this place.
        match unsafe { at.add(place).read() } {
            0 => return String::from_utf8(text).map(Some).map_err(|_| Rv(CKR_ARGUMENTS_BAD)),
            byte => text.push(byte),
        }
    }
    Err(Rv(CKR_ARGUMENTS_BAD))
}

/// The program's room for a result of bytes; it may only ask for the length.
pub(super) struct Room {
    at: *mut u8,
    len: *mut CK_ULONG,
    given: CK_ULONG,
}

impl Room {
    /// # Safety
    /// `len` is null or valid; `at` is null or valid for `*len` bytes; both as long as the room is used.
    pub(super) unsafe fn new(at: *mut u8, len: *mut CK_ULONG) -> Result<Self, Rv> {
        // SAFETY: `len` is null or valid.
        let given = unsafe { read(len) }.ok_or(Rv(CKR_ARGUMENTS_BAD))?;
        Ok(Self { at, len, given })
    }

    fn tell(&self, len: usize) {
        // SAFETY: `new` has read it, and by its contract it stays valid.
        unsafe { self.len.write_unaligned(len as CK_ULONG) };
    }

    /// Whether a result of this length may be written. A question for the length is answered with `Ok(false)`.
    pub(super) fn takes(&self, len: usize) -> Result<bool, Rv> {
        if self.at.is_null() {
            self.tell(len);
            return Ok(false);
        }
        if self.given < len as CK_ULONG {
            self.tell(len);
            return Err(Rv(CKR_BUFFER_TOO_SMALL));
        }
        Ok(true)
    }

    /// Only asks for the length.
    pub(super) fn asks(&self) -> bool {
        self.at.is_null()
    }

    /// Writes the result, if it fits.
    pub(super) fn put(&self, result: &[u8]) -> Result<(), Rv> {
        if self.takes(result.len())? {
            // SAFETY: `takes` found the place not null, and the room that `new` was told no less than the result. They do
            // not overlap: the result is this library's.
            unsafe { self.at.copy_from_nonoverlapping(result.as_ptr(), result.len()) };
            self.tell(result.len());
        }
        Ok(())
    }
}

/// The program's array for a list; it may only ask for the number.
pub(super) struct Array<T> {
    at: *mut T,
    count: *mut CK_ULONG,
    given: CK_ULONG,
}

impl<T> Array<T> {
    /// # Safety
    /// `count` is null or valid; `at` is null or has room for `*count` entries.
    pub(super) unsafe fn new(at: *mut T, count: *mut CK_ULONG) -> Result<Self, Rv> {
        // SAFETY: `count` is null or valid.
        let given = unsafe { read(count) }.ok_or(Rv(CKR_ARGUMENTS_BAD))?;
        Ok(Self { at, count, given })
    }

    /// Writes the list, if it fits.
    pub(super) fn put(self, list: impl ExactSizeIterator<Item = T>) -> Result<(), Rv> {
        let number = list.len() as CK_ULONG;
        // SAFETY: `new` has read it, and by its contract it stays valid.
        unsafe { self.count.write_unaligned(number) };
        if self.at.is_null() {
            return Ok(());
        }
        if self.given < number {
            return Err(Rv(CKR_BUFFER_TOO_SMALL));
        }
        for (place, entry) in list.enumerate() {
            // SAFETY: not null here, with room for `given` entries, which are no fewer than the list's.
            unsafe { self.at.add(place).write_unaligned(entry) };
        }
        Ok(())
    }
}

/// Attributes with their values.
///
/// # Safety
/// `at` is null or has `count` attributes; each value is null or valid for its length.
pub(super) unsafe fn template(
    at: *const CK_ATTRIBUTE,
    count: CK_ULONG,
) -> Result<Vec<(CK_ATTRIBUTE_TYPE, Vec<u8>)>, Rv> {
    if (at.is_null() && count > 0) || count > MAX_ATTRIBUTES {
        return Err(Rv(CKR_ARGUMENTS_BAD));
    }
    let attribute = |place| {
        // SAFETY: not null here, since `count` is above 0, and `place` is below it.
        let attribute = unsafe { at.add(place as usize).read_unaligned() };
        if attribute.ulValueLen > MAX_VALUE {
            return Err(Rv(CKR_ATTRIBUTE_VALUE_INVALID));
        }
        // SAFETY: by the contract of `template` a value is null or valid for its `ulValueLen` bytes.
        let value = unsafe { bytes(attribute.pValue.cast(), attribute.ulValueLen) };
        Ok((attribute.type_, value.map_err(|_| Rv(CKR_ATTRIBUTE_VALUE_INVALID))?.to_vec()))
    };
    (0..count).map(attribute).collect()
}

/// Answers for the attributes that the program asks for. All are answered; the first error is returned.
///
/// # Safety
/// `at` is null or has `count` attributes; each value is null or has room for its length.
pub(super) unsafe fn answer(
    at: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    value: impl Fn(CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Rv>,
) -> Result<(), Rv> {
    if at.is_null() || count > MAX_ATTRIBUTES {
        return Err(Rv(CKR_ARGUMENTS_BAD));
    }
    let mut result = Ok(());
    for place in 0..count as usize {
        // SAFETY: not null here, and `place` is below `count`.
        let (at, attribute) = unsafe { (at.add(place), at.add(place).read_unaligned()) };
        let told = value(attribute.type_).and_then(|value| {
            if attribute.pValue.is_null() {
                return Ok(value.len() as CK_ULONG);
            }
            if attribute.ulValueLen < value.len() as CK_ULONG {
                return Err(Rv(CKR_BUFFER_TOO_SMALL));
            }
            // SAFETY: not null here, with room for `ulValueLen` bytes, no fewer than the value's, which is this library's.
            unsafe { attribute.pValue.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
            Ok(value.len() as CK_ULONG)
        });
        let len = told.unwrap_or(CK_UNAVAILABLE_INFORMATION);
        // SAFETY: `at` is this attribute, which was read above.
        unsafe { (&raw mut (*at).ulValueLen).write_unaligned(len) };
        result = result.and(told.map(|_| ()));
    }
    result
}

/// A mechanism with a copy of its parameters; `None`: the pointer is null.
///
/// # Safety
/// `at` is null or valid, and so are the parameters of their length, and what these point to.
pub(super) unsafe fn mechanism(at: *const CK_MECHANISM) -> Result<Option<Mechanism>, Rv> {
    // SAFETY: null or a valid mechanism.
    let Some(mechanism) = (unsafe { read(at) }) else { return Ok(None) };
    if mechanism.pParameter.is_null() && mechanism.ulParameterLen > 0 {
        return Err(Rv(CKR_MECHANISM_PARAM_INVALID));
    }
    // SAFETY: `pParameter` has `ulParameterLen` bytes, and is not null unless that is 0, as was checked.
    let parameter = unsafe { parameter(mechanism.mechanism, mechanism.pParameter, mechanism.ulParameterLen) };
    Ok(Some(Mechanism { kind: mechanism.mechanism, parameter: parameter.unwrap_or(Parameter::Unfit) }))
}

/// # Safety
/// `at` is valid for `len` bytes, and so is what these point to for the length beside it.
unsafe fn parameter(kind: CK_MECHANISM_TYPE, at: *const c_void, len: CK_ULONG) -> Option<Parameter> {
    if len == 0 {
        return Some(Parameter::None);
    }
    let context = |at: *const u8, len| {
        // SAFETY: what a parameter points to is null or has the length beside it, by the contract of `mechanism`.
        if len > MAX_VALUE { None } else { unsafe { bytes(at, len) }.ok() }
    };
    match kind {
        CKM_RSA_PKCS_PSS
        | CKM_SHA224_RSA_PKCS_PSS
        | CKM_SHA256_RSA_PKCS_PSS
        | CKM_SHA384_RSA_PKCS_PSS
        | CKM_SHA512_RSA_PKCS_PSS => {
            // SAFETY: valid for `len` bytes, which `fixed` compares with the structure's.
            let CK_RSA_PKCS_PSS_PARAMS { hashAlg, mgf, sLen } = unsafe { fixed(at, len) }?;
            Some(Parameter::Pss { hash: hashAlg, mgf, salt: sLen })
        }
        CKM_RSA_PKCS_OAEP => {
            // SAFETY: valid for `len` bytes, which `fixed` compares with the structure's.
            let given: CK_RSA_PKCS_OAEP_PARAMS = unsafe { fixed(at, len) }?;
            let label = context(given.pSourceData.cast(), given.ulSourceDataLen)?.to_vec();
            Some(Parameter::Oaep { hash: given.hashAlg, mgf: given.mgf, source: given.source, label })
        }
        CKM_EDDSA => {
            // SAFETY: valid for `len` bytes, which `fixed` compares with the structure's.
            let given: CK_EDDSA_PARAMS = unsafe { fixed(at, len) }?;
            let context = context(given.pContextData, given.ulContextDataLen)?.to_vec();
            Some(Parameter::Context { prehashed: given.phFlag != CK_FALSE, context })
        }
        CKM_ML_DSA => {
            // SAFETY: valid for `len` bytes, which `fixed` compares with the structure's.
            let given: CK_SIGN_ADDITIONAL_CONTEXT = unsafe { fixed(at, len) }?;
            Some(Parameter::Context {
                prehashed: false,
                context: context(given.pContext, given.ulContextLen)?.to_vec(),
            })
        }
        _ => None,
    }
}

/// # Safety
/// `at` is valid for `len` bytes.
unsafe fn fixed<T: Copy>(at: *const c_void, len: CK_ULONG) -> Option<T> {
    // SAFETY: valid for `len` bytes, which are those of a `T`.
    if len == size_of::<T>() as CK_ULONG { unsafe { read(at.cast()) } } else { None }
}
