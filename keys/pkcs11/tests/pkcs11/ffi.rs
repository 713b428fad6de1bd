//! The module's functions, called as a program calls them.

use crate::common::Site;
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_C_INITIALIZE_ARGS, CK_FLAGS, CK_FUNCTION_LIST, CK_INTERFACE, CK_MECHANISM,
    CK_MECHANISM_TYPE, CK_OBJECT_CLASS, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CK_VERSION, CKA_CLASS,
    CKA_LABEL, CKF_RW_SESSION, CKF_SERIAL_SESSION, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKR_OK,
};
use libloading::{Library, Symbol};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::ptr;

/// A return value other than `CKR_OK`.
pub(crate) type Error = CK_RV;
/// Major and minor number of a table of functions.
pub(crate) type Version = (u8, u8);
pub(crate) type Session = CK_SESSION_HANDLE;
pub(crate) type Object = CK_OBJECT_HANDLE;

pub(crate) struct Module {
    pub(crate) list: &'static CK_FUNCTION_LIST,
    library: Library,
}

// SAFETY: the table does not change, and its functions may be called by all threads.
unsafe impl Sync for Module {}
// SAFETY: as above.
unsafe impl Send for Module {}

/// Calls a function of the table, which every module has.
macro_rules! call {
    ($module:expr, $name:ident($($argument:expr),*)) => {{
        let function = $module.list.$name.unwrap();
        // SAFETY: pointers and lengths belong together, or the module must refuse them.
        let rv = unsafe { function($($argument),*) };
        if rv == cryptoki_sys::CKR_OK { Ok(()) } else { Err(rv) }
    }};
}
pub(crate) use call;

pub(crate) fn mechanism(kind: CK_MECHANISM_TYPE) -> CK_MECHANISM {
    CK_MECHANISM { mechanism: kind, pParameter: ptr::null_mut(), ulParameterLen: 0 }
}

impl Module {
    /// The site's module, not initialised.
    pub(crate) fn load(site: &Site) -> Self {
        // SAFETY: the module's entry has this type, by PKCS#11.
        unsafe {
            let library = Library::new(site.module()).unwrap();
            let entry: Symbol<'_, unsafe extern "C" fn(*mut *mut CK_FUNCTION_LIST) -> CK_RV> =
                library.get(b"C_GetFunctionList").unwrap();
            let mut list = ptr::null_mut();
            assert_eq!(entry(&raw mut list), CKR_OK);
            Self { list: &*list, library }
        }
    }

    /// Versions of the tables that `C_GetInterface` finds for these names and versions.
    pub(crate) fn interfaces(&self, wanted: &[(Option<&str>, Option<Version>)]) -> Vec<Result<Version, Error>> {
        // SAFETY: the entry has this type, by PKCS#11. Each table begins with its version.
        unsafe {
            let entry: Symbol<
                '_,
                unsafe extern "C" fn(*mut u8, *mut CK_VERSION, *mut *mut CK_INTERFACE, CK_FLAGS) -> CK_RV,
            > = self.library.get(b"C_GetInterface").unwrap();
            let find = |(name, version): &(Option<&str>, Option<Version>)| {
                let mut name = name.map(|name| format!("{name}\0").into_bytes());
                let mut version = version.map(|(major, minor)| CK_VERSION { major, minor });
                let name = name.as_mut().map_or(ptr::null_mut(), Vec::as_mut_ptr);
                let version = version.as_mut().map_or(ptr::null_mut(), |version| &raw mut *version);
                let mut found = ptr::null_mut();
                match entry(name, version, &raw mut found, 0) {
                    CKR_OK => Ok(*(*found).pFunctionList.cast::<CK_VERSION>()).map(|it| (it.major, it.minor)),
                    rv => Err(rv),
                }
            };
            wanted.iter().map(find).collect()
        }
    }

    /// The site's module, initialised for its service.
    pub(crate) fn of(site: &Site) -> Self {
        let module = Self::load(site);
        module.begin(site, "").unwrap();
        module
    }

    /// Ed25519 is shown here; by default it is not.
    pub(crate) fn begin(&self, site: &Site, settings: &str) -> Result<(), Error> {
        self.begin_with(site, &format!("families=+edwards {settings}"))
    }

    /// With these settings only, besides those of every test.
    pub(crate) fn begin_with(&self, site: &Site, settings: &str) -> Result<(), Error> {
        let socket = site.path("socket");
        self.initialize(&format!("socket={} restart_wait_ms=0 log=none {settings}", socket.display()))
    }

    pub(crate) fn initialize(&self, settings: &str) -> Result<(), Error> {
        let mut text = format!("{settings}\0").into_bytes();
        let mut args = CK_C_INITIALIZE_ARGS { pReserved: text.as_mut_ptr().cast(), ..Default::default() };
        call!(self, C_Initialize((&raw mut args).cast()))
    }

    /// Unloads the library, as far as it lets itself be unloaded.
    pub(crate) fn unload(self) {
        self.library.close().unwrap();
    }

    pub(crate) fn finalize(&self) -> Result<(), Error> {
        call!(self, C_Finalize(ptr::null_mut()))
    }

