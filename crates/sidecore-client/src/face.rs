//! What any face needs to work with stored keys: lanes for its operations, keys and the schemes they are used in.
//!
//! A face speaks the language of the programs that it is for; nothing here knows which.
//!
//! ```no_run
//! use sidecore_client::client::Options;
//! use sidecore_client::face::{ask::find, digest::Digest, pause::Caller, sign::Settings};
//! use std::sync::Arc;
//!
//! let options = Options::default();
//! let key = Arc::new(find(&options, "www")?);
//! let settings = Settings { digest: Some(Digest::Sha256), ..Settings::default() };
//! let signature = settings.sign(Caller::thread(&options), &key, &[7; 32])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An operation is done by [`call`] on a lane of the process's [`pool`](lanes::pool), and waits as its
//! [`Caller`](pause::Caller) says. Whoever calls may fork at any time, close descriptors that it did not open, have little
//! stack and become another user.

pub(crate) mod absence;
pub mod agree;
pub mod aside;
pub mod ask;
pub mod cache;
pub mod call;
pub mod credentials;
pub mod decrypt;
pub mod digest;
pub mod failure;
pub mod key;
pub mod lanes;
pub mod notice;
pub mod pause;
pub mod sign;
