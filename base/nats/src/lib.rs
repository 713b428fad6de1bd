//! What programs on NATS have in common: the options that name servers and credentials, a connection that comes back
//! after each loss, its messages, what servers answer and have room for, and the signals that end the program.
//!
//! |Module|For|
//! |---|---|
//! |`acks`|[`Ack`]: answers of JetStream to published messages|
//! |`padding`|[`Padding`]: sizes of messages at which early servers lose none|
//! |`space`|[`shortage()`]: whether an account has room for streams|
//! |`args`|[`Farm`]: the options of the command line, and names that fit into subjects|
//! |`connect`|[`connect()`]: the connection, the login in an address, and errors with their remedies|
//! |`subscribe`|[`subscribe()`]: subscriptions whose messages are inputs of a loop|
//! |`signals`|[`Signals`]: an end in order, and at once by the second signal|

mod acks;
mod args;
mod connect;
mod padding;
mod signals;
mod space;
mod subscribe;

pub use acks::Ack;
pub use args::{Farm, InvalidName, MAX_NAME_BYTES, name};
pub use connect::error::ConnectError;
pub use connect::login::InvalidEscape;
pub use connect::{connect, connect_and_hear, denials, denied};
pub use padding::{LONGEST_SUBJECT, Padding, QUANTUM, size_of};
pub use signals::{SignalError, Signals};
pub use space::{Shortage, shortage};
pub use subscribe::{SubscribeError, next, subscribe};
