//! Private keys in the files that other programs write.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use aws_lc_sys as sys;

use super::{owned, pkey::PKey, succeeded};

struct Prompt<'p> {
    passphrase: Option<&'p [u8]>,
    asked: bool,
}

/// The first private key of a PEM file: PKCS#8 or the older form of RSA and EC keys, each encrypted or not. Also
/// returns whether the reader asked for a passphrase.
pub(crate) fn pem(file: &[u8], passphrase: Option<&[u8]>) -> (Option<PKey>, bool) {
    let mut prompt = Prompt { passphrase, asked: false };
    // SAFETY: the buffer only reads `file`, which outlives it; `prompt` outlives the call that uses it; the key
    // returned is owned; the buffer is freed once.
    let key = unsafe {
        let Some(buffer) = owned(sys::BIO_new_mem_buf(file.as_ptr().cast(), file.len().cast_signed() as _)) else {
            return (None, false);
        };
        let answer = (&raw mut prompt).cast::<c_void>();
        let key = PKey::from_owned(sys::PEM_read_bio_PrivateKey(buffer.as_ptr(), null_mut(), Some(tell), answer));
        sys::BIO_free(buffer.as_ptr());
        key
    };
    (key, prompt.asked)
}

/// Gives the PEM reader the passphrase, if there is one and it fits.
///
/// # Safety
/// `buffer` is writable for `size` bytes, and `prompt` is the [`Prompt`] that [`pem`] gave with it.
unsafe extern "C" fn tell(buffer: *mut c_char, size: c_int, _: c_int, prompt: *mut c_void) -> c_int {
    // SAFETY: see above; nobody else uses the prompt during the call.
    let prompt = unsafe { &mut *prompt.cast::<Prompt<'_>>() };
    prompt.asked = true;
    let fits = |passphrase: &&[u8]| c_int::try_from(passphrase.len()).is_ok_and(|len| len <= size);
    let Some(passphrase) = prompt.passphrase.filter(fits) else { return -1 };
    // SAFETY: the passphrase fits, as just checked, and the reader's buffer is its own.
    unsafe { std::ptr::copy_nonoverlapping(passphrase.as_ptr(), buffer.cast::<u8>(), passphrase.len()) };
    c_int::try_from(passphrase.len()).unwrap_or(-1)
}

/// PKCS#8 or the older form of RSA and EC keys, in DER, none of them encrypted.
pub(crate) fn der(file: &[u8]) -> Option<PKey> {
    let mut rest = file.as_ptr();
    // SAFETY: `rest` is readable for the length given, and stays inside; the key returned is owned.
    let (key, read) = unsafe {
        let key = PKey::from_owned(sys::d2i_AutoPrivateKey(null_mut(), &raw mut rest, file.len().cast_signed() as _));
        (key, rest.offset_from_unsigned(file.as_ptr()))
    };
    key.filter(|_| read == file.len())
}

pub(crate) fn encrypted(file: &[u8], passphrase: &[u8]) -> Option<PKey> {
    let mut input = sys::CBS { data: file.as_ptr(), len: file.len() };
    let (text, len) = (passphrase.as_ptr().cast(), passphrase.len());
    // SAFETY: `input` stands for `file`; the passphrase is readable for its length; the key is owned or null.
    unsafe { PKey::from_owned(sys::PKCS8_parse_encrypted_private_key(&raw mut input, text, len)) }
}

pub(crate) fn pkcs12(file: &[u8], passphrase: &CStr) -> Option<PKey> {
    let mut rest = file.as_ptr();
    let (mut key, mut certificate) = (null_mut(), null_mut());
    // SAFETY: `rest` is readable for the length given; the archive is owned and freed once; key and certificate are
    // owned where the call succeeds, and null where it does not set them.
    unsafe {
        let archive = owned(sys::d2i_PKCS12(null_mut(), &raw mut rest, file.len()))?;
        let text = passphrase.as_ptr();
        let parsed = sys::PKCS12_parse(archive.as_ptr(), text, &raw mut key, &raw mut certificate, null_mut());
        sys::PKCS12_free(archive.as_ptr());
        sys::X509_free(certificate);
        PKey::from_owned(key).filter(|_| succeeded(parsed))
    }
}
