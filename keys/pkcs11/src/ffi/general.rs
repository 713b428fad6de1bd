//! Begin and end, information, random bytes.

use super::call;
use super::memory::{read, text, write};
use crate::config::{ConfigError, FILE, MAX_TEXT, Setup};
use crate::objects::{own, snapshot};
use crate::rv::Rv;
use crate::{life, sessions};
use cryptoki_sys::{
    CK_C_INITIALIZE_ARGS, CK_INFO, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CK_VERSION, CKF_OS_LOCKING_OK,
    CKR_ARGUMENTS_BAD, CKR_CANT_LOCK, CKR_FUNCTION_FAILED, CKR_GENERAL_ERROR, CKR_RANDOM_SEED_NOT_SUPPORTED,
};
use rustix::rand::{GetRandomFlags, getrandom};
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::large_stack::on_large_stack;
use sidecore_client::keyops::{lanes, notice};
use sidecore_ipc::environment::trusted_variable;
use std::ffi::c_void;
use std::fs::File;
use std::io::{ErrorKind, Read};

/// Longest answer of random bytes, in pieces of this length.
const PIECE: usize = 256;

/// Text in a field of fixed length, filled with blanks.
pub(super) fn padded<const LEN: usize>(text: &str) -> [u8; LEN] {
    let mut field = [b' '; LEN];
    field.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
    field
}

/// This library's version.
pub(super) const VERSION: CK_VERSION = CK_VERSION { major: digit(0), minor: digit(1) };

/// Part of the package's version, of one digit each.
const fn digit(part: usize) -> u8 {
    env!("CARGO_PKG_VERSION").as_bytes()[2 * part] - b'0'
}

/// # Safety
/// `args` is null or a `CK_C_INITIALIZE_ARGS`, whose `pReserved` is null or a text that ends with a zero.
pub(super) unsafe extern "C" fn initialize(args: *mut c_void) -> CK_RV {
    call(|| {
        // SAFETY: `pInitArgs` is null or a `CK_C_INITIALIZE_ARGS`, by C_Initialize.
        let reserved = match unsafe { read(args.cast::<CK_C_INITIALIZE_ARGS>()) } {
            None => None,
            Some(args) => {
                let own_locks = [
                    args.CreateMutex.is_some(),
                    args.DestroyMutex.is_some(),
                    args.LockMutex.is_some(),
                    args.UnlockMutex.is_some(),
                ];
                if own_locks.iter().any(|given| *given != own_locks[0]) {
                    return Err(Rv(CKR_ARGUMENTS_BAD));
                }
                // The module's locks know of forks, which a program's do not.
                if own_locks[0] && args.flags & CKF_OS_LOCKING_OK == 0 {
                    return Err(Rv(CKR_CANT_LOCK));
                }
                // SAFETY: PKCS#11 leaves `pReserved` null. p11-kit and NSS, who set it, give a text that ends with a zero.
                unsafe { text(args.pReserved.cast()) }?
            }
        };
        life::begin(|| on_large_stack(|| settings(reserved.as_deref().unwrap_or_default())), forget)
    })
}

fn settings(reserved: &str) -> Result<Setup, Rv> {
    let told = |error: &ConfigError, where_: &str, rv| {
        notice::begin();
        notice::tell(&Failure::new(Reason::Internal, format!("{where_}: {error}")), None);
        Rv(rv)
    };
    let file = file().map_err(|error| told(&error, FILE, CKR_GENERAL_ERROR))?;
    let read = |reserved| Setup::read(&file, reserved, trusted_variable);
    read("").map_err(|error| told(&error, FILE, CKR_GENERAL_ERROR))?;
    let setup = read(reserved);
    let mut setup = setup.map_err(|error| told(&error, "the program's settings", CKR_ARGUMENTS_BAD))?;
    setup.options.look_up_users();
    Ok(setup)
}

fn file() -> Result<String, ConfigError> {
    let file = match File::open(FILE) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(String::new());
        }
        opened => opened.map_err(|_| ConfigError::NoText)?,
    };
    let mut text = String::new();
    let read = file.take(MAX_TEXT as u64 + 1).read_to_string(&mut text).map_err(|_| ConfigError::NoText)?;
    if read > MAX_TEXT { Err(ConfigError::NoText) } else { Ok(text) }
}

pub(super) extern "C" fn finalize(reserved: *mut c_void) -> CK_RV {
    call(|| {
        if !reserved.is_null() {
            return Err(Rv(CKR_ARGUMENTS_BAD));
        }
        life::end(forget)?;
        lanes::close_idle();
        Ok(())
    })
}

/// Closes the sessions of this process, and drops the objects that it knows.
fn forget(process: u32) {
    sessions::close_all(process);
    own::clear(process);
    snapshot::forget(process);
}

/// # Safety
/// `info` is null or valid for a write.
pub(super) unsafe extern "C" fn get_info(info: *mut CK_INFO) -> CK_RV {
    call(|| {
        life::setup()?;
        let answer = CK_INFO {
            cryptokiVersion: CK_VERSION { major: 3, minor: 0 },
            manufacturerID: padded("sidecore"),
            flags: 0,
            libraryDescription: padded("keys of the sidecore service"),
            libraryVersion: VERSION,
        };
        // SAFETY: `pInfo` receives a `CK_INFO`, by C_GetInfo; `write` refuses null.
        unsafe { write(info, answer) }
    })
}

pub(super) extern "C" fn seed_random(session: CK_SESSION_HANDLE, _: *mut u8, _: CK_ULONG) -> CK_RV {
    call(|| sessions::with(session, |_, _| Err(Rv(CKR_RANDOM_SEED_NOT_SUPPORTED))))
}

/// # Safety
/// `at` is null or has room for `len` bytes.
pub(super) unsafe extern "C" fn generate_random(session: CK_SESSION_HANDLE, at: *mut u8, len: CK_ULONG) -> CK_RV {
    call(|| {
        sessions::with(session, |_, _| Ok(()))?;
        if (at.is_null() && len > 0) || isize::try_from(len).is_err() {
            return Err(Rv(CKR_ARGUMENTS_BAD));
        }
        let mut done = 0;
        while done < len as usize {
            let mut piece = [0; PIECE];
            let wanted = PIECE.min(len as usize - done);
            let got = getrandom(&mut piece[..wanted], GetRandomFlags::empty()).map_err(|_| Rv(CKR_FUNCTION_FAILED))?;
            // SAFETY: not null here, and by C_GenerateRandom `pRandomData` has room for `ulRandomLen` bytes; `got` are no more
            // than are left of them.
            unsafe { at.add(done).copy_from_nonoverlapping(piece.as_ptr(), got) };
            done += got;
        }
        Ok(())
    })
}
