//! Operations on stored keys, for any programming interface: lanes for the operations, keys, and their schemes.
//!
//! A crate built on it implements the interface of a family of programs, e.g. OpenSSL's; this module depends on none.
//!
//! ```no_run
//! use sidecore_client::client::Options;
//! use sidecore_client::keyops::{ask::find, digest::Digest, sign::Settings, wait::Caller};
//! use std::sync::Arc;
//!
//! let options = Options::default();
//! let key = Arc::new(find(&options, "www")?);
//! let settings = Settings { digest: Some(Digest::Sha256), ..Settings::default() };
//! let signature = settings.sign(Caller::thread(&options), &key, &[7; 32])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`call`] runs an operation on a lane of the process's [`pool`](lanes::pool), and waits by its
//! [`Caller`](wait::Caller). The calling program may fork at any time, close descriptors that it did not open, have a
//! small stack, and change its user.

pub mod agree;
pub mod ask;
pub mod cache;
pub mod call;
pub mod credentials;
pub mod decrypt;
pub mod digest;
pub mod failure;
pub mod hasher;
pub mod key;
pub mod lanes;
pub mod large_stack;
pub mod notice;
mod outage;
pub(crate) mod reconnect;
pub mod sign;
pub mod tls;
pub mod wait;
