//! What any face needs to work with stored keys: lanes for its operations, keys and the schemes they are used in.
//!
//! A face speaks the language of the programs that it is for; nothing here knows which. An operation is done by
//! [`call`] on a lane of the process's [`pool`](lanes::pool), and waits as its [`Caller`](pause::Caller) says. Whoever
//! calls may fork at any time, close descriptors that it did not open, have little stack and become another user.

pub mod agree;
pub mod aside;
pub mod bell;
pub mod call;
pub mod credentials;
pub mod decrypt;
pub mod digest;
pub mod failure;
pub mod find;
pub mod key;
pub mod lanes;
pub mod make;
pub mod pause;
pub mod pem;
pub mod sign;
