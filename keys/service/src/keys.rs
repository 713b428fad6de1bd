//! Keys that stay in the service: their storage, and their users.
//!
//! A session on a stored key is opened with [`KeyMaterial::Stored`](crate::spec::KeyMaterial::Stored). No message and
//! no request returns a private key.

mod attributes;
mod certificate;
mod error;
mod file;
mod limiter;
mod lineage;
mod material;
mod named;
mod public;
mod sealed;
mod store;
mod vault;

pub use crate::channel::{ServeError, Served};
pub use crate::config::read_passphrase;
pub(crate) use attributes::Attributes;
pub use certificate::{check_dates, first_certificate, read_certificates};
pub use error::{CertificateError, KeyError, KeyFileError, StoreError};
pub use file::{MAX_KEY_FILE, read_private_key};
pub(crate) use limiter::{Admission, Limiter};
pub(crate) use material::{Material, public_part};
pub use named::{public_of_private, unknown_kind};
pub use public::read_public_key;
pub(crate) use sealed::{Opened, Receipts, Transfer};
pub use sealed::{PartnerError, TransferError, read_partner};
pub use sidecore_client::keys::*;
pub(crate) use store::{Arriving, Changed, Described, Ready, Resealed, Resealing, Sent, Store, UsablePage, Who};
pub(crate) use vault::Stretched;
pub use vault::{Unsealing, VaultError, VaultErrorKind};
