//! Private operations of RSA side by side.

mod der;
mod signatures;
