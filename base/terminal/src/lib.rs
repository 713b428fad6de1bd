//! Parts that the command's programs share.
//!
//! | Module | Contents |
//! |---|---|
//! | `error` | errors of these parts, exit code of an error |
//! | `arguments` | arguments, manual pages, completions |
//! | `output` | standard output and error, exit codes |
//! | `programs` | programs and libraries in the directories around this program |
//! | `screen`, `table` | a live view of the whole terminal, a table in it |
//! | `units` | amounts and times with few digits |
//! | `users` | names of users |
//! | `metrics` | metrics over HTTP |

pub mod arguments;
pub mod error;
#[cfg(feature = "watch")]
pub mod metrics;
pub mod output;
pub mod programs;
#[cfg(feature = "watch")]
pub mod screen;
#[cfg(feature = "watch")]
pub mod table;
pub mod units;
#[cfg(feature = "watch")]
pub mod users;
