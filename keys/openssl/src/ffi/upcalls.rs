//! OpenSSL's functions for providers: reporting errors, reading configuration parameters, and BIOs.

use super::abi::{Bio, Dispatch, Handle, core};
use super::memory::Memory;
use super::params::{Param, TEXT_POINTER};
use sidecore_client::keyops::failure::Failure;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use zeroize::Zeroizing;

const LINE: u16 = 256;

/// The functions, and OpenSSL's handle of this provider. All versions of OpenSSL 3 have them.
#[derive(Clone, Copy)]
pub(crate) struct Core {
    handle: *const Handle,
    pub(super) memory: Memory,
    get_params: unsafe extern "C" fn(*const Handle, *mut Param) -> c_int,
    get_libctx: unsafe extern "C" fn(*const Handle) -> *mut c_void,
    new_error: unsafe extern "C" fn(*const Handle),
    set_error_debug: unsafe extern "C" fn(*const Handle, *const c_char, c_int, *const c_char),
    /// The last argument is a `va_list`; the format has no conversions, so that it is never read.
    vset_error: unsafe extern "C" fn(*const Handle, u32, *const c_char, *mut c_void),
    bio_read_ex: unsafe extern "C" fn(*mut Bio, *mut c_void, usize, *mut usize) -> c_int,
    bio_write_ex: unsafe extern "C" fn(*mut Bio, *const c_void, usize, *mut usize) -> c_int,
    bio_gets: unsafe extern "C" fn(*mut Bio, *mut c_char, c_int) -> c_int,
}

// SAFETY: a handle that OpenSSL lets any thread use, and functions.
unsafe impl Send for Core {}
// SAFETY: a handle and functions that OpenSSL lets several threads use at the same time.
unsafe impl Sync for Core {}

impl Core {
    /// `None`: OpenSSL lacks a function.
    ///
    /// # Safety
    /// `table` is OpenSSL's dispatch table, and belongs to `handle`.
    pub(crate) unsafe fn new(handle: *const Handle, table: *const Dispatch) -> Option<Self> {
        // SAFETY: each number stands for the type it is read as.
        unsafe {
            Some(Self {
                handle,
                memory: Memory::of(find(table, core::CRYPTO_ZALLOC)?, find(table, core::CRYPTO_CLEAR_FREE)?)?,
                get_params: find(table, core::GET_PARAMS)?,
                get_libctx: find(table, core::GET_LIBCTX)?,
                new_error: find(table, core::NEW_ERROR)?,
                set_error_debug: find(table, core::SET_ERROR_DEBUG)?,
                vset_error: find(table, core::VSET_ERROR)?,
                bio_read_ex: find(table, core::BIO_READ_EX)?,
                bio_write_ex: find(table, core::BIO_WRITE_EX)?,
                bio_gets: find(table, core::BIO_GETS)?,
            })
        }
    }

    pub(super) fn address_in_libcrypto(&self) -> *const c_void {
        self.new_error as *const c_void
    }

    pub(super) fn library_context(&self) -> *mut c_void {
        // SAFETY: `OSSL_FUNC_core_get_libctx`, with the handle that came with it.
        unsafe { (self.get_libctx)(self.handle) }
    }

    pub(crate) fn error(&self, doing: &'static CStr, failure: &Failure) {
        // The format has no conversions, so the arguments are never read. Large enough for any kind of va_list.
        let text = (!failure.text.is_empty())
            .then(|| CString::new(failure.text.replace('%', "%%").replace('\0', " ")).unwrap_or_default());
        let mut no_arguments = [0u64; 8];
        // SAFETY: the handle is ours, the texts are C strings that OpenSSL copies, or none for one without details.
        unsafe {
            (self.new_error)(self.handle);
            (self.set_error_debug)(self.handle, c"sidecore".as_ptr(), 0, doing.as_ptr());
            (self.vset_error)(
                self.handle,
                super::strings::code(failure.reason),
                text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()),
                no_arguments.as_mut_ptr().cast(),
            );
        }
    }

    pub(crate) fn setting(&self, name: &'static CStr) -> Option<String> {
        let mut found: *const c_char = std::ptr::null();
        let (data, data_size) = ((&raw mut found).cast(), size_of::<*const c_char>());
        let mut list = [Param { data, data_size, ..Param::new(name, TEXT_POINTER) }, Param::END];
        // SAFETY: the list ends, and asks for a pointer.
        let known = unsafe { (self.get_params)(self.handle, list.as_mut_ptr()) };
        if known == 0 || found.is_null() {
            return None;
        }
        // SAFETY: OpenSSL's C string.
        let text = unsafe { CStr::from_ptr(found) };
        Some(text.to_string_lossy().into_owned())
    }

    /// The next line of a BIO, at most `LINE` bytes; empty at the end.
    ///
    /// # Safety
    /// `bio` is valid.
    pub(crate) unsafe fn line(&self, bio: *mut Bio) -> Zeroizing<Vec<u8>> {
        let mut buffer = Zeroizing::new(vec![0u8; LINE.into()]);
        // SAFETY: room for LINE bytes with the end of the string.
        let got = unsafe { (self.bio_gets)(bio, buffer.as_mut_ptr().cast(), LINE.into()) };
        // The rest of the buffer stays allocated, and is wiped with the line.
        buffer.truncate(usize::try_from(got).unwrap_or(0));
        buffer
    }

    /// Writes all bytes to a BIO. Returns whether that succeeded.
    ///
    /// # Safety
    /// `bio` is valid.
    pub(crate) unsafe fn write(&self, bio: *mut Bio, bytes: &[u8]) -> bool {
        let mut written = 0;
        // SAFETY: `bytes` is valid for its length.
        let done = unsafe { (self.bio_write_ex)(bio, bytes.as_ptr().cast(), bytes.len(), &raw mut written) };
        done != 0 && written == bytes.len()
    }

    /// The rest of a BIO, up to `limit` bytes. It may be a private key.
    ///
    /// # Safety
    /// `bio` is valid.
    pub(crate) unsafe fn rest(&self, bio: *mut Bio, limit: usize) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(vec![0u8; limit]);
        let mut len = 0;
        while len < limit {
            let mut got = 0;
            let room = &mut bytes[len..];
            // SAFETY: `room` is writable for its length.
            if unsafe { (self.bio_read_ex)(bio, room.as_mut_ptr().cast(), room.len(), &raw mut got) } == 0 || got == 0 {
                break;
            }
            len += got.min(room.len());
        }
        bytes.truncate(len);
        bytes
    }
}

/// # Safety
/// The function with this number has the type `F`, a function pointer.
unsafe fn find<F: Copy>(table: *const Dispatch, number: c_int) -> Option<F> {
    let mut entry = table;
    // SAFETY: the table ends with number 0, by provider-base(7), and that entry was not passed.
    while unsafe { (*entry).number } != 0 {
        // SAFETY: not the end yet.
        let Dispatch { number: here, function } = unsafe { *entry };
        if here == number && !function.is_null() {
            // SAFETY: not null, and by the number a function of type `F`, which is a pointer to one.
            return Some(unsafe { std::mem::transmute_copy(&function) });
        }
        // SAFETY: not the end yet.
        entry = unsafe { entry.add(1) };
    }
    None
}
