//! What every program on NATS has in common: the options that name servers and credentials, a connection that comes
//! back after each loss, its messages, and the signals that end the program.
//!
//! |Module|For|
//! |---|---|
//! |`args`|[`Farm`]: the options of the command line, and names that fit into subjects|
//! |`connect`|[`connect()`]: the connection, the login in an address, and errors with their remedies|
//! |`subscribe`|[`subscribe()`]: subscriptions whose messages are inputs of a loop|
//! |`signals`|[`Signals`]: an end in order, and at once by the second signal|

mod args;
mod connect;
mod signals;
mod subscribe;

pub use args::{Farm, InvalidName, MAX_NAME_BYTES, name};
pub use connect::error::ConnectError;
pub use connect::login::InvalidEscape;
pub use connect::{connect, connect_and_hear, denials, denied};
pub use signals::{SignalError, Signals};
pub use subscribe::{SubscribeError, next, subscribe};
