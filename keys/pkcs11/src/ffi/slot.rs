//! One slot with one token, which is present also while no service runs.

use super::call;
use super::general::{VERSION, padded};
use super::memory::{Array, write};
use crate::config::Setup;
use crate::rv::Rv;
use crate::{life, mechanism, sessions};
use cryptoki_sys::{
    CK_BBOOL, CK_FLAGS, CK_MECHANISM_INFO, CK_MECHANISM_TYPE, CK_RV, CK_SLOT_ID, CK_SLOT_INFO, CK_TOKEN_INFO, CK_ULONG,
    CK_UNAVAILABLE_INFORMATION, CKF_DONT_BLOCK, CKF_RNG, CKF_SO_PIN_LOCKED, CKF_TOKEN_INITIALIZED, CKF_TOKEN_PRESENT,
    CKF_USER_PIN_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID, CKR_NO_EVENT, CKR_SLOT_ID_INVALID,
};
use sidecore_client::keyops::key::Family;
use std::ffi::c_void;

const SLOT: CK_SLOT_ID = 0;
/// A PIN is not compared; programs ask for its length.
const MAX_PIN: CK_ULONG = 256;

pub(super) fn slot(slot: CK_SLOT_ID) -> Result<&'static Setup, Rv> {
    let setup = life::setup()?;
    if slot == SLOT { Ok(setup) } else { Err(Rv(CKR_SLOT_ID_INVALID)) }
}

/// # Safety
/// `count` is null or valid; `list` is null or has room for `*count` entries.
pub(super) unsafe extern "C" fn get_slot_list(_: CK_BBOOL, list: *mut CK_SLOT_ID, count: *mut CK_ULONG) -> CK_RV {
    call(|| {
        life::setup()?;
        // SAFETY: with a `pSlotList`, `*pulCount` is its room in entries, by C_GetSlotList.
        unsafe { Array::new(list, count)?.put([SLOT].into_iter()) }
    })
}

/// # Safety
/// `info` is null or valid for a write.
pub(super) unsafe extern "C" fn get_slot_info(id: CK_SLOT_ID, info: *mut CK_SLOT_INFO) -> CK_RV {
    call(|| {
        slot(id)?;
        let answer = CK_SLOT_INFO {
            slotDescription: padded("sidecore service"),
            manufacturerID: padded("sidecore"),
            flags: CKF_TOKEN_PRESENT,
            hardwareVersion: VERSION,
            firmwareVersion: VERSION,
        };
        // SAFETY: `pInfo` receives a `CK_SLOT_INFO`, by C_GetSlotInfo; `write` refuses null.
        unsafe { write(info, answer) }
    })
}

/// # Safety
/// `info` is null or valid for a write.
pub(super) unsafe extern "C" fn get_token_info(id: CK_SLOT_ID, info: *mut CK_TOKEN_INFO) -> CK_RV {
    call(|| {
        let setup = slot(id)?;
        let unknown = CK_UNAVAILABLE_INFORMATION;
        let answer = CK_TOKEN_INFO {
            label: padded(&setup.token),
            manufacturerID: padded("sidecore"),
            model: padded("sidecore"),
            serialNumber: padded(&setup.serial),
            // There is no security officer to log in.
            flags: CKF_TOKEN_INITIALIZED | CKF_USER_PIN_INITIALIZED | CKF_RNG | CKF_SO_PIN_LOCKED,
            ulMaxSessionCount: sessions::MAX_SESSIONS as CK_ULONG,
            ulSessionCount: sessions::count() as CK_ULONG,
            ulMaxRwSessionCount: sessions::MAX_SESSIONS as CK_ULONG,
            ulRwSessionCount: unknown,
            ulMaxPinLen: MAX_PIN,
            ulMinPinLen: 0,
            ulTotalPublicMemory: unknown,
            ulFreePublicMemory: unknown,
            ulTotalPrivateMemory: unknown,
            ulFreePrivateMemory: unknown,
            hardwareVersion: VERSION,
            firmwareVersion: VERSION,
            utcTime: padded(""),
        };
        // SAFETY: `pInfo` receives a `CK_TOKEN_INFO`, by C_GetTokenInfo; `write` refuses null.
        unsafe { write(info, answer) }
    })
}

/// # Safety
/// `count` is null or valid; `list` is null or has room for `*count` entries.
pub(super) unsafe extern "C" fn get_mechanism_list(
    id: CK_SLOT_ID,
    list: *mut CK_MECHANISM_TYPE,
    count: *mut CK_ULONG,
) -> CK_RV {
    call(|| {
        let setup = slot(id)?;
        let kinds: Vec<_> = mechanism::all(|family| setup.families.have(family)).map(|row| row.kind).collect();
        // SAFETY: with a `pMechanismList`, `*pulCount` is its room in entries, by C_GetMechanismList.
        unsafe { Array::new(list, count)?.put(kinds.into_iter()) }
    })
}

/// # Safety
/// `info` is null or valid for a write.
pub(super) unsafe extern "C" fn get_mechanism_info(
    id: CK_SLOT_ID,
    kind: CK_MECHANISM_TYPE,
    info: *mut CK_MECHANISM_INFO,
) -> CK_RV {
    call(|| {
        let setup = slot(id)?;
        let mut shown = mechanism::all(|family| setup.families.have(family));
        let ((least, most), flags) = match shown.find(|row| row.kind == kind) {
            Some(row) => (row.bits, row.flags),
            // Java takes PSS only with a hash that the token knows.
            None if mechanism::is_pss_hash(kind) && setup.families.have(Family::Rsa) => ((0, 0), 0),
            None => return Err(Rv(CKR_MECHANISM_INVALID)),
        };
        // SAFETY: `pInfo` receives a `CK_MECHANISM_INFO`, by C_GetMechanismInfo; `write` refuses null.
        unsafe { write(info, CK_MECHANISM_INFO { ulMinKeySize: least, ulMaxKeySize: most, flags }) }
    })
}

/// The token never leaves its slot.
pub(super) extern "C" fn wait_for_slot_event(flags: CK_FLAGS, _: *mut CK_SLOT_ID, _: *mut c_void) -> CK_RV {
    call(|| {
        life::setup()?;
        Err(Rv(if flags & CKF_DONT_BLOCK == 0 { CKR_FUNCTION_NOT_SUPPORTED } else { CKR_NO_EVENT }))
    })
}
