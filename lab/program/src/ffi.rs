//! Signatures through a PKCS#11 module, the usual way to keep keys out of programs.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_C_INITIALIZE_ARGS, CK_FUNCTION_LIST, CK_FUNCTION_LIST_PTR, CK_MECHANISM, CK_MECHANISM_TYPE,
    CK_OBJECT_CLASS, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_SLOT_ID, CKA_CLASS, CKA_LABEL, CKF_OS_LOCKING_OK,
    CKF_SERIAL_SESSION, CKO_PRIVATE_KEY, CKR_OK, CKU_USER,
};
use libloading::Library;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr;

/// Room for any signature: RSA-4096 makes 512 bytes.
const MAX_SIGNATURE: usize = 512;
const MAX_SLOTS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("{}: {source}", module.display())]
    Load { module: PathBuf, source: libloading::Error },
    #[error("the module has no functions")]
    NoFunctions,
    #[error("the module has no {0}")]
    NoFunction(&'static str),
    #[error("{call} of the PKCS#11 module: error {answer:#x}")]
    Call { call: &'static str, answer: CK_RV },
    #[error("{} shows no token", .0.display())]
    NoToken(PathBuf),
    #[error("the token has no such key")]
    NoKey,
}

type GetList = unsafe extern "C" fn(*mut CK_FUNCTION_LIST_PTR) -> CK_RV;

pub(crate) struct Token {
    /// Part of the library, which is never unloaded: some modules do not survive unloading.
    functions: &'static CK_FUNCTION_LIST,
    slot: CK_SLOT_ID,
    /// The token is logged in while it is open.
    _login: CK_SESSION_HANDLE,
}

/// A session for one thread, which ends with it.
pub(crate) struct TokenSession {
    functions: &'static CK_FUNCTION_LIST,
    session: CK_SESSION_HANDLE,
}

/// Calls a function of the list and checks its result. A module may lack the function.
macro_rules! call {
    ($list:expr, $name:ident ( $($argument:expr),* )) => {
        match $list.$name {
            // SAFETY: see the caller: every argument is as the standard requires and lives through the call.
            Some(function) => check(stringify!($name), unsafe { function($($argument),*) }),
            None => Err(TokenError::NoFunction(stringify!($name))),
        }
    };
}

fn check(call: &'static str, answer: CK_RV) -> Result<(), TokenError> {
    if answer == CKR_OK { Ok(()) } else { Err(TokenError::Call { call, answer }) }
}

impl Token {
    pub(crate) fn open(module: &Path, pin: &str) -> Result<Self, TokenError> {
        let functions = functions(module)?;
        let mut threads = CK_C_INITIALIZE_ARGS {
            CreateMutex: None,
            DestroyMutex: None,
            LockMutex: None,
            UnlockMutex: None,
            flags: CKF_OS_LOCKING_OK,
            pReserved: ptr::null_mut(),
        };
        // The module reads the arguments.
        call!(functions, C_Initialize((&raw mut threads).cast()))?;
        let (mut slots, mut count) = ([0 as CK_SLOT_ID; MAX_SLOTS], MAX_SLOTS as u64);
        // The module writes at most `count` slots, the array's length, and sets `count` to their number.
        call!(functions, C_GetSlotList(1, slots.as_mut_ptr(), &raw mut count))?;
        if count == 0 {
            return Err(TokenError::NoToken(module.to_owned()));
        }
        let session = opened(functions, slots[0])?;
        let mut pin = pin.as_bytes().to_vec();
        // The module reads the bytes of `pin`.
        call!(functions, C_Login(session, CKU_USER, pin.as_mut_ptr(), pin.len() as u64))?;
        Ok(Self { functions, slot: slots[0], _login: session })
    }

    pub(crate) fn session(&self) -> Result<TokenSession, TokenError> {
        Ok(TokenSession { functions: self.functions, session: opened(self.functions, self.slot)? })
    }
}

fn opened(functions: &CK_FUNCTION_LIST, slot: CK_SLOT_ID) -> Result<CK_SESSION_HANDLE, TokenError> {
    let mut session = 0;
    // No notifications: null for their data and function.
    let none = ptr::null_mut();
    call!(functions, C_OpenSession(slot, CKF_SERIAL_SESSION, none, None, &raw mut session))?;
    Ok(session)
}

impl Drop for TokenSession {
    fn drop(&mut self) {
        // A failure has no effect: the token's end also ends its sessions.
        let _ = call!(self.functions, C_CloseSession(self.session));
    }
}

impl TokenSession {
    pub(crate) fn private_key(&self, label: &str) -> Result<CK_OBJECT_HANDLE, TokenError> {
        let (mut class, mut label): (CK_OBJECT_CLASS, _) = (CKO_PRIVATE_KEY, label.as_bytes().to_vec());
        let attribute =
            |kind, value: *mut c_void, len: usize| CK_ATTRIBUTE { type_: kind, pValue: value, ulValueLen: len as u64 };
        let mut wanted = [
            attribute(CKA_CLASS, (&raw mut class).cast(), size_of::<CK_OBJECT_CLASS>()),
            attribute(CKA_LABEL, label.as_mut_ptr().cast(), label.len()),
        ];
        // The module reads the attributes and their values, all of them in this frame.
        call!(self.functions, C_FindObjectsInit(self.session, wanted.as_mut_ptr(), wanted.len() as u64))?;
        let (mut key, mut found) = (0, 0);
        // The module writes at most one handle.
        call!(self.functions, C_FindObjects(self.session, &raw mut key, 1, &raw mut found))?;
        call!(self.functions, C_FindObjectsFinal(self.session))?;
        if found == 1 { Ok(key) } else { Err(TokenError::NoKey) }
    }

    /// For ECDSA the signature is its two numbers.
    pub(crate) fn sign(
        &self,
        mechanism: CK_MECHANISM_TYPE,
        key: CK_OBJECT_HANDLE,
        data: &mut [u8],
        signature: &mut [u8; MAX_SIGNATURE],
    ) -> Result<usize, TokenError> {
        let mut mechanism = CK_MECHANISM { mechanism, pParameter: ptr::null_mut(), ulParameterLen: 0 };
        // The module reads the mechanism.
        call!(self.functions, C_SignInit(self.session, &raw mut mechanism, key))?;
        let mut length = signature.len() as u64;
        let (data, len, out) = (data.as_mut_ptr(), data.len() as u64, signature.as_mut_ptr());
        // The module reads the bytes of `data`, and writes at most `length` bytes to `signature`.
        call!(self.functions, C_Sign(self.session, data, len, out, &raw mut length))?;
        Ok(length as usize)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // Finalizing also ends the session. A failure has no effect on this process.
        let _ = call!(self.functions, C_Finalize(ptr::null_mut()));
    }
}

fn functions(module: &Path) -> Result<&'static CK_FUNCTION_LIST, TokenError> {
    let unloadable = |source| TokenError::Load { module: module.to_owned(), source };
    // SAFETY: the initialisers of a PKCS#11 module only set up its own state.
    let library = unsafe { Library::new(module) }.map_err(unloadable)?;
    // SAFETY: every module has this function with this signature.
    let get: GetList = *unsafe { library.get::<GetList>(b"C_GetFunctionList\0") }.map_err(unloadable)?;
    let mut list: CK_FUNCTION_LIST_PTR = ptr::null_mut();
    // SAFETY: it writes one pointer.
    check("C_GetFunctionList", unsafe { get(&raw mut list) })?;
    std::mem::forget(library);
    // SAFETY: null or a static list of the library, which was just leaked and stays loaded.
    unsafe { list.as_ref() }.ok_or(TokenError::NoFunctions)
}
