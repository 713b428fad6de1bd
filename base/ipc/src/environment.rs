//! Service settings of a program without a configuration: from its environment, or by default.

use crate::sys::secure::is_privileged;
use std::path::PathBuf;

/// Default path of the service's socket.
pub const DEFAULT_SOCKET: &str = "/run/sidecore/sidecore.sock";
/// The environment variable that names another socket, for service and clients.
pub const SOCKET_VARIABLE: &str = "SIDECORE_SOCKET";
/// The environment variable that names trusted users of a service, separated by commas, in addition to root and one's
/// own user.
pub const SERVICE_USER_VARIABLE: &str = "SIDECORE_SERVICE_USER";
/// The service's user in the package; trusted if no other user is named.
pub const DEFAULT_SERVICE_USER: &str = "sidecore";

/// The socket's path: the given one, that of the environment, or the default.
pub fn default_socket(environment: Option<&str>) -> PathBuf {
    PathBuf::from(environment.filter(|path| !path.is_empty()).unwrap_or(DEFAULT_SOCKET))
}

/// The socket's path for a program without a configuration: that of its environment, or the default.
pub fn socket_of_environment() -> PathBuf {
    default_socket(trusted_variable(SOCKET_VARIABLE).as_deref())
}

/// Users whose service a program without a configuration trusts, in addition to root and its own user.
pub fn service_users() -> Vec<String> {
    service_users_or(DEFAULT_SERVICE_USER)
}

/// As [`service_users`], with another default user.
pub fn service_users_or(default: &str) -> Vec<String> {
    named_users(trusted_variable(SERVICE_USER_VARIABLE).as_deref().unwrap_or(default))
}

/// Splits a list of users at its commas.
pub fn named_users(text: &str) -> Vec<String> {
    text.split(',').map(|user| user.trim().to_owned()).filter(|user| !user.is_empty()).collect()
}

/// A variable of the environment. `None` in a program with more rights than the user who started it: that user could
/// misuse them through the variable.
pub fn trusted_variable(name: &str) -> Option<String> {
    if is_privileged() { None } else { std::env::var(name).ok() }
}
