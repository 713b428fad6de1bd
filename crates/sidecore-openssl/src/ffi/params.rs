//! Lists of `OSSL_PARAM`: reading what OpenSSL says, answering what it asks, and making lists for its callbacks.
//!
//! A list is checked once, where its pointer comes in; what is made of it here is safe to use.

use super::abi::Param;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;

const INTEGER: u32 = 1;
const UNSIGNED: u32 = 2;
const TEXT: u32 = 4;
const BYTES: u32 = 5;
const TEXT_POINTER: u32 = 6;
const BYTES_POINTER: u32 = 7;
/// `OSSL_PARAM_UNMODIFIED`: nothing was answered.
const UNMODIFIED: usize = usize::MAX;
/// Longest list that is read.
const MAX_LEN: usize = 256;

impl Param {
    const fn describe(key: &'static CStr, data_type: u32) -> Self {
        Self { key: key.as_ptr(), data_type, data: std::ptr::null_mut(), data_size: 0, return_size: UNMODIFIED }
    }

    /// Says that there is an integer of this name.
    pub(crate) const fn integer(key: &'static CStr) -> Self {
        Self::describe(key, INTEGER)
    }

    /// Says that there is a number without a sign, of any length, of this name.
    pub(crate) const fn unsigned(key: &'static CStr) -> Self {
        Self::describe(key, UNSIGNED)
    }

    /// Says that there is a text of this name.
    pub(crate) const fn text(key: &'static CStr) -> Self {
        Self::describe(key, TEXT)
    }

    /// Says that there are bytes of this name.
    pub(crate) const fn bytes(key: &'static CStr) -> Self {
        Self::describe(key, BYTES)
    }

    /// Says that there is a pointer to a text of this name.
    pub(crate) const fn text_pointer(key: &'static CStr) -> Self {
        Self::describe(key, TEXT_POINTER)
    }

    /// Says that there is a pointer to bytes of this name.
    pub(crate) const fn bytes_pointer(key: &'static CStr) -> Self {
        Self::describe(key, BYTES_POINTER)
    }

    /// Ends a list.
    pub(crate) const END: Self =
        Self { key: std::ptr::null(), data_type: 0, data: std::ptr::null_mut(), data_size: 0, return_size: 0 };
}

/// What a parameter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number that fits.
    Integer(i64),
    /// A number without a sign, the least byte first.
    Number(&'a [u8]),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A list that OpenSSL handed over.
#[derive(Clone, Copy)]
pub(crate) struct Params<'a> {
    list: *const Param,
    life: PhantomData<&'a Param>,
}

impl<'a> Params<'a> {
    /// # Safety
    /// `list` is null or ends as lists do, and is valid for `'a`.
    pub(crate) unsafe fn new(list: *const Param) -> Self {
        Self { list, life: PhantomData }
    }

    /// What the parameter of this name says, if it is there and has a value.
    pub(crate) fn get(self, name: &CStr) -> Option<Value<'a>> {
        // SAFETY: the list is valid, see `new`.
        let param = unsafe { find(self.list, name)?.as_ref()? };
        // SAFETY: data and size are as the type says, see `new`.
        unsafe { value(param) }
    }

    /// The text of this name.
    pub(crate) fn text(self, name: &CStr) -> Option<&'a str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of this name.
    pub(crate) fn bytes(self, name: &CStr) -> Option<&'a [u8]> {
        match self.get(name)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The integer of this name.
    pub(crate) fn integer(self, name: &CStr) -> Option<i64> {
        match self.get(name)? {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    /// The number of this name, the most significant byte first, without zeros before it.
    pub(crate) fn number(self, name: &CStr) -> Option<Vec<u8>> {
        match self.get(name)? {
            Value::Integer(number) => Some(big_endian(&u64::try_from(number).ok()?.to_le_bytes())),
            Value::Number(bytes) => Some(big_endian(bytes)),
            _ => None,
        }
    }
}

fn big_endian(little: &[u8]) -> Vec<u8> {
    let len = little.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // Private numbers come here: a vector that grows would leave pieces of them behind.
    let mut big = Vec::with_capacity(len);
    big.extend(little[..len].iter().rev());
    big
}

/// # Safety
/// As for [`Params::new`].
unsafe fn find(list: *const Param, name: &CStr) -> Option<*const Param> {
    if list.is_null() {
        return None;
    }
    for index in 0..MAX_LEN {
        // SAFETY: the list goes on until a key is null.
        let param = unsafe { list.add(index) };
        // SAFETY: as above.
        let key = unsafe { (*param).key };
        if key.is_null() {
            return None;
        }
        // SAFETY: keys are C strings.
        if unsafe { CStr::from_ptr(key) } == name {
            return Some(param);
        }
    }
    None
}

/// # Safety
/// The parameter's data and size are as its type says.
unsafe fn value(param: &Param) -> Option<Value<'_>> {
    if param.data.is_null() {
        return None;
    }
    let data = match param.data_type {
        // SAFETY: the data is a pointer.
        TEXT_POINTER | BYTES_POINTER => unsafe { *param.data.cast::<*const u8>() },
        _ => param.data.cast_const().cast(),
    };
    if data.is_null() {
        return None;
    }
    // SAFETY: so many bytes are there.
    let bytes = unsafe { std::slice::from_raw_parts(data, param.data_size) };
    match param.data_type {
        INTEGER => signed(bytes).map(Value::Integer),
        UNSIGNED => Some(unsigned(bytes)),
        TEXT | TEXT_POINTER => {
            let text = bytes.split(|byte| *byte == 0).next()?;
            std::str::from_utf8(text).ok().map(Value::Text)
        }
        BYTES | BYTES_POINTER => Some(Value::Bytes(bytes)),
        _ => None,
    }
}

