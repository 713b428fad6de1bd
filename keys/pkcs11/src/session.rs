//! One session: its search, its operations, and the objects that it knows.

use crate::cipher::Cipher;
use crate::config::Setup;
use crate::objects::snapshot::{self, Snapshot};
use crate::objects::{Object, own};
use crate::rv::Rv;
use crate::sign::Signing;
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CKR_KEY_HANDLE_INVALID, CKR_OBJECT_HANDLE_INVALID,
    CKR_OPERATION_ACTIVE,
};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Session {
    pub(crate) handle: CK_SESSION_HANDLE,
    pub(crate) writable: bool,
    /// It has made objects of its own, which end with it.
    pub(crate) has_objects: bool,
    /// The service's objects as it last saw them: so signers share no lock to find their key.
    snapshot: Option<Arc<Snapshot>>,
    /// Handles that a search has found and not yet returned, last first.
    pub(crate) found: Option<Vec<CK_OBJECT_HANDLE>>,
    pub(crate) sign: Option<Signing>,
    pub(crate) verify: Option<Signing>,
    pub(crate) decrypt: Option<Cipher>,
    pub(crate) encrypt: Option<Cipher>,
}

impl Session {
    pub(crate) fn new(handle: CK_SESSION_HANDLE, writable: bool) -> Self {
        Self { handle, writable, ..Self::default() }
    }

    /// Whether a signature, verification, decryption or encryption has begun.
    pub(crate) fn is_operating(&self) -> bool {
        self.sign.is_some() || self.verify.is_some() || self.decrypt.is_some() || self.encrypt.is_some()
    }

    /// The object with this handle.
    pub(crate) fn object(&mut self, setup: &Setup, handle: CK_OBJECT_HANDLE) -> Result<Arc<Object>, Rv> {
        if own::is_own(handle) {
            return own::get(handle);
        }
        if let Some(object) = self.snapshot.as_ref().and_then(|snapshot| snapshot.get(handle)) {
            return Ok(Arc::clone(object));
        }
        // Another session has found it.
        let current = self.snapshot.insert(snapshot::last(setup)?);
        current.get(handle).cloned().ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))
    }

    /// The key with this handle, as functions that take a key name a wrong one.
    pub(crate) fn key(&mut self, setup: &Setup, handle: CK_OBJECT_HANDLE) -> Result<Arc<Object>, Rv> {
        self.object(setup, handle)
            .map_err(|rv| if rv == Rv(CKR_OBJECT_HANDLE_INVALID) { Rv(CKR_KEY_HANDLE_INVALID) } else { rv })
    }

    /// Begins a search for objects that have all of these attributes.
    pub(crate) fn find(&mut self, setup: &Setup, wanted: &[(CK_ATTRIBUTE_TYPE, Vec<u8>)]) -> Result<(), Rv> {
        if self.found.is_some() {
            return Err(Rv(CKR_OPERATION_ACTIVE));
        }
        let snapshot = snapshot::fresh(setup)?;
        let fits = |object: &&Arc<Object>| wanted.iter().all(|(kind, value)| object.has(setup, *kind, value));
        let mut found: Vec<_> = snapshot.all().filter(fits).map(|object| object.handle).collect();
        found.extend(own::all().iter().filter(fits).map(|object| object.handle));
        found.reverse();
        (self.snapshot, self.found) = (Some(snapshot), Some(found));
        Ok(())
    }
}
