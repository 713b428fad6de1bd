//! Digests by the service. It does whole messages: a longer one is digested here.

use super::PIECE;
use crate::call::{self, Request};
use crate::digest::{Digest, Hasher};
use crate::failure::{Failure, Reason};
use crate::key::{Key, Private, Public};
use sidecore::client::Options;
use sidecore::core::session::Op;
use sidecore::engine::crypto::Scheme;
use std::sync::{Arc, LazyLock};

/// Sessions without a key are the same for all.
static KEYLESS: LazyLock<Arc<Key>> = LazyLock::new(|| Arc::new(Key::new(Public::Symmetric, Private::None)));

/// A message to be digested.
#[derive(Clone)]
pub(crate) struct Sum {
    digest: Digest,
    /// The message, while it is short enough for one request.
    message: Vec<u8>,
    /// All of it so far, once it is not.
    hasher: Option<Hasher>,
}

impl Sum {
    pub(crate) fn new(digest: Digest) -> Self {
        Self { digest, message: Vec::new(), hasher: None }
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// The next piece.
    pub(crate) fn update(&mut self, piece: &[u8]) {
        if self.hasher.is_none() && self.message.len() + piece.len() <= PIECE {
            self.message.extend(piece);
            return;
        }
        let hasher = self.hasher.get_or_insert_with(|| Hasher::new(self.digest));
        hasher.update(&std::mem::take(&mut self.message));
        hasher.update(piece);
    }

    /// The digest.
    pub(crate) fn finish(&self, options: &Options) -> Result<Vec<u8>, Failure> {
        if let Some(hasher) = &self.hasher {
            return Ok(hasher.clone().finish());
        }
        let hash = self.digest.hash().ok_or_else(|| Failure::unsupported("this digest"))?;
        let (scheme, max_output) = (Scheme::Digest(hash), hash.len());
        let request =
            Request { key: &KEYLESS, scheme, op: Op::Digest, iv: &[], head: &[], input: &self.message, max_output };
        call::call(options, &request)?.map_err(|refusal| Failure::new(Reason::Service, refusal.message()))
    }
}