fn signed(bytes: &[u8]) -> Option<i64> {
    match bytes.len() {
        4 => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
        8 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

fn unsigned(bytes: &[u8]) -> Value<'_> {
    let short = match bytes.len() {
        4 => bytes.try_into().ok().map(|bytes| u32::from_le_bytes(bytes).into()),
        8 => bytes.try_into().ok().and_then(|bytes| i64::try_from(u64::from_le_bytes(bytes)).ok()),
        _ => None,
    };
    short.map_or(Value::Number(bytes), Value::Integer)
}

/// A list of questions.
pub(crate) struct Questions<'a> {
    list: *mut Param,
    life: PhantomData<&'a mut Param>,
}

/// An answer to a question of another type, or without room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misfit;

impl Questions<'_> {
    /// # Safety
    /// `list` is null or ends as lists do, and is valid and ours to write for the life of the value.
    pub(crate) unsafe fn new(list: *mut Param) -> Self {
        Self { list, life: PhantomData }
    }

    fn find(&mut self, name: &CStr) -> Option<&mut Param> {
        // SAFETY: the list is valid and ours, see `new`.
        unsafe { find(self.list, name)?.cast_mut().as_mut() }
    }

    /// Answers with an integer, if it was asked for.
    pub(crate) fn integer(&mut self, name: &CStr, number: i32) -> Result<(), Misfit> {
        let Some(param) = self.find(name) else { return Ok(()) };
        let negative = number < 0;
        match param.data_type {
            INTEGER => fill(param, &i64::from(number).to_le_bytes(), if negative { 0xff } else { 0 }, 4),
            UNSIGNED if !negative => fill(param, &i64::from(number).to_le_bytes(), 0, 4),
            _ => Err(Misfit),
        }
    }

    /// Answers with a length.
    pub(crate) fn length(&mut self, name: &CStr, length: usize) -> Result<(), Misfit> {
        self.integer(name, i32::try_from(length).map_err(|_| Misfit)?)
    }

    /// Answers with a number, given the most significant byte first.
    pub(crate) fn number(&mut self, name: &CStr, big: &[u8]) -> Result<(), Misfit> {
        let Some(param) = self.find(name) else { return Ok(()) };
        let little: Vec<u8> = big.iter().rev().copied().collect();
        if param.data_type == UNSIGNED { fill(param, &little, 0, little.len()) } else { Err(Misfit) }
    }

    /// Answers with a text.
    pub(crate) fn text(&mut self, name: &CStr, text: &'static CStr) -> Result<(), Misfit> {
        let Some(param) = self.find(name) else { return Ok(()) };
        match param.data_type {
            TEXT => copy(param, text.to_bytes(), text.to_bytes_with_nul()),
            TEXT_POINTER => {
                param.return_size = text.count_bytes();
                if !param.data.is_null() {
                    // SAFETY: the data is room for a pointer.
                    unsafe { *param.data.cast::<*const std::ffi::c_char>() = text.as_ptr() };
                }
                Ok(())
            }
            _ => Err(Misfit),
        }
    }

    /// Answers with a text that is made for the answer.
    pub(crate) fn copied(&mut self, name: &CStr, text: &CStr) -> Result<(), Misfit> {
        let Some(param) = self.find(name) else { return Ok(()) };
        if param.data_type == TEXT { copy(param, text.to_bytes(), text.to_bytes_with_nul()) } else { Err(Misfit) }
    }

    /// Answers with whichever of number and text was asked for.
    pub(crate) fn either(&mut self, name: &CStr, number: i32, text: &CStr) -> Result<(), Misfit> {
        match self.find(name).map(|param| param.data_type) {
            Some(TEXT) => self.copied(name, text),
            _ => self.integer(name, number),
        }
    }

    /// Answers with a pointer to bytes, which stay where they are while the context is not changed.
    pub(crate) fn pointer(&mut self, name: &CStr, bytes: &[u8]) -> Result<(), Misfit> {
        let Some(param) = self.find(name) else { return Ok(()) };
        if param.data_type != BYTES_POINTER {
            return Err(Misfit);
        }
        param.return_size = bytes.len();
        if !param.data.is_null() {
            // SAFETY: the data is room for a pointer.
            unsafe { *param.data.cast::<*const u8>() = bytes.as_ptr() };
        }
        Ok(())
    }

    /// Whether this is asked.
    pub(crate) fn asks(&mut self, name: &CStr) -> bool {
        self.find(name).is_some()
    }

    /// Answers with bytes.
    pub(crate) fn bytes(&mut self, name: &CStr, bytes: &[u8]) -> Result<(), Misfit> {
        let Some(param) = self.find(name) else { return Ok(()) };
        if param.data_type == BYTES { copy(param, bytes, bytes) } else { Err(Misfit) }
    }
}

