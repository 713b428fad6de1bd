//! Objects: for each key a private and a public one, and its certificates.

mod attributes;
pub(crate) mod own;
pub(crate) mod snapshot;

use crate::certificate::Certificate;
use crate::rv::Rv;
use cryptoki_sys::{
    CK_KEY_TYPE, CK_MECHANISM_TYPE, CK_OBJECT_HANDLE, CKK_EC, CKK_EC_EDWARDS, CKK_ML_DSA, CKK_RSA,
    CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID, CKR_KEY_TYPE_INCONSISTENT,
};
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::hasher::Hasher;
use sidecore_client::keyops::key::{Family, Key, Public, Raw};
use sidecore_client::keys::Usage;
use std::sync::Arc;

/// An object. Those of the service do not change; others are replaced by changed ones.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) handle: CK_OBJECT_HANDLE,
    /// In the service, as opposed to this process.
    pub(crate) token: bool,
    pub(crate) label: String,
    pub(crate) id: Vec<u8>,
    pub(crate) what: What,
}

#[derive(Clone)]
pub(crate) enum What {
    Private(Arc<Pair>),
    Public(Arc<Pair>),
    Certificate(Arc<Certificate>),
}

/// A key and its parts.
pub(crate) struct Pair {
    /// `None`: a public key alone.
    pub(crate) private: Option<Arc<Key>>,
    pub(crate) public: Arc<Key>,
    /// Permitted operations of the private part. The public part does their counterparts: it verifies for a key that
    /// signs, and encrypts for one that decrypts.
    pub(crate) usage: Usage,
    /// Stored with the key: its own, then those of issuers.
    pub(crate) certificates: Vec<Arc<Certificate>>,
    /// The mechanism by which the service made it for this program.
    pub(crate) made: Option<CK_MECHANISM_TYPE>,
}

impl Pair {
    pub(crate) fn new(
        key: Key,
        usage: Usage,
        certificates: Vec<Arc<Certificate>>,
        made: Option<CK_MECHANISM_TYPE>,
    ) -> Self {
        let public = Arc::new(key.without_private());
        let private = key.has_private().then(|| Arc::new(key));
        Self { private, public, usage, certificates, made }
    }
}

impl Object {
    /// The private key, if it may be used like this.
    pub(crate) fn private_key(&self, usage: Usage) -> Result<&Arc<Key>, Rv> {
        match &self.what {
            What::Private(pair) if pair.usage.contains(usage) => {
                pair.private.as_ref().ok_or(Rv(CKR_KEY_HANDLE_INVALID))
            }
            What::Private(_) => Err(Rv(CKR_KEY_FUNCTION_NOT_PERMITTED)),
            What::Public(_) => Err(Rv(CKR_KEY_TYPE_INCONSISTENT)),
            What::Certificate(_) => Err(Rv(CKR_KEY_HANDLE_INVALID)),
        }
    }

    /// The public key, if it may do the counterpart of this.
    pub(crate) fn public_key(&self, usage: Usage) -> Result<&Arc<Key>, Rv> {
        match &self.what {
            What::Public(pair) if pair.usage.contains(usage) => Ok(&pair.public),
            What::Public(_) => Err(Rv(CKR_KEY_FUNCTION_NOT_PERMITTED)),
            What::Private(_) => Err(Rv(CKR_KEY_TYPE_INCONSISTENT)),
            What::Certificate(_) => Err(Rv(CKR_KEY_HANDLE_INVALID)),
        }
    }
}

pub(crate) fn key_type(family: Family) -> CK_KEY_TYPE {
    match family {
        Family::Rsa => CKK_RSA,
        Family::Ec => CKK_EC,
        Family::Raw(Raw::MlDsa65) => CKK_ML_DSA,
        Family::Raw(_) => CKK_EC_EDWARDS,
    }
}

/// The identifier of a key: SHA-1 of its public number or point, the rule of NSS. `name`: for a second name of the same
/// key.
pub(crate) fn id_of(public: &Public, name: Option<&str>) -> Vec<u8> {
    let mut hasher = Hasher::new(Digest::Sha1);
    hasher.update(match public {
        Public::Rsa { n, .. } => n,
        Public::Ec { point, .. } => point,
        Public::Raw(_, key) => key,
    });
    hasher.update(name.unwrap_or_default().as_bytes());
    hasher.finish()
}