    pub(crate) fn open(&self) -> Result<Session, Error> {
        let mut session = 0;
        let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
        call!(self, C_OpenSession(0, flags, ptr::null_mut(), None, &raw mut session)).map(|()| session)
    }

    /// A session that cannot write.
    pub(crate) fn open_to_read(&self) -> Result<Session, Error> {
        let mut session = 0;
        call!(self, C_OpenSession(0, CKF_SERIAL_SESSION, ptr::null_mut(), None, &raw mut session)).map(|()| session)
    }

    pub(crate) fn close(&self, session: Session) -> Result<(), Error> {
        call!(self, C_CloseSession(session))
    }

    pub(crate) fn find(&self, session: Session, class: CK_OBJECT_CLASS, label: &str) -> Result<Vec<Object>, Error> {
        let (mut class, mut label) = (class.to_ne_bytes().to_vec(), label.as_bytes().to_vec());
        let mut template = [attribute(CKA_CLASS, &mut class), attribute(CKA_LABEL, &mut label)];
        let count = if label.is_empty() { 1 } else { 2 };
        call!(self, C_FindObjectsInit(session, template.as_mut_ptr(), count))?;
        let (mut found, mut number) = ([0; 64], 0);
        call!(self, C_FindObjects(session, found.as_mut_ptr(), 64, &raw mut number))?;
        call!(self, C_FindObjectsFinal(session))?;
        Ok(found[..number as usize].to_vec())
    }

    pub(crate) fn private(&self, session: Session, label: &str) -> Object {
        self.find(session, CKO_PRIVATE_KEY, label).unwrap()[0]
    }

    pub(crate) fn public(&self, session: Session, label: &str) -> Object {
        self.find(session, CKO_PUBLIC_KEY, label).unwrap()[0]
    }

    pub(crate) fn value(&self, session: Session, object: Object, kind: CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Error> {
        let mut asked = attribute(kind, &mut []);
        asked.pValue = ptr::null_mut();
        call!(self, C_GetAttributeValue(session, object, &raw mut asked, 1))?;
        let mut value = vec![0; asked.ulValueLen as usize];
        let mut asked = attribute(kind, &mut value);
        call!(self, C_GetAttributeValue(session, object, &raw mut asked, 1))?;
        Ok(value)
    }

    pub(crate) fn create(&self, session: Session, template: &mut [CK_ATTRIBUTE]) -> Result<Object, Error> {
        let (mut made, at) = (0, template.as_mut_ptr());
        call!(self, C_CreateObject(session, at, template.len() as CK_ULONG, &raw mut made)).map(|()| made)
    }

    pub(crate) fn copy(&self, session: Session, of: Object, template: &mut [CK_ATTRIBUTE]) -> Result<Object, Error> {
        let (mut made, at) = (0, template.as_mut_ptr());
        call!(self, C_CopyObject(session, of, at, template.len() as CK_ULONG, &raw mut made)).map(|()| made)
    }

    pub(crate) fn sign(
        &self,
        session: Session,
        kind: CK_MECHANISM_TYPE,
        key: Object,
        data: &[u8],
    ) -> Result<Vec<u8>, Error> {
        call!(self, C_SignInit(session, &mut mechanism(kind), key))?;
        let (mut data, mut signature) = (data.to_vec(), vec![0; 8192]);
        let mut len = signature.len() as CK_ULONG;
        let pointer = data.as_mut_ptr();
        call!(self, C_Sign(session, pointer, data.len() as CK_ULONG, signature.as_mut_ptr(), &raw mut len))?;
        signature.truncate(len as usize);
        Ok(signature)
    }

    pub(crate) fn verify(
        &self,
        session: Session,
        kind: CK_MECHANISM_TYPE,
        key: Object,
        [data, signature]: [&[u8]; 2],
    ) -> Result<(), Error> {
        call!(self, C_VerifyInit(session, &mut mechanism(kind), key))?;
        let (mut data, mut signature) = (data.to_vec(), signature.to_vec());
        let (data, data_len) = (data.as_mut_ptr(), data.len() as CK_ULONG);
        call!(self, C_Verify(session, data, data_len, signature.as_mut_ptr(), signature.len() as CK_ULONG))
    }
}

pub(crate) fn attribute(kind: CK_ATTRIBUTE_TYPE, value: &mut [u8]) -> CK_ATTRIBUTE {
    CK_ATTRIBUTE { type_: kind, pValue: value.as_mut_ptr().cast(), ulValueLen: value.len() as CK_ULONG }
}

/// Runs work in a forked child. Whether it was done without a panic, within a time.
pub(crate) fn in_child(work: impl FnOnce()) -> bool {
    // SAFETY: the child runs the work and ends without unwinding; it uses no lock of the other threads but the
    // allocator's, which the C library hands over.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: a child that hangs is ended by the kernel.
        unsafe { libc::alarm(60) };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_ok();
        // SAFETY: ends the child at once, without destructors of the parent's values.
        unsafe { libc::_exit(i32::from(!done)) };
    }
    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
    status.exit_status() == Some(0)
}
