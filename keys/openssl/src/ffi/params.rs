//! Lists of `OSSL_PARAM`: reading parameters, answering queries, and making lists for callbacks.
//!
//! A list is checked once, at its pointer's entry into this module; the types here are safe to use.

use sidecore_client::keyops::failure::Failure;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

/// A signed number (`OSSL_PARAM_INTEGER`).
pub(super) const INTEGER: u32 = 1;
/// An unsigned number of any length.
pub(super) const UNSIGNED: u32 = 2;
pub(super) const TEXT: u32 = 4;
pub(super) const BYTES: u32 = 5;
pub(super) const TEXT_POINTER: u32 = 6;
pub(super) const BYTES_POINTER: u32 = 7;
/// `OSSL_PARAM_UNMODIFIED`: no answer yet.
const UNMODIFIED: usize = usize::MAX;
/// Longest list that is read, entries.
const MAX_LEN: usize = 256;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Param {
    pub(super) key: *const c_char,
    pub(super) data_type: u32,
    pub(super) data: *mut c_void,
    pub(super) data_size: usize,
    pub(super) return_size: usize,
}

// SAFETY: shared ones are descriptions: a name and a type, without data.
unsafe impl Sync for Param {}

impl Param {
    pub(super) const fn new(key: &'static CStr, data_type: u32) -> Self {
        Self { key: key.as_ptr(), data_type, data: std::ptr::null_mut(), data_size: 0, return_size: UNMODIFIED }
    }

    pub(super) const END: Self = Self { key: std::ptr::null(), ..Self::new(c"", 0) };

    fn check(&self, known: &[Self]) -> Result<(), Failure> {
        // SAFETY: keys are C strings that live as long as their lists, and ends have none.
        let name = |param: &Self| (!param.key.is_null()).then(|| unsafe { CStr::from_ptr(param.key) });
        let mut types = known.iter().filter(|known| name(known) == name(self)).map(|known| known.data_type).peekable();
        let called = name(self).unwrap_or_default().to_string_lossy();
        if types.peek().is_none() {
            return Err(Failure::unsupported(format!("the parameter {called:?}: leave it out")));
        }
        // SAFETY: data and size match the type.
        let fits = match unsafe { value(self) } {
            Some(Value::Integer(number)) => types.any(|known| known == INTEGER || known == UNSIGNED && number >= 0),
            Some(Value::Number(_)) => types.any(|known| known == UNSIGNED),
            Some(Value::Text(_)) => types.any(|known| known == TEXT),
            Some(Value::Bytes(_)) => types.any(|known| known == BYTES),
            None => false,
        };
        if fits { Ok(()) } else { Err(Failure::input(format!("the parameter {called:?} has no value of its type"))) }
    }
}

macro_rules! params {
    ($($data_type:ident: $($name:expr),+;)*) => {{
        const LIST: &[Param] = &[$($(Param::new($name, $data_type),)+)* Param::END];
        LIST
    }};
}
pub(super) use params;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Integer(i64),
    /// An unsigned number, least significant byte first.
    Number(&'a [u8]),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A list from OpenSSL: null, or properly terminated and valid for `'a`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Params<'a>(*const Param, PhantomData<&'a Param>);

impl<'a> Params<'a> {
    /// Refuses parameters outside of this list: ignoring one would give a result other than the requested one.
    pub(crate) fn all_in(self, known: &[Param]) -> Result<(), Failure> {
        if self.0.is_null() {
            return Ok(());
        }
        for index in 0..MAX_LEN {
            // SAFETY: the list continues until a key is null.
            let param = unsafe { &*self.0.add(index) };
            if param.key.is_null() {
                return Ok(());
            }
            param.check(known)?;
        }
        Err(Failure::input(format!("more than {MAX_LEN} parameters")))
    }

    pub(crate) fn get(self, name: &CStr) -> Option<Value<'a>> {
        // SAFETY: the list is valid, and data and size of each parameter match its type.
        unsafe { value(find(self.0, name)?.as_ref()?) }
    }

    pub(crate) fn text(self, name: &CStr) -> Option<&'a str> {
        if let Value::Text(text) = self.get(name)? { Some(text) } else { None }
    }

    pub(crate) fn bytes(self, name: &CStr) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self.get(name)? { Some(bytes) } else { None }
    }

    pub(crate) fn integer(self, name: &CStr) -> Option<i64> {
        if let Value::Integer(number) = self.get(name)? { Some(number) } else { None }
    }

    /// Most significant byte first, without leading zeros.
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
    // Private numbers pass here: a growing vector would leave pieces of them in freed memory.
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
        // SAFETY: the list continues until a key is null.
        let param = unsafe { list.add(index) };
        // SAFETY: no key before it was null, so this parameter is one of the list.
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
/// The parameter's data and size match its type.
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
    // SAFETY: the parameter states that this number of bytes is valid.
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

/// The caller chooses the length of numbers: those of `-pkeyopt` may have one byte.
fn signed(little: &[u8]) -> Option<i64> {
    let sign = if little.last()? & 0x80 == 0 { 0 } else { 0xff };
    let mut bytes = [sign; 8];
    bytes.get_mut(..little.len())?.copy_from_slice(little);
    Some(i64::from_le_bytes(bytes))
}

fn unsigned(little: &[u8]) -> Value<'_> {
    let mut bytes = [0; 8];
    if let Some(room) = bytes.get_mut(..little.len()) {
        room.copy_from_slice(little);
        if let Ok(short) = i64::try_from(u64::from_le_bytes(bytes)) {
            return Value::Integer(short);
        }
    }
    Value::Number(little)
}

/// A list of queries: null, or properly terminated, valid and writable for `'a`.
#[repr(transparent)]
pub(crate) struct Questions<'a>(*mut Param, PhantomData<&'a mut Param>);