/// Writes a number in the length that was asked for; `needed` is told where no room was given.
fn fill(param: &mut Param, little: &[u8], sign: u8, needed: usize) -> Result<(), Misfit> {
    param.return_size = needed;
    if param.data.is_null() {
        return Ok(());
    }
    let len = little.len().min(param.data_size);
    if little[len..].iter().any(|byte| *byte != sign) {
        return Err(Misfit);
    }
    // SAFETY: so many bytes of room are there.
    let room = unsafe { std::slice::from_raw_parts_mut(param.data.cast::<u8>(), param.data_size) };
    room.fill(sign);
    room[..len].copy_from_slice(&little[..len]);
    param.return_size = param.data_size;
    Ok(())
}

/// Writes bytes, and what ends them if there is room.
fn copy(param: &mut Param, bytes: &[u8], with_end: &[u8]) -> Result<(), Misfit> {
    param.return_size = bytes.len();
    if param.data.is_null() {
        return Ok(());
    }
    if param.data_size < bytes.len() {
        return Err(Misfit);
    }
    let len = with_end.len().min(param.data_size);
    // SAFETY: so many bytes of room are there.
    unsafe { std::ptr::copy_nonoverlapping(with_end.as_ptr(), param.data.cast::<u8>(), len) };
    Ok(())
}

/// A list made here, for one of OpenSSL's callbacks.
#[derive(Default)]
pub(crate) struct List {
    params: Vec<Param>,
    /// What the parameters point at.
    data: Vec<Box<[u8]>>,
}

impl List {
    fn push(mut self, key: &'static CStr, data_type: u32, data: Vec<u8>, size: usize) -> Self {
        let mut data = data.into_boxed_slice();
        let pointer: *mut c_void = data.as_mut_ptr().cast();
        self.params.push(Param {
            key: key.as_ptr(),
            data_type,
            data: pointer,
            data_size: size,
            return_size: UNMODIFIED,
        });
        self.data.push(data);
        self
    }

    /// With an integer.
    pub(crate) fn integer(self, key: &'static CStr, number: i32) -> Self {
        self.push(key, INTEGER, number.to_ne_bytes().to_vec(), 4)
    }

    /// With a number, given the most significant byte first.
    pub(crate) fn number(self, key: &'static CStr, big: &[u8]) -> Self {
        self.push(key, UNSIGNED, big.iter().rev().copied().collect(), big.len())
    }

    /// With a text.
    pub(crate) fn text(self, key: &'static CStr, text: &CStr) -> Self {
        self.push(key, TEXT, text.to_bytes_with_nul().to_vec(), text.count_bytes())
    }

    /// With bytes.
    pub(crate) fn bytes(self, key: &'static CStr, bytes: &[u8]) -> Self {
        self.push(key, BYTES, bytes.to_vec(), bytes.len())
    }

    /// With bytes that live as long as the list is used.
    pub(crate) fn borrowed(mut self, key: &'static CStr, data: *mut c_void, size: usize) -> Self {
        self.params.push(Param { key: key.as_ptr(), data_type: BYTES, data, data_size: size, return_size: UNMODIFIED });
        self
    }

    /// Calls with the list, which lives as long as the call.
    pub(crate) fn with<T>(mut self, call: impl FnOnce(*const Param) -> T) -> T {
        self.params.push(Param::END);
        call(self.params.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lose_their_zeros_and_are_never_copied() {
        let little = [&[1; 500][..], &[0; 12]].concat();
        let big = big_endian(&little);
        assert_eq!(big, [1; 500]);
        assert_eq!(big.capacity(), 500);
        assert_eq!(big_endian(&[1, 0, 2, 0]), [2, 0, 1]);
        assert_eq!(big_endian(&[0, 0]), []);
    }
}
