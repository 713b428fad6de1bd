//! `libsidecore`: keys of the sidecore service in C programs and in languages that call C.
//!
//! `include/sidecore.h` is its interface, and describes each function. It is written by hand: cbindgen would bring a
//! parser of Rust into the build for a page that its readers want in C. A test compares both.
//!
//! |Module|For|
//! |---|---|
//! |`ffi`|the functions of the header: raw pointers become slices and owners here only|
//! |`service`|the service's address and limits|
//! |`key`|a loaded key: public part, signature, decryption|
//! |`queue`|a lane with many signatures in flight|
//! |`status`|numbers of failures, and the text of a thread's last one|

pub mod ffi;
mod key;
mod queue;
mod service;
mod status;
