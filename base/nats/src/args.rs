//! The options of a connection.

use clap::Args;
use std::path::PathBuf;

/// Which farm, and how its NATS servers are reached.
#[derive(Clone, Debug, Args)]
pub struct Farm {
    /// The farm's name: letters, digits, - and _
    #[arg(long, value_name = "NAME", default_value = "farm", value_parser = name)]
    pub farm: String,
    /// NATS servers, e.g. `nats://one:4222` or `tls://two:4222`
    #[arg(long, value_name = "URL", env = "NATS_URL", value_delimiter = ',', default_value = "nats://127.0.0.1:4222")]
    pub server: Vec<String>,
    /// Credentials of a NATS account, as nsc writes them
    #[arg(long, value_name = "FILE", env = "NATS_CREDS")]
    pub creds: Option<PathBuf>,
    /// Certificate of the servers' authority, if the system does not know it
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// A certificate of one's own for the servers
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// Longest name of a farm, bytes.
pub const MAX_NAME_BYTES: usize = 32;

/// A name that cannot be part of a subject, with the most bytes that it may have.
#[derive(Debug, thiserror::Error)]
#[error("a name has 1 to {0} letters, digits, - and _")]
pub struct InvalidName(pub usize);

/// A name that can be part of a subject and of a stream's name.
///
/// # Errors
/// It is empty, longer than [`MAX_NAME_BYTES`], or has other characters than letters and digits of ASCII, `-` and `_`.
pub fn name(text: &str) -> Result<String, InvalidName> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if text.is_empty() || text.len() > MAX_NAME_BYTES || !text.bytes().all(plain) {
        return Err(InvalidName(MAX_NAME_BYTES));
    }
    Ok(text.to_owned())
}