pub(crate) enum Answer<'a> {
    Integer(i32),
    Length(usize),
    /// A number, most significant byte first.
    Number(&'a [u8]),
    Text(&'a CStr),
    /// A number or a text, by the type of the query.
    Either(i32, &'a CStr),
    Bytes(&'a [u8]),
    TextPointer(&'static CStr),
    /// A pointer to bytes, which stay valid until the context changes.
    BytesPointer(&'a [u8]),
}

impl Questions<'_> {
    /// Answers the queries for these names. `false`: a query has another type, or a buffer that is too small.
    pub(crate) fn answer<const N: usize>(&mut self, answers: [(&CStr, Answer<'_>); N]) -> bool {
        answers.into_iter().all(|(name, answer)| self.find(name).is_none_or(|param| answer.put(param)))
    }

    pub(crate) fn asks(&mut self, name: &CStr) -> bool {
        self.find(name).is_some()
    }

    fn find(&mut self, name: &CStr) -> Option<&mut Param> {
        // SAFETY: the list is valid and ours.
        unsafe { find(self.0, name)?.cast_mut().as_mut() }
    }
}

impl Answer<'_> {
    fn put(self, param: &mut Param) -> bool {
        match (self, param.data_type) {
            (Self::Integer(number) | Self::Either(number, _), INTEGER | UNSIGNED)
                if number >= 0 || param.data_type == INTEGER =>
            {
                fill(param, &number.to_le_bytes(), if number < 0 { 0xff } else { 0 }, 4)
            }
            (Self::Length(length), INTEGER | UNSIGNED) => {
                i32::try_from(length).is_ok_and(|length| Self::Integer(length).put(param))
            }
            (Self::Number(big), UNSIGNED) => {
                let little: Vec<u8> = big.iter().rev().copied().collect();
                fill(param, &little, 0, little.len())
            }
            (Self::Text(text) | Self::Either(_, text), TEXT) => copy(param, text.to_bytes(), text.to_bytes_with_nul()),
            (Self::Bytes(bytes), BYTES) => copy(param, bytes, bytes),
            (Self::TextPointer(text), TEXT_POINTER) => point(param, text.to_bytes()),
            (Self::BytesPointer(bytes), BYTES_POINTER) => point(param, bytes),
            _ => false,
        }
    }
}

fn point(param: &mut Param, bytes: &[u8]) -> bool {
    param.return_size = bytes.len();
    if !param.data.is_null() {
        // SAFETY: the data is room for a pointer.
        unsafe { *param.data.cast::<*const u8>() = bytes.as_ptr() };
    }
    true
}

/// Writes a number in the length of the query's buffer; without a buffer, returns `needed` as the length.
fn fill(param: &mut Param, little: &[u8], sign: u8, needed: usize) -> bool {
    param.return_size = needed;
    if param.data.is_null() {
        return true;
    }
    let len = little.len().min(param.data_size);
    if little[len..].iter().any(|byte| *byte != sign) {
        return false;
    }
    // SAFETY: the query states that this number of bytes is writable.
    let room = unsafe { std::slice::from_raw_parts_mut(param.data.cast::<u8>(), param.data_size) };
    room.fill(sign);
    room[..len].copy_from_slice(&little[..len]);
    param.return_size = param.data_size;
    true
}

fn copy(param: &mut Param, bytes: &[u8], with_end: &[u8]) -> bool {
    param.return_size = bytes.len();
    if param.data.is_null() {
        return true;
    }
    if param.data_size < bytes.len() {
        return false;
    }
    let len = with_end.len().min(param.data_size);
    // SAFETY: the query states that this number of bytes is writable.
    unsafe { std::ptr::copy_nonoverlapping(with_end.as_ptr(), param.data.cast::<u8>(), len) };
    true
}

#[derive(Default)]
pub(crate) struct List {
    params: Vec<Param>,
    data: Vec<Box<[u8]>>,
}

impl List {
    fn push(mut self, key: &'static CStr, data_type: u32, data: Vec<u8>, data_size: usize) -> Self {
        let mut data = data.into_boxed_slice();
        self.params.push(Param { data: data.as_mut_ptr().cast(), data_size, ..Param::new(key, data_type) });
        self.data.push(data);
        self
    }

    pub(crate) fn integer(self, key: &'static CStr, number: i32) -> Self {
        self.push(key, INTEGER, number.to_ne_bytes().to_vec(), 4)
    }

    /// `big`: most significant byte first.
    pub(crate) fn number(self, key: &'static CStr, big: &[u8]) -> Self {
        self.push(key, UNSIGNED, big.iter().rev().copied().collect(), big.len())
    }

    pub(crate) fn text(self, key: &'static CStr, text: &CStr) -> Self {
        self.push(key, TEXT, text.to_bytes_with_nul().to_vec(), text.count_bytes())
    }

    pub(crate) fn bytes(self, key: &'static CStr, bytes: &[u8]) -> Self {
        self.push(key, BYTES, bytes.to_vec(), bytes.len())
    }

    /// Adds bytes that must live as long as the list is used.
    pub(crate) fn borrowed(mut self, key: &'static CStr, data: *mut c_void, size: usize) -> Self {
        self.params.push(Param { data, data_size: size, ..Param::new(key, BYTES) });
        self
    }

    pub(crate) fn with<T>(mut self, call: impl FnOnce(*const Param) -> T) -> T {
        self.params.push(Param::END);
        call(self.params.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_any_length() {
        assert_eq!(
            [&[1][..], &[0xff], &[1, 0, 0], &[0xfe, 0xff, 0xff, 0xff]].map(signed),
            [Some(1), Some(-1), Some(1), Some(-2)]
        );
        assert_eq!([signed(&[]), signed(&[0; 9])], [None, None]);
        assert_eq!([unsigned(&[7]), unsigned(&[0, 1]), unsigned(&[])], [7, 256, 0].map(Value::Integer));
        assert_eq!(unsigned(&[0xff; 8]), Value::Number(&[0xff; 8]));
    }

    #[test]
    fn what_is_unknown_or_of_another_type_is_refused() {
        let known = params! { TEXT: c"digest"; UNSIGNED: c"bits"; INTEGER: c"bits-or-less"; };
        let told =
            |list: List| list.with(|list| Params(list, PhantomData).all_in(known)).map_err(|failure| failure.text);
        assert_eq!(told(List::default()), Ok(()));
        assert_eq!(told(List::default().text(c"digest", c"SHA256").integer(c"bits", 7)), Ok(()));
        assert_eq!(told(List::default().integer(c"bits-or-less", -7)), Ok(()));
        assert!(told(List::default().integer(c"bits", -7)).unwrap_err().contains("\"bits\" has no value"));
        assert!(told(List::default().bytes(c"digest", b"x")).unwrap_err().contains("\"digest\" has no value"));
        assert!(told(List::default().integer(c"zzz", 0)).unwrap_err().contains("\"zzz\": leave it out"));
        assert_eq!(Params(std::ptr::null(), PhantomData).all_in(known).map_err(|failure| failure.text), Ok(()));
    }

    #[test]
    fn numbers_lose_their_zeros_and_are_never_copied() {
        let little = [&[1; 500][..], &[0; 12]].concat();
        let big = big_endian(&little);
        assert_eq!(big, [1; 500]);
        assert_eq!(big.capacity(), 500);
        assert_eq!(big_endian(&[1, 0, 2, 0]), [2, 0, 1]);
        assert_eq!(big_endian(&[0, 0]), [0_u8; 0]);
    }
}
